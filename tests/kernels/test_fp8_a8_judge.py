"""The judge of full-size outputs agrees with the oracle about right and about wrong ones, on the CPU device."""

import numpy as np
import pytest
from fp8_a8_call import BF16, Array, Call

from tileproof.kernels.fp8_a8_call_site import LINEAR, LINEAR_ADD, LINEAR_SWIGLU, CallSite
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge, Sums, Verdict
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogues.silu import CUDA_EX2_SILU, silu_table
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

ORDER = AccumulationOrder(
    instruction="mma.m16n8k32.f32.e4m3.e4m3", arch="sm_90a", assembler="13.0", ragged_k=RaggedK.ZERO_FILL
)


def call(site: CallSite) -> Call:
    return Call(site, 5, 64, 64, nan_token=3, scale=2.0**-13)


def judged(site: CallSite, outputs: Array) -> Verdict:
    """What the judge says of outputs that are followed by other values in each row."""
    device = Device()
    one = call(site)
    a, scales, b, weight_scales = one.operands

    def tensor(values: Array) -> Tensor:
        return Tensor.whole(device.upload(values))

    sums = Sums(tensor(gemm(ORDER, a, b)), tensor(scales), tensor(weight_scales))
    image = np.full((len(outputs), outputs.shape[1] + 3), 99, BF16)
    image[:, :-3] = outputs
    out = Tensor(device.upload(image), BF16, outputs.shape, (image.shape[1], 1))
    judge = Fp8A8Judge(device)
    if site.paired:
        low, high = (tensor(table) for table in silu_table(CUDA_EX2_SILU))
        return judge.swiglu(sums, out, low, high)
    return judge.product(sums, out, tensor(one.residual) if site.adds else None)


@pytest.mark.parametrize("site", [LINEAR, LINEAR_ADD, LINEAR_SWIGLU], ids=lambda site: site.name)
def test_what_the_oracle_allows_is_right_and_a_neighbour_is_wrong(site: CallSite) -> None:
    right = call(site).expected("sm_90a")
    for end in right:
        assert judged(site, end) == Verdict(0, None)
    for code in (1, -1, 0x8000):
        wrong = right[0].copy()
        beyond = right[-1] if code == 1 else right[0]
        wrong.view(np.uint16)[2:, 7] = (beyond.view(np.uint16)[2:, 7].astype(np.int64) + code) & 0xFFFF
        moved = (right[0].view(np.uint16)[2:, 7] != wrong.view(np.uint16)[2:, 7]).sum()
        found = judged(site, wrong)
        assert found.first is not None
        assert found.first[1] == 7
        assert 0 < found.different <= moved


def test_an_addition_that_is_not_fused_is_wrong_somewhere() -> None:
    one = call(LINEAR_ADD)
    product = call(LINEAR).expected("sm_90a")[0].astype(np.float32)
    with np.errstate(all="ignore"):
        twice_rounded = (product + one.residual.astype(np.float32)).astype(BF16)
    assert judged(LINEAR_ADD, twice_rounded).different > 0


def test_sums_of_the_wrong_width_are_refused() -> None:
    device = Device()
    given = (np.zeros((2, 6), np.float32), np.zeros(2, np.float32), np.zeros(6, BF16))
    values, activation_scales, weight_scales = (Tensor.whole(device.upload(each)) for each in given)
    sums = Sums(values, activation_scales, weight_scales)
    out, table = (Tensor.whole(device.upload(x)) for x in (np.zeros((2, 4), BF16), np.zeros(1 << 16, np.float32)))
    with pytest.raises(Refusal, match="sums of 6 rows for 4 outputs"):
        Fp8A8Judge(device).swiglu(sums, out, table, table)
    with pytest.raises(Refusal, match="out has columns = 4, but sums has columns = 6"):
        Fp8A8Judge(device).product(sums, out)


def test_words_are_compared_with_a_value_or_with_another_buffer() -> None:
    device = Device()
    judge = Fp8A8Judge(device)
    a, b = np.full(1000, 0xFFFFFFFF, np.uint32), np.full(1000, 0xFFFFFFFF, np.uint32)
    b[[700, 900]] = 7
    found, other = (Tensor.whole(device.upload(x)) for x in (a, b))
    assert judge.words(found, 0xFFFFFFFF) == Verdict(0, None)
    assert judge.words(found, found) == Verdict(0, None)
    assert judge.words(other, 0xFFFFFFFF) == judge.words(found, other) == Verdict(2, (700, 0))
    judge.put(found, other)
    assert judge.words(found, other) == Verdict(0, None)
    judge.put(found, 3)
    assert judge.words(found, 3) == Verdict(0, None)
