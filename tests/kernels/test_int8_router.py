"""The router of the INT8 products chooses as the oracle's rule does; constants of arms are those of the sources."""

import re
from itertools import pairwise, product

import pytest

from tileproof.kernels import int8_router
from tileproof.kernels.int8_arms import (
    ARMS,
    COMBINE_THREADS,
    DECODE,
    DECODE_COLUMNS,
    DECODE_DEPTH,
    GENERIC_TILES,
    SCALAR_THREADS,
    TUNED_TILES,
    WGMMA_ATOM,
    WGMMA_DEPTH,
    WGMMA_ROWS,
    DecodeArm,
    split_of,
)
from tileproof.kernels.int8_router import FAMILIES, Choice, Family, select
from tileproof.kernels.source import kernel_text
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes import int8_routing
from tileproof.oracle.routes.int8_lineages import LINEAGES
from tileproof.oracle.routes.int8_routing import Arm, fuses_combine, int8_route, unsupported

ROWS = (1, 2, 4, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 192, 3071, 3072, 3073, 4095, 4096, 4097)
OTHERS = ((192, 256), (384, 384), (640, 128), (64, 64), (100, 128), (128, 192), (7, 5))
WEIGHTS = sorted({(k, n) for family in FAMILIES.values() for k, n in family.packs} | set(OTHERS))


def test_families_and_boundaries_are_those_of_the_oracle() -> None:
    assert FAMILIES.keys() == LINEAGES.keys()
    assert int8_router.DECODE_LAST_M == int8_routing.DECODE_LAST_M == 16
    assert int8_router.STATED_DECODE_LAST_M == int8_routing.STATED_DECODE_LAST_M
    for name, family in FAMILIES.items():
        assert [one.name for one in family.tuned] == [guard.name for guard in LINEAGES[name].guards]
        assert {(w.k, w.n): w.pack for w in LINEAGES[name].packed} == family.packs


@pytest.mark.parametrize("last", [16, 32])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_the_choice_is_the_oracle_s_for_every_weight_and_m(family: Family, last: int) -> None:
    for m, (k, n) in product(ROWS, WEIGHTS):
        chosen, right = (
            select(family, m, n, k, decode_last_m=last, planes=16),
            int8_route(LINEAGES[family.name], m, n, k, last),
        )
        assert chosen.pack == right.pack
        assert (chosen.tuned != "") == (right.arm is Arm.TUNED)
        if right.arm is Arm.TUNED:
            assert chosen.tuned == right.kernel
        else:
            assert chosen.arm == {Arm.SCALAR: "scalar", Arm.TILED: f"{right.kernel}-b1"}[right.arm]


def test_every_chosen_kernel_takes_the_product_it_is_chosen_for() -> None:
    reached = set()
    for family, m, (k, n), last in product(FAMILIES.values(), ROWS, WEIGHTS, (16, 32)):
        chosen = select(family, m, n, k, decode_last_m=last)
        assert ARMS[chosen.arm].obstacle(m, n, k) is None
        reached.add(chosen.arm)
    # 64x64x128 asks what 128x64x128 asks, which is tried before it.
    unreached = {"64x64x128-b1", "decode-fused", "64x64x64-b1", "128x128x64-b2", "256x64x64-b2"}
    assert set(ARMS) == reached | unreached


def test_m_17_to_32_is_prefill_unless_decode_is_set_to_end_at_32() -> None:
    glm = FAMILIES["GLM TP8 M4096"]
    for m in (17, 32):
        assert select(glm, m, 2048, 2048).tuned == "q_b"
        assert select(glm, m, 2048, 2048, decode_last_m=32) == Choice("scalar", "stage-64-k8")
    assert select(glm, 16, 2048, 2048) == select(glm, 16, 2048, 2048, decode_last_m=32)
    with pytest.raises(Refusal, match="decode that ends at M = 24 is stated nowhere"):
        select(glm, 1, 2048, 2048, decode_last_m=24)


@pytest.mark.parametrize("planes", [0, 6, 15, 16, 17])
def test_the_fused_combine_needs_sixteen_planes(planes: int) -> None:
    chosen = select(FAMILIES["TP4 M16"], 16, 2560, 4096, planes=planes)
    assert (chosen.arm == "decode-fused") == fuses_combine(planes)
    assert chosen.splits == 6


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_targets_are_the_weights_that_a_guard_can_accept(family: Family) -> None:
    for k, n in WEIGHTS:
        assert family.targets(k, n) == (not unsupported(LINEAGES[family.name], n, k))


def test_constants_are_those_of_the_sources() -> None:
    decode = kernel_text("int8_gemm_decode")
    assert f"Tile<INT8_ROWS, {DECODE_COLUMNS}, {DECODE_DEPTH}, INT8_ROWS, 16>" in decode
    wgmma = kernel_text("int8_gemm_wgmma")
    assert f"kTileRows = {WGMMA_ROWS}, " in wgmma
    assert f"kDepth = {WGMMA_DEPTH}; " in wgmma
    assert f"kAtom = {WGMMA_ATOM}; " in wgmma
    assert f"kScalarThreads = {SCALAR_THREADS};" in kernel_text("int8_gemm_scalar")
    assert f"kCombineThreads = {COMBINE_THREADS};" in kernel_text("int8_combine")
    assert all(re.search(rf"struct {arm.combine} {{", decode) for arm in DECODE if isinstance(arm, DecodeArm))


def test_the_tiles_are_those_of_the_accepted_kernels() -> None:
    tiles = {(arm.rows, arm.columns, arm.depth) for arm in TUNED_TILES}
    assert tiles == {(64, 128, 64), (128, 64, 64), (64, 64, 64), (128, 128, 64), (256, 64, 64)}
    assert tuple((arm.rows, arm.columns, arm.depth) for arm in GENERIC_TILES) == LINEAGES["TP4 M4096"].arms
    assert all(arm.shared_bytes <= 48 * 1024 for arm in (*TUNED_TILES, *GENERIC_TILES))


def test_parts_of_k_cover_it_and_differ_by_a_stage_at_most() -> None:
    assert split_of(4096, 10)[:4] == (0, 384, 768, 1216)
    for k, parts in product((64, 192, 384, 2048, 4096), (1, 2, 3, 6, 10, 16)):
        edges = split_of(k, parts)
        sizes = {b - a for a, b in pairwise(edges)}
        assert (edges[0], edges[-1]) == (0, k)
        assert max(sizes) - min(sizes) in (0, 64)
