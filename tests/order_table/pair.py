"""One row of the order table: a right micro-kernel, and the wrong one that an edit makes of it.

All kernels are `k(unsigned* out, const unsigned* in, unsigned* work)`: `in` holds 4096 words that all differ,
`work` 4096 zeros, and `out` has a word for each thread of the launch. What a right kernel leaves in `out` is a function
of `in`. A kernel with a tensor has a fourth argument, a tensor map of `in` as 32 rows of 128 words, boxes of one row.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PRELUDE = Path(__file__).with_name("prelude.cuh").read_text()
Words = NDArray[np.uint32]
WORDS = 4096


def input_words() -> Words:
    """Different words in every place."""
    return np.arange(WORDS, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(12345)


@dataclass(frozen=True)
class Pair:
    """One edge of the order.

    Args:
        name: short, for tables and test ids.
        edge: what orders, in words.
        body: CUDA text of the kernel's body; the right one.
        edit: text in the body, and what the wrong kernel has instead.
        expected: `in` to the words that the right kernel leaves in `out`.
        blocks: of the grid.
        threads: of a block.
        cluster: blocks of a cluster.
        kinds: findings that the wrong kernel may have; at least one of them must come.
        visible: whether a wrong value can come out at all.
        tensor: the kernel has a tensor map.
        may_hang: the wrong kernel may wait for ever, so a GPU does not get it.
    """

    name: str
    edge: str
    body: str
    edit: tuple[str, str]
    expected: Callable[[Words], Words]
    blocks: int = 1
    threads: int = 128
    cluster: int = 1
    kinds: tuple[str, ...] = ("race",)
    visible: bool = True
    tensor: bool = False
    may_hang: bool = False

    def kernel(self, side: str, name: str = "k") -> str:
        """CUDA text of one kernel; it needs PRELUDE before it.

        Args:
            side: "right" or "wrong".
            name: of the kernel.
        """
        old, new = self.edit
        if self.body.count(old) != 1:
            raise ValueError(f"{self.name}: the text to edit stands {self.body.count(old)} times in the kernel")
        body = self.body if side == "right" else self.body.replace(old, new)
        cluster = f"__cluster_dims__({self.cluster}) " if self.cluster > 1 else ""
        tensor = ", const __grid_constant__ Map map" if self.tensor else ""
        return (
            f'extern "C" __global__ void {cluster}__launch_bounds__({self.threads}) '
            f"{name}(unsigned* out, const unsigned* in, unsigned* work{tensor}) {{\n"
            f"    const unsigned t = threadIdx.x, b = blockIdx.x, g = b * {self.threads} + t;\n{body}\n}}\n"
        )

    @property
    def digest(self) -> str:
        """Of all that decides what the two kernels do: evidence of another digest is of other kernels."""
        parts = (self.body, *self.edit, self.blocks, self.threads, self.cluster)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
