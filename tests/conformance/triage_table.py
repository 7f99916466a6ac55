"""What triage says of every fault, beside the truth: `python tests/conformance/triage_table.py [GLOB]` prints it."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

for _folder in ("kernels", "oracle", "simulators"):
    sys.path.append(str(Path(__file__).parents[1] / _folder))

from triage_truth import cases, truths  # noqa: E402  # the fakes of other folders are on the path from here on

from tileproof.conformance.faults import faults  # noqa: E402
from tileproof.conformance.registry import find_case  # noqa: E402
from tileproof.conformance.triage.cause import Cause  # noqa: E402
from tileproof.conformance.triage.explanation import Explanation, Strength  # noqa: E402
from tileproof.conformance.triage.triage import observe, triage  # noqa: E402
from tileproof.simulators.ptx.device import Device  # noqa: E402


@dataclass(frozen=True)
class Row:
    """One fault.

    Args:
        fault: its name.
        right: the causes that are right.
        told: explanations, the strongest first.
    """

    fault: str
    right: frozenset[Cause]
    told: tuple[Explanation, ...]

    @property
    def is_right(self) -> bool:
        """Whether the first explanation names a right cause."""
        return self.told[0].cause in self.right

    @property
    def false_proofs(self) -> list[Explanation]:
        """Predictions of every bit by one wrong cause alone."""
        return [one for one in self.told if one.strength is Strength.PROVED and one.cause not in self.right]


def device(fault: str) -> Device:
    """Where a fault is run: those of the TMA ring show at a base of shared memory that is no multiple of 512."""
    if fault.startswith("tma-"):
        return Device(schedule="adversarial", seed=1, shared_base=0x480)
    return Device(schedule="friendly")


def measured(pattern: str = "*") -> Iterator[Row]:
    """Each fault that fits, run and triaged."""
    for name, case in cases().items():
        if fnmatch(name, pattern):
            one = faults()[name]
            scene = observe(find_case(case), device(name), fault=one)
            assert scene.findings, f"{name}: {case} finds nothing"
            yield Row(name, truths(one), triage(scene))


def main() -> None:
    """Prints a line a fault, then the share."""
    rows = []
    for row in measured(*sys.argv[1:2]):
        rows.append(row)
        said = f"{row.told[0].cause.name} ({row.told[0].strength.name})"
        truth = " or ".join(sorted(cause.name for cause in row.right))
        sys.stdout.write(f"{'ok' if row.is_right else 'NO'}  {row.fault:<45} {truth:<35} {said}\n")
        sys.stdout.flush()
    right = sum(row.is_right for row in rows)
    false = [row.fault for row in rows if row.false_proofs]
    sys.stdout.write(f"{right} of {len(rows)} named first; false proofs: {', '.join(false) or 'none'}\n")


if __name__ == "__main__":
    main()
