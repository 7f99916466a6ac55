"""One kernel of the order table on the CPU device."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from pair import PRELUDE, WORDS, Pair, Words, input_words
from table import PAIRS

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx import Device
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.findings import Report

SIDES = ("right", "wrong")
_ENTRY = re.compile(r"^\.visible \.entry (\w+)\(.*?^\}\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """What a launch showed: the report, and the words of `out` that the right kernel writes."""

    report: Report
    out: Words


@cache
def texts() -> Mapping[str, str]:
    """PTX of every kernel by its name. They are compiled in one go, which costs a fifth, and then taken apart, so that
    a launch decodes its own kernel alone."""
    kernels = (pair.kernel(side, name(pair, side)) for pair in PAIRS for side in SIDES)
    ptx = compile_source(PRELUDE + "".join(kernels), name="k.cu").ptx
    entries = list(_ENTRY.finditer(ptx))
    head, tail = ptx[: entries[0].start()], ptx[entries[-1].end() :]
    return {entry[1]: head + entry[0] + tail for entry in entries}


def name(pair: Pair, side: str) -> str:
    """The kernel's name among all of them."""
    return f"k{PAIRS.index(pair):03d}_{side}"


def launch(pair: Pair, side: str, schedule: str, seed: int) -> Shown:
    """Run one side of a pair."""
    device = Device(schedule=schedule, seed=seed)
    expected = pair.expected(input_words())
    out = device.allocate((expected.size,), np.uint32)
    words, work = device.upload(input_words()), device.upload(np.zeros(WORDS, np.uint32))
    kernel = device.load_ptx(texts()[name(pair, side)])[name(pair, side)]
    report = kernel.launch(
        grid=(pair.blocks, 1, 1),
        block=(pair.threads, 1, 1),
        cluster=(pair.cluster, 1, 1),
        args=(out, words, work, *((_rows(device, words),) if pair.tensor else ())),
    )
    return Shown(report, out.download())


def _rows(device: Device, words: Buffer) -> np.void:
    """A tensor map of 32 rows of 128 words, boxes of one row."""
    return device.tensor_map(words, dtype="uint32", shape=(128, 32), strides_bytes=(512,), box=(128, 1))
