"""Hostile texts on the fast engine with memories that end at pages which nobody may touch.

python guard_pages.py COUNT [beyond]

Compiled code works on host addresses. Here every memory of the device, and what is known of its bits, lies between two
forbidden pages: one byte too far kills the process. With `beyond` one is read, to show that it does.
"""

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
from async_kernels import module
from corpus import Source
from mutator import hostile
from trial import judge

from tileproof.simulators.ptx.machine import memory

_PAGE = mmap.PAGESIZE
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_kept: list[mmap.mmap] = []
PLACES = (-4, -16, 4096, 4092, 4088, 4100, 1 << 20, (1 << 31) - 4, 1 << 31, (1 << 32) - 4, -(1 << 31))


def guarded(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Zeros that end where a forbidden page begins."""
    pages = max(1, -(-nbytes // _PAGE))
    block = mmap.mmap(-1, (pages + 2) * _PAGE)
    array = np.frombuffer(block, np.uint8)
    start = array.ctypes.data
    for at in (start, start + (pages + 1) * _PAGE):
        assert _protect(at, _PAGE, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0) == 0
    _kept.append(block)
    end = (pages + 1) * _PAGE
    return array[end - nbytes : end]


class Guarded:
    """numpy, but for the zeros of bytes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any = float) -> Any:
        """Bytes between forbidden pages; all else as ever."""
        return guarded(shape) if dtype is np.uint8 and isinstance(shape, int) and shape else np.zeros(shape, dtype)


def at_the_edges() -> list[Source]:
    """Accesses of every width around the ends of shared, local and global memory, at registers and immediates."""
    texts = []
    for place in PLACES:
        for form in ("u8 %h1", "u32 %r2", "u64 %d6", "v4.u32 {%r2, %r3, %r4, %r5}"):
            kind, value = form.split(" ", 1)
            body = f"mov.u32 %r6, tile; add.s32 %r6, %r6, {place}; add.s64 %d5, %d1, {place}; "
            for space, base in (("shared", "%r6"), ("global", "%d5"), ("shared", f"tile+{place}")):
                texts.append(f"{body} ld.{space}.{kind} {value}, [{base}]; st.{space}.{kind} [{base}], {value}; ret;")
            texts.append(f".local .align 16 .b8 l[32]; {body} ld.local.{kind} {value}, [l+{place}]; ret;")
        texts.append(
            f"mov.u32 %r6, tile; add.s32 %r6, %r6, {place}; and.b32 %r6, %r6, -16; "
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r6]; "
            "cp.async.cg.shared.global [%r6], [%d1], 16; cp.async.wait_all; ret;"
        )
    return [Source("edge", module(body, "")) for body in texts]


def main(count: int, beyond: str = "") -> int:
    """Run them all; the process ends by a signal if anything reaches a forbidden page."""
    vars(memory)["np"] = Guarded()
    if beyond:
        ctypes.string_at(guarded(64).ctypes.data + 64, 1)
    ends = [judge(text).end for text in (*at_the_edges(), *map(hostile, range(count)))]
    sys.stdout.write(f"{len(ends)} texts, {len(_kept)} memories, {ends.count('findings')} with findings\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
