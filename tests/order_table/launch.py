"""One kernel of the order table on the CPU device."""

from dataclasses import dataclass

import numpy as np
from pair import WORDS, Pair, Words, input_words

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx import Device
from tileproof.simulators.ptx.findings import Report


@dataclass(frozen=True)
class Shown:
    """What a launch showed: the report, and the words of `out` that the right kernel writes."""

    report: Report
    out: Words


def launch(pair: Pair, source: str, schedule: str, seed: int) -> Shown:
    """Run a source of a pair."""
    device = Device(schedule=schedule, seed=seed)
    expected = pair.expected(input_words())
    out = device.allocate((expected.size,), np.uint32)
    words, work = device.upload(input_words()), device.upload(np.zeros(WORDS, np.uint32))
    kernel = device.load(compile_source(source, name="k.cu"))["k"]
    map_ = device.tensor_map(words, dtype="uint32", shape=(128, 32), strides_bytes=(512,), box=(128, 1))
    report = kernel.launch(
        grid=(pair.blocks, 1, 1),
        block=(pair.threads, 1, 1),
        cluster=(pair.cluster, 1, 1),
        args=(out, words, work, *([map_] if pair.tensor else [])),
    )
    return Shown(report, out.download())
