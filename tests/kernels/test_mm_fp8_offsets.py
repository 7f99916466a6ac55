"""No offset of mm_fp8 is cut to 32 bits, in no operand and in no dimension."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mm_fp8_call import SCALE, swapped

from tileproof.kernels import mm_fp8
from tileproof.kernels.mm_fp8 import BF16, E4M3, MmFp8
from tileproof.kernels.mm_fp8_dispatch import Route
from tileproof.kernels.source import expanded
from tileproof.kernels.tensor import Tensor
from tileproof.simulators.ptx.device import Device

FAR = 2**33 + 16
CUT = ("(first_row + row) * problem.out_stride", "static_cast<int>((first_row + row) * problem.out_stride)")


def reached(name: str, dimension: int, source: str, patch: pytest.MonkeyPatch) -> list[int]:
    """Elements from the first one of a tensor, FAR apart in one dimension, to where the kernel looks for others.

    So far apart they lie in no allocation of a test, and the finding says which address that was.
    """
    patch.setattr(mm_fp8, "check_tensors", lambda *_: {})  # which would refuse a view past its buffer
    device = Device(schedule="friendly")
    shapes = {"a": (2, 2, 64), "b": (2, 2, 64), "out": (2, 2, 2)}
    given: dict[str, Any] = {}
    for key, shape in shapes.items():
        whole = device.upload(np.zeros(shape, np.uint16 if key == "out" else np.uint8))
        given[key] = replace(Tensor.whole(whole), dtype=BF16 if key == "out" else E4M3)
    strides = list(given[name].strides)
    strides[dimension] = FAR
    given[name] = replace(given[name], strides=tuple(strides))
    scale = Tensor.whole(device.upload(SCALE))
    call = MmFp8(device, source=source)
    report = call(given["a"], swapped(given["b"]), scale, given["out"], route=Route.SMALL_LEAN).report
    assert report is not None
    found = [re.search(r"in no allocation [(]0x([0-9a-f]+)[)]", finding.message) for finding in report.findings]
    itemsize = given[name].dtype.itemsize
    return [(int(match[1], 16) - given[name].address) // itemsize for match in found if match is not None]


@pytest.mark.parametrize("dimension", [0, 1], ids=["matrix", "line"])
@pytest.mark.parametrize("name", ["a", "b", "out"])
def test_offsets_past_32_bits_are_not_cut(name: str, dimension: int, monkeypatch: pytest.MonkeyPatch) -> None:
    step, rest = divmod(reached(name, dimension, mm_fp8.SOURCE, monkeypatch)[0], FAR)
    assert step == 1
    assert rest < 2 * 64


def test_an_offset_that_is_cut_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = expanded("mm_fp8")
    assert source.count(CUT[0]) == 1
    assert reached("out", 1, source.replace(*CUT), monkeypatch) == []
