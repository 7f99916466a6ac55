"""What proofs take for granted of a launch is what launchers let through."""

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from tileproof.conformance.contract import Tier
from tileproof.conformance.mutation.campaign import KERNELS
from tileproof.conformance.mutation.devices import EntryPoint, hold_to_premises
from tileproof.conformance.mutation.lockstep.fact import Fact, broken
from tileproof.conformance.mutation.lockstep.premises import premises
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.run_case import run_case
from tileproof.conformance.selection import select
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.fp8_ring_seed import BF16, SeedRing
from tileproof.kernels.fp8_scale_products import Scalar, ScaleProducts
from tileproof.kernels.fp8_scale_ring import MARGIN_LIMIT, ScaleRing
from tileproof.kernels.int8_layouts import WEIGHT_LAYOUTS
from tileproof.kernels.int8_pack import Int8Pack
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import Device, Function, HasPtx, decoded
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared


class Holding(Device):
    """Runs nothing: holds every launch to its premises.

    Attributes:
        held: launches by kernel, and facts that they were held to.
    """

    def __init__(self) -> None:
        super().__init__("sm_90a", "friendly", 0)
        self.held: Counter[str] = Counter()
        self._points: dict[int, EntryPoint] = {}

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        assert isinstance(module, CompiledModule)
        _, programs = decoded(module.ptx, Contraction.NONE)
        self._points |= {id(program): EntryPoint(Variant.of(module), name) for name, program in programs.items()}
        return super().load(module)

    def run(self, prepared: Prepared, recorder: Any = None) -> Report:
        point = self._points[id(prepared.program)]
        hold_to_premises(point, prepared)
        self.held[point.variant.kernel] += len(premises(point.variant, point.entry)) > 0
        return Report()


@pytest.mark.parametrize("kernel", ["int8_pack", "int8_gemm_scalar", "int8_gemm_decode", "int8_combine",
                                    "fp8_quantize_rows", "fp8_a8_gemm_fallback", "fp8_a8_gemm_tma", "fp8_ring_seed",
                                    "fp8_scale_products", "mm_fp8"])  # fmt: skip
def test_smoke_cases_keep_to_the_premises(kernel: str) -> None:
    device = Holding()
    for case in select(KERNELS[kernel], Tier.SMOKE)[:14]:
        run_case(case, device)
    assert device.held[kernel] > 3


def test_a_launch_that_breaks_a_premise_is_found() -> None:
    facts = (Fact("K", 16, 64, 16, parameter=1), Fact("blocks", 1, 2, special="%nctaid.x"))
    area = np.array([7, 0, 48], np.int32).tobytes()
    assert list(broken(facts, area, (0, 8), {"%nctaid.x": 2})) == []
    assert len(list(broken(facts, area, (0, 0), {"%nctaid.x": 3}))) == 2


def test_packing_launches_nothing_that_breaks_a_premise_whatever_it_is_asked() -> None:
    device, random, outcomes = Holding(), np.random.default_rng(3), Counter[str]()
    launcher, memory = Int8Pack(device), device.upload(np.zeros(1 << 20, np.uint8))
    for number in range(300):
        layout = str(random.choice(list(WEIGHT_LAYOUTS)))
        k, n = (int(random.choice([1, 8, 16, 32, 64, 128, 256])) * int(random.integers(1, 4)) for _ in range(2))
        k, n = (extent + int(random.choice([0, 0, 0, 1, 8])) for extent in (k, n))
        if k * n > 1 << 19:
            continue
        first, second = (int(random.choice([0, 0, 1, 8])) for _ in range(2))
        raw = Tensor(memory, np.dtype(np.int8), (k, n), (n, 1), first)
        packed = Tensor(memory, np.dtype(np.int8), (k * n,), (1,), (1 << 19) + second)
        try:
            launcher.pack(raw, packed, layout) if number % 2 else launcher.unpack(packed, raw, layout)
        except Refusal as refusal:
            outcomes["broken" if "proofs" in refusal.hint else "refused"] += 1
        else:
            outcomes["launched"] += 1
    assert not outcomes["broken"]
    assert outcomes["refused"] > 20
    assert outcomes["launched"] > 80


@pytest.mark.parametrize("margin", [-127, -126, -1, 0, 126, 127, 2**31])
@pytest.mark.parametrize(("rows", "window"), [(0, 1), (1, 0), (1, 1), (3, 40)])
def test_a_seed_launches_nothing_that_breaks_a_premise(margin: int, rows: int, window: int) -> None:
    device = Holding()
    words = Tensor.whole(device.upload(np.zeros(DOUBLE_BUFFERED.size(max(window, 1)), np.float32)))
    x = Tensor.whole(device.upload(np.ones((rows, 3), BF16)))
    legal = abs(margin) <= MARGIN_LIMIT and rows > 0 and window > 0
    with nullcontext() if legal else pytest.raises(Refusal, match=r"margin|empty|window"):
        SeedRing(device)(x, ScaleRing(words, DOUBLE_BUFFERED, window, 0, margin=margin))
    assert device.held["fp8_ring_seed"] == legal


@pytest.mark.parametrize(("count", "shift"), [(0, 0), (1, 0), (3, 0), (4, 0), (1, 1), (1, 2), (2, 3)])
def test_scales_are_made_of_a_first_output_that_is_an_aligned_address(count: int, shift: int) -> None:
    device, one = Holding(), np.dtype(np.float32)
    memory = device.upload(np.zeros(256, np.uint8))
    made = [
        Scalar(*(Tensor(memory, one, (1,), (1,), 16 * number + 8 * part + shift) for part in (0, 1)))
        for number in range(count)
    ]
    legal = 0 < count <= 3 and shift == 0
    with nullcontext() if legal else pytest.raises(Refusal, match=r"scalars to make|aligned"):
        ScaleProducts(device)(made)
    assert device.held["fp8_scale_products"] == legal


def test_what_is_promised_of_a_seed_and_of_scales_is_looked_at_where_it_lies() -> None:
    """Each premise, broken in the bytes of a launch, is named."""
    seed = np.zeros(56, np.uint8)
    seed[8:16], seed[44:48], seed[48:52] = (np.array([value]).view(np.uint8)[:size]
                                            for value, size in ((1, 8), (-126, 4), (1, 4)))  # fmt: skip
    facts = premises(Variant("fp8_ring_seed", ()), "fp8_ring_seed")
    block = {one.special: one.most for one in facts if one.special}
    assert list(broken(facts, seed.tobytes(), (0, 8, 16), block)) == []
    for at, value in ((8, 0), (44, 0x81), (48, 0), (51, 0x80)):
        other = seed.copy()
        other[at] = value
        assert len(list(broken(facts, other.tobytes(), (0, 8, 16), block))) == 1, at
