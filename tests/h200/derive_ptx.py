"""Which PTX the recordings of cases ran that were made before runs said so: from the repository's history.

python tests/h200/derive_ptx.py docs/evidence/h200-DATE

A recording names the commit that its machine had, and that some files were newer ("modified"); the text that ran lies
between that commit and the one that brought the recording here. So a kernel is taken to have run as it is in both, and
only where both give one PTX; of any other nothing is said, and what it ran has to run again. Which kernels a case
launches is asked of today's launchers. Writes FOLDER/ptx.json.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_file import FILE, read_modules
from tileproof.conformance.evidence.kernel_key import instance_name
from tileproof.conformance.evidence.launched import launches
from tileproof.conformance.evidence.normal_ptx import ptx_digests
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.registry import contracts, find_case
from tileproof.kernels.compile import compile_source
from tileproof.oracle.refusal import Refusal

INCLUDE = re.compile(r'#include "(\w+\.cuh)"')


def main() -> None:
    folder = Path(sys.argv[1])
    found = {}
    for path in sorted(folder.glob("*cases.json")):
        recording = json.loads(path.read_text())
        if "launched" not in recording:
            found[path.name] = of_recording(path, recording)
    what = "the PTX that older recordings ran, by tests/h200/derive_ptx.py: digest of the normal form, by kernel"
    (folder / "ptx.json").write_text(json.dumps({"what": what, "recordings": found}, indent=0) + "\n")


def of_recording(path: Path, recording: Mapping[str, Any]) -> dict[str, str]:
    """Instance to digest, of the kernels whose text is the same at both ends."""
    before = recording["environment"]["git"].split()[0]
    after = git("log", "-1", "--format=%h", "--", str(path)).strip()
    device = DryDevice(read_modules(path.parents[1] / FILE))
    ids = [*recording["digests"], *recording["passed_with_different_bytes"]]
    known = [name for name in ids if name.split("/")[0] in contracts()]
    ran = {key.instance for keys in launches(map(find_case, known), device).values() for key in keys}
    found = {}
    for variant, module in device.modules.items():
        first, last = (dict(digests(commit, variant, module.arch)) for commit in (before, after))
        for entry in module.entries:
            name = instance_name(variant, entry)
            if name in ran and entry in first and first[entry] == last.get(entry):
                found[name] = first[entry]
    sys.stdout.write(f"{path.name}: {before} to {after}, {len(found)} of {len(ran)} kernels\n")
    return dict(sorted(found.items()))


def digests(commit: str, variant: Variant, arch: str) -> Mapping[str, str]:
    """Of the entries of a variant as it was; none where it was not there or did not compile."""
    try:
        return of_text("\n".join(lines(commit, f"{variant.kernel}.cu", set())) + "\n", variant, arch)
    except (Refusal, subprocess.CalledProcessError):
        return {}


@cache
def of_text(text: str, variant: Variant, arch: str) -> Mapping[str, str]:
    return ptx_digests(compile_source(text, name=f"{variant.kernel}.cu", arch=arch, defines=variant.defines).ptx)


def lines(commit: str, file: str, seen: set[str]) -> Iterator[str]:
    """The text of a file at a commit, each of our headers in place of its first `#include`."""
    for line in shown(commit, file).splitlines():
        header = INCLUDE.fullmatch(line)
        if header is None:
            yield "" if line == "#pragma once" else line
        elif header[1] not in seen:
            seen.add(header[1])
            yield from lines(commit, header[1], seen)


@cache
def shown(commit: str, file: str) -> str:
    return git("show", f"{commit}:kernels/{file}")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
