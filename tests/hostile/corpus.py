"""PTX texts that are right, or nearly so: what hostile ones are made of."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import launch as order_table
import order_pairs_async
import order_pairs_checks
import order_pairs_cluster
import order_pairs_memory
import order_pairs_waves
import order_pairs_wgmma
import tensor_kernels
from order_pair import variant
from random_pipelines import random_pipeline
from random_program import random_program
from table import PAIRS

from tileproof.kernels.compile import compile_source
from tileproof.kernels.source import kernel_text

_PAIRS = (
    order_pairs_async,
    order_pairs_checks,
    order_pairs_cluster,
    order_pairs_memory,
    order_pairs_waves,
    order_pairs_wgmma,
)
_RANDOM, _PIPELINES = 40, 20
_TENSOR = tuple(
    tensor_kernels.PARAM_MAP + tensor_kernels.INIT + part
    for part in (
        tensor_kernels.EXPECT + tensor_kernels.LOAD + tensor_kernels.WAIT + tensor_kernels.OUT,
        tensor_kernels.FILL + tensor_kernels.STORE,
    )
)
_SHIPPED = ("fp8_quantize_rows", "fp8_a8_gemm_fallback")
# Debug sections stand at the end of a compiler's text.
_TAIL = re.compile(r"^\t?\.(?:section|file)\b.*\Z", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^\.visible \.entry (\w+)\(.*?^\}\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Source:
    """One text with a launch that fits it.

    Attributes:
        name: where it is from.
        text: PTX that runs on sm_90a.
        blocks: of the grid.
        threads: of a block.
        cluster: blocks of a cluster.
    """

    name: str
    text: str
    blocks: int = 1
    threads: int = 64
    cluster: int = 1


@cache
def small() -> tuple[Source, ...]:
    """Texts of one to six kilobytes, which are read in a few milliseconds."""
    return (*_pairs(), *_random())


@cache
def compiled() -> tuple[Source, ...]:
    """What NVRTC makes of the order table's kernels and of each shipped one."""
    return (*_table(), *_kernels())


def _pairs() -> Iterator[Source]:
    for module in _PAIRS:
        for name, pair in module.PAIRS.items():
            for right in (True, False):
                text = pair.frame(variant(pair.body, right))
                yield Source(f"pair {name} {right}", text, pair.blocks, pair.threads, pair.cluster)


def _random() -> Iterator[Source]:
    for seed in range(_RANDOM):
        program = random_program(seed)
        yield Source(f"random {seed}", program.text, min(program.blocks, 2), program.threads)
    for seed in range(_PIPELINES):
        yield Source(f"pipeline {seed}", random_pipeline(seed), threads=128)
    for number, body in enumerate(_TENSOR):
        yield Source(f"tensor {number}", tensor_kernels.module(body))


def _table() -> Iterator[Source]:
    for pair in PAIRS:
        for side in order_table.SIDES:
            name = order_table.name(pair, side)
            text = _TAIL.sub("", order_table.texts()[name])
            yield Source(f"table {name}", text, pair.blocks, pair.threads, pair.cluster)


def _kernels() -> Iterator[Source]:
    """Each kernel of the shipped modules alone; the longest, of hundreds of kilobytes, are left out."""
    for name in _SHIPPED:
        ptx = compile_source(kernel_text(name), name=f"{name}.cu").ptx
        entries = list(_ENTRY.finditer(ptx))
        for entry in entries:
            if len(entry[0]) < 1 << 16:
                yield Source(f"{name} {entry[1]}", ptx[: entries[0].start()] + entry[0], threads=128)
