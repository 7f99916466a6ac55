"""Where the foreign sources come from: packages that `make foreign` fetches, pinned, without what they depend on.

Triton is installed; of the other packages only the wheels are kept, and single files are read out of them. Nothing of
any of them is in this repository.
"""

import os
import sys
import zipfile
from functools import cache
from pathlib import Path

#: Beside the environment, so that nothing of it is installed there; another place for tests of this folder alone.
FOLDER = Path(os.environ.get("TILEPROOF_FOREIGN", Path(sys.prefix) / "foreign"))
#: As in the Makefile.
VERSIONS = {
    "triton": "3.9.0",
    "nvidia-cutlass": "4.2.0.0",
    "torchao": "0.18.0",
    "sglang": "0.5.23",
    "flashinfer-python": "0.7.4",
}
_REMEDY = "run `make foreign`, which fetches the packages"


class MissingPackage(Exception):
    """A package is not there, or another version of it: the tests of this folder fail, they are not skipped."""


@cache
def wheel(name: str) -> Path:
    """The wheel of a package.

    Raises:
        MissingPackage: it was not fetched.
    """
    pattern = f"{name.replace('-', '_')}-{VERSIONS[name]}-*.whl"
    found = sorted((FOLDER / "wheels").glob(pattern))
    if not found:
        raise MissingPackage(f"no {pattern} in {FOLDER / 'wheels'}: {_REMEDY}")
    return found[0]


def read(name: str, file: str) -> str:
    """A text file of a package."""
    with zipfile.ZipFile(wheel(name)) as archive:
        return archive.read(file).decode()


def unpack(name: str, folder: str, into: Path) -> Path:
    """All files of a package below a folder, as `into / folder`."""
    with zipfile.ZipFile(wheel(name)) as archive:
        for file in archive.namelist():
            if file.startswith(f"{folder}/"):
                archive.extract(file, into)
    return into / folder


def import_triton() -> None:
    """Make the pinned Triton importable.

    Raises:
        MissingPackage: it is not installed there.
    """
    if not (FOLDER / f"triton-{VERSIONS['triton']}.dist-info").is_dir():
        raise MissingPackage(f"no triton {VERSIONS['triton']} in {FOLDER}: {_REMEDY}")
    # NOTE: today's default, said aloud: without it the import warns that the next version's differs.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
