"""One compilation by NVRTC: the library's calls, its log, and what it gives.

Names of templates' instances are asked for by *name expressions*: the expression `scale<float, 256>` makes NVRTC
instantiate the template, and says under which mangled name the PTX has it, `_Z5scaleIfLi256EEvPf`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tileproof.oracle.refusal import Refusal


class Rejected(Exception):
    """The compiler rejected the source; `log` says why."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@dataclass(frozen=True)
class Compilation:
    """What one compilation gave.

    Args:
        log: the compiler's and the assembler's messages.
        ptx: PTX text.
        cubin: ELF image, empty where the architecture is a virtual one.
        lowered: mangled names by name expression.
    """

    log: str
    ptx: str
    cubin: bytes
    lowered: Mapping[str, str]


def compile_program(
    source: str, name: str, options: Sequence[str], *, headers: Mapping[str, str], expressions: Sequence[str] = ()
) -> Compilation:
    """Compile CUDA C++.

    Args:
        source: the text.
        name: file name for messages and line information.
        options: as NVRTC takes them.
        headers: further files by the name that a source includes them by.
        expressions: name expressions.

    Raises:
        Rejected: the source does not compile.
        Refusal: NVRTC is missing or fails otherwise.
    """
    nvrtc = _nvrtc()
    texts, names = [text.encode() for text in headers.values()], [header.encode() for header in headers]
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), len(headers), texts, names))
    try:
        for expression in expressions:
            _checked(nvrtc, (*nvrtc.nvrtcAddNameExpression(program, expression.encode()), None))
        arguments = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        log = _text(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION or (
            status != nvrtc.nvrtcResult.NVRTC_SUCCESS and log.strip()
        ):
            raise Rejected(log)
        _checked(nvrtc, (status, None))
        lowered = {one: _checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, one.encode())) for one in expressions}
        return Compilation(
            log=log,
            ptx=_text(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
            cubin=_bytes(nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
            lowered={one: bytes(mangled).decode() for one, mangled in lowered.items()},
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc() -> ModuleType:
    """The bindings, with the library loaded: a missing library shows only at the first call."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise Refusal(
            f"NVRTC cannot be loaded: {error}", hint="install the packages cuda-bindings and nvidia-cuda-nvrtc==13.0.88"
        ) from error
    module: ModuleType = nvrtc
    return module


def _checked(nvrtc: ModuleType, result: tuple[Any, ...]) -> Any:
    """The value of a call of the bindings, which return (status, value)."""
    status, value = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise Refusal(f"NVRTC failed: {status.name}")
    return value


def _bytes(nvrtc: ModuleType, program: Any, size: Callable[[Any], Any], fill: Callable[[Any, Any], Any]) -> bytes:
    buffer = bytearray(_checked(nvrtc, size(program)))
    (status,) = fill(program, buffer)
    return bytes(_checked(nvrtc, (status, buffer)))


def _text(nvrtc: ModuleType, program: Any, size: Callable[[Any], Any], fill: Callable[[Any, Any], Any]) -> str:
    return _bytes(nvrtc, program, size, fill).rstrip(b"\0").decode(errors="replace")
