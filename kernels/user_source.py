"""Other people's kernel files: CUDA C++ with include paths, macros, options and name expressions, or bare PTX.

What a user's file is compiled with is what the user says, and no more: none of this package's headers is in reach, and
contraction is as the compiler has it by default. Messages of the compiler name files as the user names them.

A kernel is asked for by the name in its source: `scale`, or `scale<float, 256>` for an instance of a template. A name
that the PTX has already, because the kernel is `extern "C"`, costs nothing; any other becomes a name expression.
"""

import difflib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import nvrtc
from tileproof.kernels.compile import (
    ANEW,
    REPORT_OPTION,
    VIRTUAL_ROOT,
    CompiledModule,
    CompileError,
    architecture_number,
    compiler_version,
    cuda_include_directories,
    without_roots,
)
from tileproof.kernels.given_file import read_given_text
from tileproof.kernels.host_headers import FIRST, host_headers
from tileproof.oracle.busy import busy
from tileproof.oracle.refusal import Refusal

_STANDARD = "--std=c++17"
_LINES = "--generate-line-info"
_OURS = ("-arch", "--gpu-architecture", "-I", "--include-path", "-D", "--define-macro")
"""Options that have a place of their own."""

_KERNEL = re.compile(
    r"__global__\b(?:[^;{}()]|\([^()]*\))*?\b(?!__launch_bounds__|__cluster_dims__|__maxnreg__)(\w+)\s*\("
)
_NAMED = re.compile(r"^[^\n]*__nv_name_map[^\n]*\n.*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_HOST_CODE = ("execution space annotations", "is not allowed in JIT mode", "<<<")
_HOST_HINT = "NVRTC compiles device code alone: put host code and its includes behind #ifndef __CUDACC_RTC__"
_MISSING = re.compile(r'cannot open source file "([^"]+)"')


@dataclass(frozen=True)
class UserModule:
    """A user's file for one architecture.

    Args:
        module: as devices load it.
        entries: the names that were asked for, to those in the PTX.
    """

    module: CompiledModule
    entries: Mapping[str, str]


@dataclass(frozen=True)
class CompileSettings:
    """How a .cu file is compiled: include directories in order, macros as NAME or NAME=VALUE, further options."""

    includes: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def compile_user_source(
    text: str, path: Path, arch: str, names: Sequence[str], settings: CompileSettings
) -> UserModule:
    """Compile a user's CUDA C++.

    Args:
        text: of the file.
        path: of the file; headers beside it are found.
        arch: real architecture.
        names: kernels that must be in it, as its source names them; none for whatever it defines.
        settings: see CompileSettings.

    Raises:
        CompileError: it does not compile; the message has the compiler's words, with the user's own lines.
        Refusal: a kernel is not in it, with near names; an option that has its own place.
    """
    architecture_number(arch)
    options = _options(arch, settings)
    known = tuple(dict.fromkeys(_KERNEL.findall(text)))
    plain = tuple(name for name in names if "<" not in name and re.search(rf'extern\s+"C"[^;{{]*\b{name}\b', text))
    expressions = tuple(name for name in names if name not in plain)
    includes = (path.parent.resolve(), *(one.resolve() for one in settings.includes), *cuda_include_directories())
    asked = (*options, f"--pre-include={FIRST}", REPORT_OPTION, ANEW, *(f"--include-path={one}" for one in includes))
    try:
        with busy(f"compiling {path.name} for {arch}"):
            made = nvrtc.compile_program(
                text, VIRTUAL_ROOT + path.name, asked, headers=host_headers(), expressions=expressions
            )
    except nvrtc.Rejected as rejected:
        raise _complaint(path, arch, without_roots(rejected.log, includes), expressions, known) from None
    module = CompiledModule(
        name=path.name,
        arch=arch,
        options=options,
        ptx=without_roots(made.ptx, includes),
        cubin=made.cubin,
        compiler=compiler_version(made.ptx),
        source_sha256=hashlib.sha256(text.encode()).hexdigest(),
        report=made.log,
    )
    entries = {**{name: name for name in plain}, **made.lowered}
    _require(path, entries, module.entries, known)
    return UserModule(module, entries or _all_entries(path, module.entries, known))


def read_user_ptx(text: str, path: Path, arch: str, names: Sequence[str]) -> UserModule:
    """A user's PTX as a module: the GPU's driver assembles it, the CPU device runs it.

    Raises:
        Refusal: a kernel is not in it, with near names.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    module = CompiledModule(path.name, arch, (), text, text.encode() + b"\0", "PTX as given", digest)
    if not module.entries:
        raise Refusal(f"{path.name} has no kernel", hint="a PTX file has an .entry for each kernel")
    entries = {name: name for name in names}
    _require(path, entries, module.entries, module.entries)
    return UserModule(module, entries or _all_entries(path, module.entries, module.entries))


def read_kernel_file(path: Path) -> str:
    """The text of a kernel file. Raises: Refusal where it cannot be read, is too large, or is no text."""
    return read_given_text(path, no_text="give CUDA source or PTX, not a cubin")


def kernel_names(text: str) -> tuple[str, ...]:
    """Names that CUDA source declares after `__global__`, in order; a guess from the text alone."""
    return tuple(dict.fromkeys(_KERNEL.findall(text)))


def _options(arch: str, settings: CompileSettings) -> tuple[str, ...]:
    for option in settings.options:
        taken = next((one for one in _OURS if option == one or option.startswith((f"{one}=", f"{one} "))), None)
        if taken is not None:
            raise Refusal(f"option {option!r} has a place of its own", hint="say it by --arch, -I or -D")
    standard = () if any(option.startswith(("--std", "-std")) for option in settings.options) else (_STANDARD,)
    defines = tuple(f"--define-macro={define}" for define in settings.defines)
    return (f"--gpu-architecture={arch}", *standard, _LINES, *defines, *settings.options)


def _complaint(path: Path, arch: str, log: str, expressions: Sequence[str], known: tuple[str, ...]) -> Refusal:
    """What the compiler's log says: a wrong kernel name, or an error in the source."""
    own = re.sub(r"\n*\d+ errors? detected in the compilation of [^\n]*", "", _NAMED.sub("", log)).strip()
    if "__nv_name_map" in log and not re.search(r"\): error", own):
        said = re.search(r"__nv_name_map\(\d+\): error: ([^\n]*)", log)
        wanted = ", ".join(map(repr, expressions))
        return Refusal(
            f"{path.name} has no kernel {wanted}: {said[1] if said else 'the compiler does not know it'}",
            hint=_near(expressions[0], known),
        )
    missing = _MISSING.search(own)
    hint = _HOST_HINT if any(sign in own for sign in _HOST_CODE) else ""
    if missing is not None:
        hint = f"name the folder of {missing[1]} by -I; {_HOST_HINT}"
    return CompileError(f"{path.name} does not compile for {arch}:\n{own}", hint=hint)


def _require(path: Path, entries: Mapping[str, str], there: Sequence[str], known: Sequence[str]) -> None:
    for name, mangled in entries.items():
        if mangled not in there:
            raise Refusal(f"{path.name} has no kernel {name!r}", hint=_near(name, known or there))


def _all_entries(path: Path, there: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """The kernels of a file for which none was named; a single one has the name that its source gives it."""
    if len(there) == 1:
        return {known[0] if len(known) == 1 else there[0]: there[0]}
    if there:
        return {name: name for name in there}
    if known:
        raise Refusal(
            f"{path.name} has templates alone: {', '.join(known)}",
            hint=f"name an instance with its arguments, as '{known[0]}<float, 256>'",
        )
    raise Refusal(f"{path.name} has no kernel", hint="a kernel is a function with __global__")


def _near(name: str, known: Sequence[str]) -> str:
    base = name.partition("<")[0].rpartition("::")[2].strip()
    near = difflib.get_close_matches(base, known, n=3, cutoff=0.5) or list(known)
    return f"it has {', '.join(near)}" if near else "a kernel is a function with __global__"
