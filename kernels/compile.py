"""CUDA C++ to PTX and cubin by NVRTC, with no driver and no toolkit installed.

One compilation gives both: NVRTC keeps the PTX from which it assembled the cubin when the architecture is a real one
(`sm_90a`). So the PTX that the CPU device runs is the PTX of the code that the GPU runs.

Nothing of the machine enters the result. Sources are compiled below a virtual root, so that line information reads
`fp8_quantize_rows.cu` wherever the package is installed, and equal sources give equal PTX and equal cubin.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from tileproof.kernels import nvrtc
from tileproof.oracle.busy import busy
from tileproof.oracle.refusal import Refusal

# NOTE: NVRTC prefixes relative names with the working directory in line information, hence an absolute virtual root.
VIRTUAL_ROOT = "/tileproof/"

# NOTE: contraction is off because an unqualified PTX mul feeding an add may be fused by the assembler after all; our
# kernels write fma where they mean it.
COMMON_OPTIONS = ("--std=c++17", "--fmad=false", "--generate-line-info")

# Asks the assembler for its report; it changes no code.
REPORT_OPTION = "--ptxas-options=-v"
# Where there is a driver, NVRTC keeps results, and a kept one comes without its report (measured on H200, 13.0.88).
ANEW = "--no-cache"

_HEADER_PACKAGES = {
    "cuda_fp8.h": "nvidia-cuda-runtime",
    "crt/host_defines.h": "nvidia-cuda-crt",
    "nv/target": "nvidia-cuda-cccl",
}

_ARCHITECTURE = re.compile(r"sm_(\d+)[af]?")
_COMPILER_VERSION = re.compile(r"Cuda compilation tools, release [\d.]+, V([\d.]+)")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


class CompileError(Refusal):
    """The compiler rejected a source; the message holds its log, with our file names and line numbers."""


@dataclass(frozen=True)
class CompiledModule:
    """One source compiled for one architecture.

    Args:
        name: file name of the source, as line information gives it.
        arch: real architecture, for example "sm_90a".
        options: compiler options that decide the code (include directories are left out: they name the machine).
        ptx: PTX text with `.loc` line information.
        cubin: ELF image assembled from that PTX.
        compiler: "NVRTC " and its full version, for example "NVRTC 13.0.88".
        source_sha256: hex digest of the source text (headers not included).
        report: what the assembler says of each kernel's registers, spills and shared memory (see `resources`).
    """

    name: str
    arch: str
    options: tuple[str, ...]
    ptx: str
    cubin: bytes
    compiler: str
    source_sha256: str
    report: str = ""

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels, in the order of the PTX."""
        return tuple(_ENTRY.findall(self.ptx))


def compile_source(source: str, *, name: str, arch: str = "sm_90a", defines: tuple[str, ...] = ()) -> CompiledModule:
    """Compile CUDA C++ once per process; a second call with equal arguments returns the same object.

    Args:
        source: CUDA C++ text. It may include this package's *.cuh files and the CUDA headers.
        name: file name for line information and messages, without a directory.
        arch: real architecture with its suffix letter, for example "sm_90a".
        defines: macros as "NAME=VALUE", for sources that are compiled in several variants.

    Raises:
        CompileError: the source does not compile for this architecture.
        Refusal: `arch` is not a real architecture, or NVRTC or the CUDA headers are missing.
    """
    architecture_number(arch)
    return _compile(source, name, arch, defines)


def architecture_number(arch: str) -> int:
    """The compute capability times ten: 90 of "sm_90a".

    Raises:
        Refusal: `arch` is not a real architecture.
    """
    match = _ARCHITECTURE.fullmatch(arch)
    if match is None:
        raise Refusal(f"architecture {arch!r} is not a real one", hint="name it like sm_90a")
    return int(match[1])


@cache
def _compile(source: str, name: str, arch: str, defines: tuple[str, ...]) -> CompiledModule:
    options = (f"--gpu-architecture={arch}", *COMMON_OPTIONS, *(f"--define-macro={define}" for define in defines))
    includes = cuda_include_directories()
    asked = (*options, REPORT_OPTION, ANEW, *(f"--include-path={path}" for path in includes))
    try:
        with busy(f"compiling {name} for {arch}"):
            made = nvrtc.compile_program(source, VIRTUAL_ROOT + name, asked, headers=_own_headers())
    except nvrtc.Rejected as rejected:
        log = without_roots(rejected.log, includes).strip()
        raise CompileError(f"{name} does not compile for {arch}:\n{log}") from None
    return CompiledModule(
        name=name,
        arch=arch,
        options=options,
        ptx=without_roots(made.ptx, includes),
        cubin=made.cubin,
        compiler=compiler_version(made.ptx),
        source_sha256=hashlib.sha256(source.encode()).hexdigest(),
        report=made.log,
    )


@cache
def cuda_include_directories() -> tuple[Path, ...]:
    """Directories of the CUDA headers: the wheels', then those of a toolkit for what the wheels leave out.

    Raises:
        Refusal: a header that the CUDA headers themselves include is in none of them.
    """
    roots = tuple(_candidate_directories())
    directories = tuple(dict.fromkeys(path for path in (*roots, *(r / "cccl" for r in roots)) if path.is_dir()))
    for header, package in _HEADER_PACKAGES.items():
        if not any((path / header).is_file() for path in directories):
            raise Refusal(
                f"the CUDA header {header} is not installed",
                hint=f"install the package {package}, or let CUDA_HOME name a CUDA 13 toolkit",
            )
    return directories


def _candidate_directories() -> Iterator[Path]:
    from cuda import pathfinder

    found = pathfinder.find_nvidia_header_directory("cudart")
    if found is not None:
        yield Path(found)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        yield Path(nvcc).resolve().parent.parent / "include"


def _own_headers() -> Mapping[str, str]:
    """Name to text of this package's headers; the `#line` gives them the virtual root in line information."""
    files = resources.files("tileproof.kernels").iterdir()
    texts = {file.name: file.read_text() for file in files if file.name.endswith(".cuh")}
    return {name: f'#line 1 "{VIRTUAL_ROOT}{name}"\n{text}' for name, text in sorted(texts.items())}


def without_roots(text: str, includes: tuple[Path, ...]) -> str:
    """Compiler output with file names as a source would include them: no virtual root, no installed location."""
    for root in (VIRTUAL_ROOT, *(f"{path}/" for path in includes)):
        text = text.replace(root, "")
    return text


def compiler_version(ptx: str) -> str:
    """The full version stands only in the PTX's heading; nvrtcVersion() leaves the build out."""
    version = _COMPILER_VERSION.search(ptx)
    return f"NVRTC {version[1]}" if version else "NVRTC of unknown version"
