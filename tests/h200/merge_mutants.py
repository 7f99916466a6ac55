"""Results of `mutate.py` joined to those in docs/evidence/mutation.

python tests/h200/merge_mutants.py FOLDER [FOLDER ...]

A newer result takes the place of an older one of the same mutant, except that what is decided stays where the newer run
did not finish, and a proof stays where the same instructions only survived: the other machine may lack the assembler.
"""

import sys
from collections import Counter
from pathlib import Path

from tileproof.conformance.mutation.result import Outcome, Result, read_results, write_results

KNOWN = Path(__file__).parents[2] / "docs" / "evidence" / "mutation"


def joined(old: Result | None, new: Result) -> Result:
    """Which of two results of a mutant stays."""
    if old is None:
        return new
    if new.outcome is Outcome.UNFINISHED and old.outcome is not Outcome.UNFINISHED:
        return old
    if new.outcome is Outcome.SURVIVED and old.outcome is Outcome.EQUIVALENT and old.ptx == new.ptx:
        return old
    return new


def merge(folder: Path, known: Path = KNOWN) -> None:
    """All files of a folder into those of the same names, and a line about each."""
    for path in sorted(folder.glob("*.ndjson")):
        results = read_results(known / path.name)
        before = Counter(one.outcome for one in results.values())
        for name, one in read_results(path).items():
            results[name] = joined(results.get(name), one)
        write_results(known / path.name, results.values())
        after = Counter(one.outcome for one in results.values())
        words = ", ".join(f"{name} {before[name]} > {after[name]}" for name in Outcome)
        sys.stdout.write(f"{path.stem}: {words}\n")


def main() -> None:
    for folder in sys.argv[1:]:
        merge(Path(folder))


if __name__ == "__main__":
    main()
