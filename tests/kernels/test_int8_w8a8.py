"""The INT8 operator on the CPU device: prepared weights, repeated launches, both ends of decode, refusals."""

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileproof.kernels.int8_arms import ARMS
from tileproof.kernels.int8_counters import require_one_number_of_parts
from tileproof.kernels.int8_gemm import MAX_DEPTH, Int8Gemm, Product
from tileproof.kernels.int8_router import FAMILIES, Family, Tuned
from tileproof.kernels.int8_w8a8 import W8A8, Weight, Workspace
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import METAINFER_W8A8
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes.int8_routing import Unsupported
from tileproof.simulators.ptx.device import Device

BF16 = np.dtype(ml_dtypes.bfloat16)
K, N = 256, 128

SMALL = Family(
    "small",
    decodes=False,
    tuned=(Tuned("tall", lambda m, n, k: (m, n, k) == (65, N, K), "64x128x64-b2", "panel-64"),),
    packs={(K, N): "panel-64"},
)
"""Scaled down: one exact guard, one packed weight, generic tiles for the others."""

SMALL_DECODE = Family(
    "small decode",
    decodes=True,
    tuned=(
        Tuned(
            "fused",
            lambda m, n, k: m <= 32 and (n, k) == (N, K),
            "decode-fused",
            "n-major",
            3,
            with_fewer_planes="decode-partial",
        ),
    ),
    packs={(K, N): "n-major"},
    tiles=(),
)


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


class Call:
    """Operands of one product on a device, and what it must give."""

    def __init__(self, device: Device, m: int, n: int = N, k: int = K, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.device, self.m, self.n, self.k = device, m, n, k
        self.w = random.integers(-128, 128, (k, n)).astype(np.int8)
        self.raw, self.packed = self.upload(self.w), self.empty((k * n,), np.int8)
        self.w_scale_values = random.random(n).astype(np.float32)
        self.w_scale = self.upload(self.w_scale_values)
        self.out = self.empty((m, n), BF16)
        self.renew(seed)

    def renew(self, seed: int) -> None:
        """Other activations."""
        random = np.random.default_rng(1000 + seed)
        self.x_values = random.integers(-128, 128, (self.m, self.k)).astype(np.int8)
        self.x_scale_values = random.random(self.m).astype(np.float32)
        self.x, self.x_scale = self.upload(self.x_values), self.upload(self.x_scale_values)

    def upload(self, array: Any) -> Tensor:
        return Tensor.whole(self.device.upload(array))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        return Tensor.whole(self.device.allocate(shape, np.dtype(dtype)))

    def workspace(self, planes: int) -> Workspace:
        return Workspace(self.empty((planes, self.m, self.n), np.int32), self.upload(np.zeros(self.n // 64, np.uint64)))

    def run(self, operator: W8A8, weight: Weight | None, **options: Any) -> Any:
        return operator(self.x, weight, self.x_scale, self.w_scale, self.out, **options)

    @property
    def is_right(self) -> bool:
        sums = (self.x_values.astype(np.int64) @ self.w.astype(np.int64)).astype(np.int32)
        factors = (self.x_scale_values, self.w_scale_values)
        wanted = apply_epilogue(METAINFER_W8A8, Operands(accumulators=sums, factors=factors))
        return np.array_equal(self.out.buffer.download().view(np.uint16), wanted.view(np.uint16))


@pytest.mark.parametrize(
    ("family", "m", "n", "arm"),
    [
        (SMALL, 65, N, "64x128x64-b2"),
        (SMALL, 64, N, "scalar"),
        (SMALL, 65, 64, "128x64x128-b1"),
        (SMALL, 17, 256, "64x128x128-b1"),
        (SMALL, 16, 256, "scalar"),
        (SMALL_DECODE, 16, N, "decode-partial"),
        (SMALL_DECODE, 17, N, "scalar"),
    ],
)
def test_the_router_s_choice_computes_the_product(family: Family, m: int, n: int, arm: str, sim: Device) -> None:
    call = Call(sim, m, n)
    operator = W8A8(sim, family)
    launch = call.run(operator, operator.prepare(call.raw, call.packed), workspace=call.workspace(3))
    assert (launch.route, launch.report.findings) == (arm, [])
    assert call.is_right


@pytest.mark.parametrize(("last", "arm"), [(16, "scalar"), (32, "decode-fused")])
@pytest.mark.parametrize("m", [17, 32])
def test_both_ends_of_decode_compute_m_17_to_32(last: int, arm: str, m: int, sim: Device) -> None:
    call = Call(sim, m)
    operator = W8A8(sim, SMALL_DECODE, decode_last_m=last)
    launch = call.run(operator, operator.prepare(call.raw, call.packed), workspace=call.workspace(16))
    assert (launch.route, launch.report.findings) == (arm, [])
    assert call.is_right


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_a_fused_combine_needs_nothing_cleared_between_launches(seed: int) -> None:
    device = Device(schedule="adversarial", seed=seed)
    call = Call(device, 16)
    operator = W8A8(device, SMALL_DECODE)
    weight, workspace = operator.prepare(call.raw, call.packed), call.workspace(16)
    for launches in range(1, 5):
        call.renew(launches)
        launch = call.run(operator, weight, workspace=workspace)
        assert (launch.route, launch.report.findings) == ("decode-fused", [])
        assert call.is_right
        assert workspace.arrivals is not None
        assert set(workspace.arrivals.buffer.download()) == {3 * launches}


def test_counters_belong_to_one_number_of_splits(sim: Device) -> None:
    """After a launch of 4 splits a counter holds 4, and the second block of a launch of 3 would be its last."""
    call = Call(sim, 16)
    operator = W8A8(sim, SMALL_DECODE)
    weight, workspace = operator.prepare(call.raw, call.packed), call.workspace(16)
    call.run(operator, weight, workspace=workspace, arm="decode-fused")
    with pytest.raises(Refusal, match="arrivals have counted launches of 4 splits; this one has 3"):
        call.run(operator, weight, workspace=workspace)
    assert workspace.arrivals is not None
    one = Tensor(workspace.arrivals.buffer, np.dtype(np.uint64), (1,), (1,), 8)
    with pytest.raises(Refusal, match="arrivals have counted launches of 4 splits; this one has 2"):
        require_one_number_of_parts(one, 2)
    again = W8A8(sim, SMALL_DECODE)
    with pytest.raises(Refusal, match="this one has 3"):
        call.run(again, weight, workspace=workspace)
    call.run(again, weight, workspace=workspace, arm="decode-fused")
    assert call.is_right
    new = call.workspace(16)
    assert call.run(operator, weight, workspace=new).report.findings == []
    assert call.is_right


GATE = ("64x128x64-b1", "128x64x128-b1", "decode-in-block", "scalar")


@pytest.mark.parametrize("arm", [arm if arm in GATE else pytest.param(arm, marks=pytest.mark.slow) for arm in ARMS])
def test_every_kernel_can_be_forced(arm: str, sim: Device) -> None:
    call = Call(sim, 18)
    operator = W8A8(sim, SMALL)
    weight = operator.prepare(call.raw, call.packed)
    assert call.run(operator, weight, arm=arm, workspace=call.workspace(2)).route == arm
    assert call.is_right


def test_preparing_leaves_the_stored_weight_and_the_address_alone(sim: Device) -> None:
    call = Call(sim, 1)
    weight = W8A8(sim, SMALL).prepare(call.raw, call.packed)
    assert np.array_equal(call.raw.buffer.download(), call.w)
    assert (weight.packed.address, weight.packed.buffer.nbytes) == (call.packed.address, call.w.nbytes)


def unsupported_call(reason: Unsupported, sim: Device) -> None:
    """A call that is unsupported for a reason, and right but for it."""
    call = Call(sim, 16)
    operator = W8A8(sim, SMALL, targets_only=reason is Unsupported.SHAPE)
    options: dict[str, Any] = {}
    if reason is Unsupported.SHAPE:
        call = Call(sim, 16, 64, 64)
    weight = None if reason is Unsupported.UNPREPARED else operator.prepare(call.raw, call.packed)
    if reason is Unsupported.BIAS:
        options["bias"] = call.w_scale
    if reason is Unsupported.OUTPUT_TYPE:
        call.out = call.empty((16, N), np.float16)
    if reason is Unsupported.OPERAND:
        call.x_scale = call.upload(np.zeros((1, 16), np.float32))
    if reason is Unsupported.STRIDED:
        call.x = replace(call.x, shape=(8, K), strides=(2 * K, 1))
        call.out = call.empty((8, N), BF16)
    call.run(operator, weight, **options)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Unsupported.BIAS, "a bias is given"),
        (Unsupported.OUTPUT_TYPE, "out has element type float16; it must be bfloat16"),
        (Unsupported.OPERAND, r"x_scale has 2 dimensions (1, 16)"),
        (Unsupported.STRIDED, "it must be 256, because x must be contiguous"),
        (Unsupported.UNPREPARED, "the weight was not prepared"),
        (Unsupported.SHAPE, "K = 64, N = 64 is no target of small"),
    ],
)
def test_what_is_unsupported_is_refused_with_its_reason(reason: Unsupported, words: str, sim: Device) -> None:
    with pytest.raises(Refusal, match=re.escape(words)):
        unsupported_call(reason, sim)


def test_every_reason_of_the_oracle_has_a_refusal_above() -> None:
    mark = test_what_is_unsupported_is_refused_with_its_reason.pytestmark[0]  # type: ignore[attr-defined]
    assert {reason for reason, _ in mark.args[1]} == set(Unsupported)


def test_scales_may_have_a_trailing_dimension_of_one(sim: Device) -> None:
    call = Call(sim, 2, 64, 64)
    call.x_scale = replace(call.x_scale, shape=(2, 1), strides=(1, 1))
    operator = W8A8(sim, SMALL)
    call.run(operator, operator.prepare(call.raw, call.packed))
    assert call.is_right


def test_other_wrong_calls_are_refused(sim: Device) -> None:
    call = Call(sim, 16)
    operator = W8A8(sim, SMALL_DECODE)
    weight = operator.prepare(call.raw, call.packed)
    with pytest.raises(Refusal, match="decode-partial takes 3 planes of workspace; there are 0"):
        call.run(operator, weight)
    with pytest.raises(Refusal, match="the weight is packed panel-64; fused reads n-major"):
        call.run(operator, replace(weight, pack="panel-64"), workspace=call.workspace(3))
    with pytest.raises(Refusal, match="no kernel is called 32x32x32; known are 64x128x64-b1"):
        call.run(operator, weight, arm="32x32x32")
    with pytest.raises(Refusal, match="decode-fused needs arrivals"):
        call.run(operator, weight, workspace=Workspace(call.workspace(16).planes))
    with pytest.raises(Refusal, match=r"x has K = 256 and out N = 128; the weight is K = 256, N = 64"):
        call.run(operator, replace(weight, n=64))
    with pytest.raises(Refusal, match="decode that ends at M = 24"):
        W8A8(sim, SMALL, decode_last_m=24)
    with pytest.raises(Refusal, match="the weight was not prepared"):
        call.run(operator, call.packed)  # type: ignore[arg-type]
    shallow = Call(sim, 4, 64, 32)
    contiguous = W8A8(sim, SMALL).prepare(shallow.raw, shallow.packed)
    with pytest.raises(Refusal, match="decode-partial: K = 32 is less than a stage, 64"):
        shallow.run(operator, contiguous, workspace=shallow.workspace(2), arm="decode-partial")
    tall = Call(sim, 33)
    with pytest.raises(Refusal, match="M = 33; the most is 32"):
        tall.run(operator, weight, arm="decode-in-block")


def test_a_weight_that_no_order_serves_at_every_m_is_named_as_one(sim: Device) -> None:
    """The guard of TP8 down takes every N of 128 and reads n-major; the fallback has an order for N = 4096 alone."""
    operator = W8A8(sim, FAMILIES["TP8 M4096"])
    call = Call(sim, 128, 256, 192)
    weight = operator.prepare(call.raw, call.packed)
    with pytest.raises(Refusal, match="packed contiguous; down reads n-major") as refused:
        call.run(operator, weight)
    assert refused.value.hint == "name an arm: no one order serves every M of it"
    few = Call(sim, 3, 256, 192)
    weight = operator.prepare(few.raw, few.packed)
    assert few.run(operator, weight).route == "scalar"
    assert few.is_right


def test_kernels_with_wgmma_refuse_other_orders_and_architectures(sim: Device) -> None:
    call = Call(sim, 5)
    packed = W8A8(sim, SMALL).prepare(call.raw, call.packed)
    with pytest.raises(Refusal, match="takes sm_90a and n-major weights; the device is sm_90a and the weight panel-64"):
        call.run(W8A8(sim, SMALL), packed, arm="wgmma-128x128-s4")
    other = Device(arch="sm_120", schedule="friendly")
    call = Call(other, 5)
    operator = W8A8(other, SMALL_DECODE)
    with pytest.raises(Refusal, match="the device is sm_120 and the weight n-major"):
        call.run(operator, operator.prepare(call.raw, call.packed), arm="wgmma-128x128-s4")


def test_a_k_whose_sums_might_not_fit_is_refused(sim: Device) -> None:
    call, deep = Call(sim, 1), MAX_DEPTH + 1
    product = Product(
        x=Tensor(call.x.buffer, np.dtype(np.int8), (1, deep), (deep, 1)),
        weight=call.packed,
        pack="n-major",
        x_scale=call.x_scale,
        w_scale=call.w_scale,
        out=call.out,
    )
    with pytest.raises(Refusal, match=f"x has K = {deep}; the most is {MAX_DEPTH}"):
        Int8Gemm(sim)(product, "scalar")


def test_families_that_are_shipped_name_kernels_that_exist() -> None:
    for family in FAMILIES.values():
        for one in family.tuned:
            assert {one.arm, one.with_fewer_planes} <= {*ARMS, ""}
