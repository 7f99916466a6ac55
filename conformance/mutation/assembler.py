"""NVIDIA's assembler as a judge of two PTX texts: equal machine code does the same.

nvJitLink assembles PTX without a driver. Compared is what a GPU loads: code, constants, variables and what is asked of
the launch, not line information, which holds the PTX itself. Its package is one of development: where it is missing
nothing is proved by it, and what it could have proved counts as a survivor.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

_LOADED = (b".text", b".nv.info", b".nv.constant", b".nv.global", b".nv.shared")
_NO_BYTES = 8  # SHT_NOBITS: what is zero at the beginning


@dataclass(frozen=True)
class Assembled:
    """A cubin.

    Args:
        assembler: name and version.
        sha256: of its sections that a GPU loads.
    """

    assembler: str
    sha256: str


@lru_cache(maxsize=8)
def assemble(ptx: str, arch: str) -> Assembled | str | None:
    """The cubin of a text; what the assembler says where it refuses the text; None where there is no assembler."""
    linker = _linker()
    if linker is None:
        return None
    handle = linker.create(3, [f"-arch={arch}", "-O3", "-no-cache"])
    try:
        return _assembled(linker, handle, ptx.encode())
    except linker.nvJitLinkError:
        return _log(linker, handle)
    finally:
        linker.destroy(handle)


def _assembled(linker: ModuleType, handle: Any, text: bytes) -> Assembled:
    linker.add_data(handle, linker.InputType.PTX, text, len(text), "mutant")
    linker.complete(handle)
    cubin = bytearray(linker.get_linked_cubin_size(handle))
    linker.get_linked_cubin(handle, cubin)
    version = ".".join(map(str, linker.version()))
    digest = hashlib.sha256()
    for name, content in sorted(sections(bytes(cubin))):
        if name.startswith(_LOADED):
            digest.update(name + b"\0" + content)
    return Assembled(f"nvJitLink {version}", digest.hexdigest())


def sections(cubin: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents, or lengths, of the sections of a cubin, a little-endian ELF file of 64 bits."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, offset + size * number) for number in range(count)]
    names_at = headers[names][4]
    for name_at, kind, _, _, start, length in headers:
        name = cubin[names_at + name_at : cubin.index(b"\0", names_at + name_at)]
        yield name, (length.to_bytes(8, "little") if kind == _NO_BYTES else cubin[start : start + length])


def _log(linker: ModuleType, handle: Any) -> str:
    log = bytearray(linker.get_error_log_size(handle))
    linker.get_error_log(handle, log)
    return " ".join(log.rstrip(b"\0").decode(errors="replace").split())[:200]


def available() -> bool:
    """Whether there is an assembler."""
    return _linker() is not None


@lru_cache(maxsize=1)
def _linker() -> ModuleType | None:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError):
        return None
    module: ModuleType = nvjitlink
    return module
