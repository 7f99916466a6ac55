"""What mm_fp8 refuses, in which words, before anything is compiled; and which views it takes as they are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mm_fp8_call import Call, check, swapped

from tileproof.kernels import mm_fp8
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.kernels.mm_fp8 import BF16, E4M3, E5M2, F32, MmFp8
from tileproof.kernels.mm_fp8_dispatch import Layout, Route
from tileproof.kernels.mm_fp8_operands import lines_of
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

BFLOAT16_32 = 0x4200
"""32, the sum of as many ones."""


class Bench:
    """A legal call whose arguments a test replaces."""

    def __init__(self) -> None:
        self.device = Device(schedule="friendly")
        self.arguments: dict[str, Any] = {
            "a": self.tensor((4, 32), E4M3),
            "b": self.tensor((32, 8), E4M3),
            "scale": self.tensor((1,), F32),
            "out": self.tensor((4, 8), BF16),
        }

    def tensor(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None) -> Tensor:
        """Zeros, enough of them for every view of a test."""
        buffer = self.device.upload(np.zeros(4096, np.uint8))
        return Tensor(buffer, dtype, shape, strides or contiguous_strides(shape))

    def call(self, **given: Any) -> Any:
        """The call with other arguments."""
        return MmFp8(self.device)(**{**self.arguments, **given})


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def refused(bench: Bench, message: str, **given: Any) -> None:
    with pytest.raises(Refusal, match=message):
        bench.call(**given)


def test_formats_must_be_fp8_and_alike(bench: Bench) -> None:
    refused(
        bench, "a has element type bfloat16; it must be float8_e4m3fn or float8_e5m2", a=bench.tensor((4, 32), BF16)
    )
    refused(bench, "b has element type uint8", b=bench.tensor((32, 8), np.dtype(np.uint8)))
    refused(bench, "a has format float8_e4m3fn and b float8_e5m2; they must be alike", b=bench.tensor((32, 8), E5M2))


def test_extents_must_fit(bench: Bench) -> None:
    refused(bench, "b has K = 31, but a has K = 32", b=bench.tensor((31, 8), E4M3))
    refused(bench, "out has N = 9, but b has N = 8", out=bench.tensor((4, 9), BF16))
    refused(bench, "out has M = 5, but a has M = 4", out=bench.tensor((5, 8), BF16))
    refused(bench, "a has K = 0; the least is 1", a=bench.tensor((4, 0), E4M3), b=bench.tensor((0, 8), E4M3))
    refused(bench, "a has 1 dimensions .32,.; it must have 2 or 3", a=bench.tensor((32,), E4M3))
    refused(bench, "a has 4 dimensions", a=bench.tensor((1, 1, 4, 32), E4M3))


def test_batches_must_be_equal_or_one(bench: Bench) -> None:
    three, two = bench.tensor((3, 4, 32), E4M3), bench.tensor((2, 32, 8), E4M3)
    refused(bench, "a has 3 matrices and b 2; as many, or one, are legal", a=three, b=two)
    refused(bench, "out has 2 dimensions; with these operands it must have 3", a=three)
    refused(bench, "out has 3 dimensions; with these operands it must have 2", out=bench.tensor((1, 4, 8), BF16))
    refused(bench, "out has 2 matrices; the operands make 3", a=three, out=bench.tensor((2, 4, 8), BF16))
    many = bench.tensor((65536, 1, 1), E4M3, (1, 1, 1))
    one, out = bench.tensor((1, 1), E4M3), bench.tensor((65536, 1, 1), BF16)
    refused(bench, "a has B = 65536; the most is 65535", a=many, b=one, out=out)


def test_scales_must_be_float32_scalars_that_the_call_has_a_use_for(bench: Bench) -> None:
    scale, fp8_out, fp8_bias = bench.tensor((), F32, ()), bench.tensor((4, 8), E4M3), bench.tensor((8,), E4M3)
    refused(bench, "scale has 4 elements; it must be a float32 scalar", scale=bench.tensor((4,), F32))
    refused(bench, "scale has element type bfloat16; it must be float32", scale=bench.tensor((1,), BF16))
    refused(bench, "an e4m3 output is given out_scale, and a bfloat16 output none", out=fp8_out)
    refused(bench, "an e4m3 output is given out_scale, and a bfloat16 output none", out_scale=scale)
    refused(bench, "an FP8 bias is given bias_scale", bias=fp8_bias)
    refused(bench, "a bfloat16 bias or none is given none", bias=bench.tensor((8,), BF16), bias_scale=scale)
    refused(bench, "a bfloat16 bias or none is given none", bias_scale=scale)


def test_bias_and_output_are_of_few_types(bench: Bench) -> None:
    refused(
        bench, "out has element type float8_e5m2; it must be bfloat16 or float8_e4m3fn", out=bench.tensor((4, 8), E5M2)
    )
    refused(
        bench,
        "bias has element type float8_e5m2; it must be bfloat16, or float8_e4m3fn as a and b",
        bias=bench.tensor((8,), E5M2),
    )
    refused(bench, "bias has N = 7, but b has N = 8", bias=bench.tensor((7,), BF16))
    refused(bench, "bias has 2 dimensions", bias=bench.tensor((1, 8), BF16))
    refused(bench, "bias has stride 2 in dimension 0; it must be 1", bias=bench.tensor((8,), BF16, (2,)))


def test_views_that_the_kernel_cannot_walk_are_refused(bench: Bench) -> None:
    refused(bench, "a has strides .64, 2.; one of its last two must be 1", a=bench.tensor((4, 32), E4M3, (64, 2)))
    refused(
        bench,
        "a has stride 0 in dimension 0; the least is 32: rows would overlap",
        a=bench.tensor((4, 32), E4M3, (0, 1)),
    )
    refused(bench, "a has stride -32 in dimension 0; the least is 0", a=bench.tensor((4, 32), E4M3, (-32, 1)))
    refused(bench, "out has strides .1, 4.; its last one must be 1", out=bench.tensor((4, 8), BF16, (1, 4)))
    out = bench.tensor((3, 4, 8), BF16, (0, 8, 1))
    refused(bench, "out has stride 0 in dimension .; the least is", a=bench.tensor((3, 4, 32), E4M3), out=out)


def test_an_output_has_memory_of_its_own_on_the_same_device(bench: Bench) -> None:
    given = bench.arguments["a"]
    refused(bench, "out .output. overlaps a .input.", out=Tensor(given.buffer, BF16, (4, 8), (8, 1)))
    refused(bench, "out begins at byte 1 past a multiple of 2", out=replace(bench.arguments["out"], offset_bytes=1))
    stranger = Tensor.whole(Device().upload(np.zeros(1, np.float32)))
    refused(bench, "scale lies on another device than sim", scale=stranger)
    refused(bench, "a covers bytes 4000 to 4128 of a buffer of 4096", a=replace(given, offset_bytes=4000))


def test_an_architecture_without_an_fp8_matrix_unit_is_refused() -> None:
    with pytest.raises(Refusal, match="sm_80 has no FP8 matrix unit; the first is sm_89"):
        MmFp8(Device(arch="sm_80"))


def test_a_name_that_is_no_variant_is_refused(bench: Bench) -> None:
    refused(bench, "no variant is called 32x32; known are 128x128-s2, ", route="32x32")


@pytest.mark.parametrize(
    ("shape", "strides"), [((0, 32), (32, 1)), ((2, 0, 32), (0, 32, 1)), ((0, 4, 32), (128, 32, 1))]
)
def test_an_empty_output_launches_nothing(bench: Bench, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    out = bench.tensor((*shape[:-1], 8), BF16)
    launch = bench.call(a=bench.tensor(shape, E4M3, strides), out=out)
    assert launch.route == NOTHING_TO_LAUNCH
    assert launch.report is None


def test_an_empty_bias_is_none(bench: Bench) -> None:
    assert bench.call(bias=bench.tensor((0,), BF16)).route == Route.SMALL_LEAN


def test_the_scale_of_an_empty_fp8_bias_goes_with_it(bench: Bench) -> None:
    """Without columns the bias that fits has no elements, and a caller's bias_scale is there all the same."""
    empty, scale = bench.tensor((0,), E4M3), bench.tensor((1,), F32)
    b, out = bench.tensor((32, 0), E4M3), bench.tensor((4, 0), BF16)
    assert bench.call(b=b, out=out, bias=empty, bias_scale=scale).route == NOTHING_TO_LAUNCH
    refused(bench, "a bfloat16 bias or none is given none", bias=bench.tensor((0,), BF16), bias_scale=scale)


def test_a_transposed_view_is_folded_into_the_layout(bench: Bench) -> None:
    plain = lines_of("a", bench.tensor((4, 32), E4M3))
    turned = lines_of("a", swapped(bench.tensor((32, 4), E4M3)))
    assert (plain.inner, plain.line_stride) == (-1, 32)
    assert (turned.inner, turned.line_stride) == (-2, 4)
    column = lines_of("a", bench.tensor((4, 1), E4M3, (3, 5)))
    assert (column.inner, column.line_stride) == (-1, 3), "a dimension of one element takes no step"
    row = lines_of("a", bench.tensor((1, 4), E4M3, (5, 3)))
    assert (row.inner, row.line_stride) == (-2, 3)
    assert lines_of("a", bench.tensor((1, 4, 32), E4M3)).matrix_stride == 0
    assert lines_of("a", bench.tensor((3, 4, 32), E4M3, (0, 32, 1))).matrix_stride == 0, "expanded"
    assert [Layout(a, b).name for a in (False, True) for b in (True, False)] == ["NN", "NT", "TN", "TT"]


def test_a_batch_may_lie_between_the_rows_of_its_matrices() -> None:
    """[M, B, K] seen as [B, M, K]: the matrices interleave, and none of them is copied."""
    device = Device(schedule="friendly")
    codes = (np.arange(5 * 3 * 32) % 100).astype(np.uint8).reshape(5, 3, 32)
    a = Tensor(device.upload(codes), E4M3, (3, 5, 32), (32, 96, 1))
    whole = replace(Tensor.whole(device.upload(codes.swapaxes(0, 1).copy())), dtype=E4M3)
    b = replace(Tensor.whole(device.upload(codes[0, :1].repeat(8, 0).copy())), dtype=E4M3)
    scale = Tensor.whole(device.upload(np.ones(1, np.float32)))
    outs = [device.allocate((3, 5, 8), BF16) for _ in range(2)]
    for one, out in zip((a, whole), outs, strict=True):
        MmFp8(device)(one, swapped(b), scale, Tensor.whole(out))
    first, second = (out.download().view(np.uint16) for out in outs)
    assert np.array_equal(first, second)


@pytest.mark.parametrize("strides", [(1, 7), (7, 1), (3, 9), (1, 1)])
def test_an_output_of_one_column_lies_where_its_rows_do(strides: tuple[int, int]) -> None:
    """Its last stride is never taken; 7 beside a stride of 1 is what a transposed view of one row looks like."""
    device = Device(schedule="friendly")
    ones = device.upload(np.full(5 * 32, 0x38, np.uint8))
    a, b = (Tensor(ones, E4M3, shape, contiguous_strides(shape)) for shape in ((5, 32), (32, 1)))
    image = np.zeros(29, np.uint16)
    out = Tensor(device.upload(image), BF16, (5, 1), strides)
    launch = MmFp8(device)(a, b, Tensor.whole(device.upload(np.ones(1, np.float32))), out)
    assert launch.report is not None
    assert list(launch.report.findings) == []
    image[0 : 5 * strides[0] : strides[0]] = BFLOAT16_32
    assert np.array_equal(out.buffer.download(), image)


def test_nothing_is_allocated_for_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(schedule="friendly")
    monkeypatch.setattr(device, "allocate", lambda *_: pytest.fail("a launcher allocates nothing"))
    launch, _ = Call(m=5, n=6, k=7, layout="TT").run(device, MmFp8(device), None)
    assert launch.route == Route.SMALL_LEAN


def test_a_lean_ring_of_a_crosswise_operand_does_not_compile() -> None:
    lean = "constexpr bool kLeanA = MM_FP8_LEAN && !Operands::kACrosswise;"
    assert mm_fp8.SOURCE.count(lean) == 1
    edited = mm_fp8.SOURCE.replace(lean, "constexpr bool kLeanA = MM_FP8_LEAN;")
    with pytest.raises(Refusal, match="a crosswise operand is fetched while a lean ring's slot is being read"):
        check(Call(m=5, n=6, k=7, layout="TN"), Route.SMALL_LEAN, source=edited)
