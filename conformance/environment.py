"""What a run stood on: one block, the same in `tileproof env`, in each event file and in each crash file.

Versions are those of what is *loaded* where that can be asked (NVRTC, the driver), because an installed package may
not be the one in use. Every probe is guarded: a missing GPU is an answer, not an error. No name of a machine or of
a user is taken.
"""

import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

ABSENT = "none"

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Environment:
    """Versions and devices, each a short text; "none" where there is none.

    Args:
        tileproof: version of this package.
        git: commit and "clean", or "modified" with a digest of what is, if the package runs from a checkout.
        python: version and implementation.
        platform: operating system and machine type.
        numpy: version.
        ml_dtypes: version.
        nvrtc: version of the NVRTC library that is loaded.
        cupy: version, if installed.
        driver: the CUDA version that the loaded driver supports.
        gpu: name, compute capability and memory of each GPU.
    """

    tileproof: str
    git: str
    python: str
    platform: str
    numpy: str
    ml_dtypes: str
    nvrtc: str
    cupy: str
    driver: str
    gpu: str


def tileproof_version() -> str:
    """The installed version of tileproof; "none" where it is imported without being installed."""
    return _installed("tileproof")


@lru_cache(maxsize=1)
def capture() -> Environment:
    """Asks for everything; takes well under a second and is done once a process."""
    driver, gpu = _guarded(_driver_and_gpus, (ABSENT, ABSENT))
    return Environment(
        tileproof=tileproof_version(),
        git=_guarded(_git_state, ABSENT),
        python=f"{platform.python_version()} {platform.python_implementation()}",
        platform=f"{sys.platform} {platform.machine()}",
        numpy=_installed("numpy"),
        ml_dtypes=_installed("ml_dtypes"),
        nvrtc=_guarded(_nvrtc_version, ABSENT),
        cupy=_first_installed("cupy-cuda13x", "cupy-cuda12x", "cupy"),
        driver=driver,
        gpu=gpu,
    )


def describe(fields: Mapping[str, str]) -> str:
    """One line a field, names aligned."""
    width = max(map(len, fields))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in fields.items())


def _guarded(probe: Callable[[], Answer], otherwise: Answer) -> Answer:
    try:
        return probe()
    except Exception:  # a probe asks foreign libraries, whose ways to fail are not ours to list
        return otherwise


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ABSENT


def _first_installed(*names: str) -> str:
    return next((f"{found} ({name})" for name in names if (found := _installed(name)) != ABSENT), ABSENT)


def _nvrtc_version() -> str:
    from cuda.bindings import nvrtc

    error, major, minor = nvrtc.nvrtcVersion()
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return ABSENT
    return f"{major}.{minor} (package {_installed('nvidia-cuda-nvrtc')})"


def _driver_and_gpus() -> tuple[str, str]:
    from cuda.bindings import driver

    number = _ask(driver.cuDriverGetVersion())
    supported = f"CUDA {number // 1000}.{number % 1000 // 10}"
    try:
        _ask(driver.cuInit(0))
        found = [_gpu(driver, index) for index in range(_ask(driver.cuDeviceGetCount()))]
    except RuntimeError as error:
        return supported, f"{ABSENT} ({error})"
    return supported, ", ".join(found) or ABSENT


def _gpu(driver: Any, index: int) -> str:
    device = _ask(driver.cuDeviceGet(index))
    name = _ask(driver.cuDeviceGetName(100, device)).split(b"\0")[0].decode()
    attribute = driver.CUdevice_attribute
    major = _ask(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = _ask(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    return f"{name}, sm_{major}{minor}, {_ask(driver.cuDeviceTotalMem(device)) >> 30} GiB"


def _ask(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call: each returns its status first. Raises: RuntimeError with the status."""
    if int(answer[0]) != 0:
        raise RuntimeError(str(answer[0]))
    return answer[1] if len(answer) > 1 else None


def _git_state() -> str:
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ABSENT
    commit = _git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
    changes = _git(root, "diff", "HEAD", "--no-ext-diff", "--no-color", "--binary")
    return f"{commit} modified {hashlib.sha256(changes).hexdigest()[:8]}" if changes else f"{commit} clean"


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, timeout=5, check=True).stdout
