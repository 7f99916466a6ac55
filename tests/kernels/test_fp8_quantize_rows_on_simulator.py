"""The compiled kernel against the oracle, on the CPU device."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels import device as protocol
from tileproof.kernels.fp8_quantize_rows import KEPT_BYTES, SOURCE, QuantizeRows
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.quantize import QuantizedRows, quantize_rows
from tileproof.simulators.ptx.device import Buffer, Device

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)

_DEVICE_PROTOCOL: type[protocol.Device] = Device  # held to the protocols by the type checker
_BUFFER_PROTOCOL: type[protocol.Buffer] = Buffer
_OWNER_PROTOCOL: type[protocol.KnowsItsBuffers] = Device


@dataclass(frozen=True)
class Result:
    launch: Launch
    rows: QuantizedRows


def quantize_on(device: Device, quantize: QuantizeRows, x: NDArray[Any], *, pad: int) -> Result:
    """Run on rows followed by `pad` elements: infinite in x, poison in the codes."""
    tokens, columns = x.shape
    padded = np.full((tokens, columns + pad), np.inf, x.dtype)
    padded[:, :columns] = x
    codes = device.upload(np.full((tokens, columns + pad), 0xA5, np.uint8))
    scales = device.allocate((tokens,), F32)
    strides = (columns + pad, 1)
    launch = quantize(
        Tensor(device.upload(padded), x.dtype, x.shape, strides),
        Tensor(codes, codes.dtype, x.shape, strides),
        Tensor.whole(scales),
    )
    written = codes.download()
    assert np.all(written[:, columns:] == 0xA5)
    return Result(launch, QuantizedRows(written[:, :columns], scales.download()))


def special_rows(dtype: np.dtype[Any], columns: int) -> NDArray[Any]:
    """Ordinary, zero, negative zero, NaN, infinite and tiny rows, each with its amax in the last column."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((6, columns)).astype(np.float32)
    x[0, -1] = 7.0
    x[1] = np.where(np.arange(columns) % 2, -0.0, 0.0)
    x[2, 0], x[2, -1] = np.nan, -5.0
    x[3, -1] = -np.inf
    x[4] *= np.float32(2.0**-126 if dtype != F16 else 2.0**-20)
    x[5] = np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
@pytest.mark.parametrize("dtype", [BF16, F16, F32], ids=str)
def test_codes_and_scales_equal_the_oracles_on_both_routes(dtype: np.dtype[Any], schedule: str) -> None:
    device = Device(schedule=schedule)
    quantize = QuantizeRows(device)
    x = special_rows(dtype, 133)
    expected = quantize_rows(x)
    for pad, route in ((3, "vector"), (4, "scalar")):
        result = quantize_on(device, quantize, x, pad=pad)
        assert result.launch.route == route
        assert result.launch.report is not None
        assert list(result.launch.report.findings) == []
        np.testing.assert_array_equal(result.rows.codes, expected.codes)
        np.testing.assert_array_equal(result.rows.scales.view(np.uint32), expected.scales.view(np.uint32))


STEP = 256 * 8


def kept_elements(dtype: np.dtype[Any]) -> int:
    """Elements of a row that the vector route keeps between its passes."""
    return KEPT_BYTES // dtype.itemsize


def test_the_kept_part_of_a_row_is_what_the_source_says() -> None:
    assert f"constexpr int kKeptBytes = {KEPT_BYTES // 1024} * 1024;" in SOURCE


@pytest.mark.parametrize("beyond", [-STEP, -8, 0, 8, STEP + 16, 2 * STEP])
@pytest.mark.parametrize("dtype", [BF16, F16, F32], ids=str)
def test_a_row_is_right_whether_or_not_all_of_it_is_kept(dtype: np.dtype[Any], beyond: int) -> None:
    device = Device()
    x = np.random.default_rng(1).standard_normal((1, kept_elements(dtype) + beyond + 1)).astype(dtype)
    x[0, -2] = 7.0  # the amax is in the last vector
    result = quantize_on(device, QuantizeRows(device), x, pad=7)
    expected = quantize_rows(x)
    assert result.launch.route == "vector"
    assert result.launch.report is not None
    assert list(result.launch.report.findings) == []
    np.testing.assert_array_equal(result.rows.codes, expected.codes)
    np.testing.assert_array_equal(result.rows.scales.view(np.uint32), expected.scales.view(np.uint32))


def test_passes_that_end_with_what_is_kept_are_found() -> None:
    loop = "for (; k < whole; k += kThreads * kVector) {"
    assert SOURCE.count(loop) == 1
    device = Device()
    x = np.random.default_rng(1).standard_normal((1, kept_elements(F32) + 8)).astype(F32)
    result = quantize_on(device, QuantizeRows(device, source=SOURCE.replace(loop, "for (; k < 0;) {")), x, pad=8)
    assert (result.rows.codes != quantize_rows(x).codes).any()


def test_a_missing_wait_for_the_copies_is_a_finding() -> None:
    device = Device()
    source = SOURCE.replace("    cp_async_wait_group<0>();\n", "")
    assert source != SOURCE
    report = quantize_on(device, QuantizeRows(device, source=source), special_rows(BF16, 133), pad=3).launch.report
    assert report is not None
    assert "race" in {finding.kind.value for finding in report.findings}


def test_a_missing_barrier_is_a_finding_with_the_line_of_the_source() -> None:
    device = Device()
    quantize = QuantizeRows(device, source=SOURCE.replace("    __syncthreads();\n", ""))
    report = quantize_on(device, quantize, special_rows(BF16, 133), pad=3).launch.report
    assert report is not None
    race = next(finding for finding in report.findings if finding.kind.value == "race")
    assert race.where.file == "fp8_quantize_rows.cu"
    assert race.where.line is not None
    assert "warp_maxima" in SOURCE.replace("    __syncthreads();\n", "").splitlines()[race.where.line - 1]
