"""What the launchers of the FP8 product refuse, and that they do so before anything is launched."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileproof.kernels.fp8_a8_call_site import (
    ATTN_INPUT_PROJ,
    CALL_SITES,
    GDN_INPUT_PROJ,
    LINEAR,
    LINEAR_ADD,
    LINEAR_SWIGLU,
    CallSite,
)
from tileproof.kernels.fp8_a8_operator import Fp8A8Operator, Weight, Workspace
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.quantize import quantize_rows
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

BF16 = np.dtype(ml_dtypes.bfloat16)
T, N, K = 3, 128, 128
Tensors = dict[str, Tensor]


def tensors(device: Device, *, tokens: int = T, rows: int = N, widths: tuple[int, ...] = (N,)) -> Tensors:
    """Arguments of a legal call; the outputs are out0, out1, ..."""
    x = np.random.default_rng(1).standard_normal((tokens, K)).astype(BF16)
    made = {
        "x": device.upload(x),
        "codes": device.allocate((tokens, K), np.uint8),
        "scales": device.allocate((tokens,), np.float32),
        "weight": device.upload(np.full((rows, K), 0x38, np.uint8)),
        "weight_scales": device.upload(np.ones(rows, BF16)),
        **{f"out{i}": device.upload(np.zeros((tokens, width), BF16)) for i, width in enumerate(widths)},
    }
    return {name: Tensor.whole(buffer) for name, buffer in made.items()}


def call(operator: Fp8A8Operator, given: Tensors, route: Route | None = None) -> Any:
    outputs = [tensor for name, tensor in given.items() if name.startswith("out")]
    weight, workspace = Weight(given["weight"], given["weight_scales"]), Workspace(given["codes"], given["scales"])
    return operator(given["x"], weight, outputs, workspace, route=route)


def test_the_operator_quantises_and_multiplies() -> None:
    device = Device()
    given = tensors(device)
    launch = call(Fp8A8Operator(device, LINEAR), given)
    assert launch.kernel == launch.entry == "fp8_a8_gemm_cp_async"
    assert launch.route == Route.CP_ASYNC
    assert list(launch.report.findings) == []
    right = quantize_rows(given["x"].buffer.download())
    assert np.array_equal(given["codes"].buffer.download(), right.codes)
    assert given["scales"].buffer.download().tobytes() == right.scales.tobytes()


Change = Callable[[Tensors], Tensors]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: {"x": replace(t["x"], dtype=np.dtype(np.float16))}, "x has element type float16"),
        (lambda t: {"x": replace(t["x"], shape=(T, 64))}, "codes has K = 128, but x has K = 64"),
        (lambda t: {"scales": replace(t["scales"], shape=(2,))}, "scales has T = 2, but x has T = 3"),
        (lambda t: {"weight": replace(t["weight"], shape=(N, 64))}, "weight has K = 64, but x has K = 128"),
        (lambda t: {"weight_scales": replace(t["weight_scales"], shape=(64,))}, "weight_scales has N = 64"),
        (lambda t: {"out0": replace(t["out0"], dtype=np.dtype(np.float16))}, "out has element type float16"),
        (lambda t: {"out0": replace(t["out0"], shape=(T, 64))}, "the outputs' columns need out 64"),
        (lambda t: {"out0": replace(t["out0"], strides=(100, 1))}, "out has stride 100 in dimension 0"),
        (lambda t: {"out0": replace(t["out0"], strides=(2**63, 1))}, "the most is 9223372036854775807"),
        (lambda t: {"weight": replace(t["weight"], buffer=Device().upload(np.zeros((N, K), np.uint8)))},
         "weight lies on another device"),
        (lambda t: {"out0": replace(t["out0"], buffer=t["x"].buffer)}, "out .output. overlaps x"),
        (lambda t: {"codes": replace(t["codes"], buffer=t["weight"].buffer)}, "overlaps codes .output."),
        (lambda t: {"out1": t["out0"]}, "linear has the outputs out; 2 tensors were given"),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_refused_before_anything_is_launched(change: Change, says: str) -> None:
    device = Device()
    given = tensors(device)
    with pytest.raises(Refusal, match=says):
        call(Fp8A8Operator(device, LINEAR), given | change(given))
    codes: Any = given["codes"].buffer
    assert not codes.written().any()


@pytest.mark.parametrize(
    ("site", "widths", "says"),
    [
        (LINEAR_SWIGLU, (N,), "need twice out 128 = 256"),
        (ATTN_INPUT_PROJ, (64, 16, 32, 8), "need query 64 [+] key 16 [+] gate 32 [+] value 8 = 120"),
        (GDN_INPUT_PROJ, (64, 65), "need qkv 64 [+] z 65 = 129"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_outputs_must_add_up_to_the_weight(site: CallSite, widths: tuple[int, ...], says: str) -> None:
    device = Device()
    with pytest.raises(Refusal, match=says):
        call(Fp8A8Operator(device, site), tensors(device, widths=widths))


def test_a_route_that_cannot_take_the_call_is_refused_with_the_reason() -> None:
    device = Device()
    given = tensors(device, rows=100, widths=(100,))
    with pytest.raises(Refusal, match="linear cannot take the route cp-async: N = 100 is no multiple of 128"):
        call(Fp8A8Operator(device, LINEAR), given, Route.CP_ASYNC)
    codes: Any = given["codes"].buffer
    assert not codes.written().any()
    assert call(Fp8A8Operator(device, LINEAR), given).route == Route.FALLBACK


def test_a_single_rows_stride_may_be_anything_that_kernels_can_take() -> None:
    device = Device()
    given = tensors(device, tokens=1)
    for stride in (0, 2**62, 2**63 - 1):
        assert call(Fp8A8Operator(device, LINEAR), given | {"x": replace(given["x"], strides=(stride, 1))}).report
    with pytest.raises(Refusal, match="x has stride 18446744073709551616 in dimension 0"):
        call(Fp8A8Operator(device, LINEAR), given | {"x": replace(given["x"], strides=(2**64, 1))})


def test_no_tokens_launch_nothing() -> None:
    device = Device()
    launch = call(Fp8A8Operator(device, LINEAR), tensors(device, tokens=0))
    assert launch.route == NOTHING_TO_LAUNCH
    assert launch.report is None


def test_every_call_site_has_a_policy_of_the_header() -> None:
    from importlib import resources

    header = resources.files("tileproof.kernels").joinpath("fp8_a8_output.cuh").read_text()
    assert {site.adds for site in (LINEAR, LINEAR_ADD)} == {False, True}
    for site in CALL_SITES:
        body = header.split(f"struct {site.policy} {{")[1].split("\n};\n")[0]
        assert f"kPaired = {'true' if site.paired else 'false'};" in body
