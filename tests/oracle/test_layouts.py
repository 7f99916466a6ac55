"""Packed layouts: source formulas, tensor-layouts, proofs for every production shape, round trips, wrong twins."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensor_layouts
from hypothesis import given
from hypothesis import strategies as st

from tileproof.oracle.addresses import nibble
from tileproof.oracle.addresses.bijection import (
    Method,
    NotABijection,
    enumerate_layout,
    prove_enumeration,
    prove_layout,
    prove_rank,
)
from tileproof.oracle.addresses.digit import K, N
from tileproof.oracle.addresses.gf2 import BitMatrix
from tileproof.oracle.addresses.pack_layout import PackLayout
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.layouts import PACKS, find_layout
from tileproof.oracle.refusal import Refusal

Offsets = npt.NDArray[np.int64]
Formula = Callable[[Offsets, Offsets, int, int], Offsets]

USES = [(layout, use) for layout in PACKS.values() for use in layout.uses]


def dumma_lane(k: Offsets, n: Offsets) -> Offsets:
    return ((k & 31) >> 3) * 16 + (n & 15)


#: The relations as their sources write them.
FORMULAS: dict[str, Formula] = {
    "contiguous": lambda k, n, K, N: k * N + n,
    "n-major": lambda k, n, K, N: n * K + k,
    "panel-64": lambda k, n, K, N: (n >> 6) * (K * 64) + k * 64 + (n & 63),
    "panel-64-k16": lambda k, n, K, N: (n >> 6) * (K * 64) + (k >> 4) * 1024 + (n & 63) * 16 + (k & 15),
    "stage-64-n128-k8": lambda k, n, K, N: (
        (((k // 64 * (N // 128) + n // 128) * 8 + k % 64 // 8) * 128 + n % 128) * 8 + k % 8
    ),
    "stage-64-k8": lambda k, n, K, N: ((k // 64 * 8 + (k % 64) // 8) * N + n) * 8 + k % 8,
    "tile-128x64": lambda k, n, K, N: ((n // 128) * (K // 64) + k // 64) * 8192 + (n % 128) * 64 + k % 64,
    "fragment": lambda k, n, K, N: ((n >> 4) * (K // 32) + (k >> 5)) * 512 + dumma_lane(k, n) * 8 + (k & 7),
    "fragment-pairs": lambda k, n, K, N: (
        (k >> 5) // 8 * (N // 32) * 8192
        + (n >> 5) * 8192
        + (k >> 5) % 8 * 1024
        + dumma_lane(k, n) * 16
        + ((n >> 4) & 1) * 8
        + (k & 7)
    ),
    "core-matrix-a": lambda k, n, K, N: (
        (n >> 4) * 512 + ((k // 16 << 1) | ((n >> 3) & 1)) * 128 + (n & 7) * 16 + k % 16
    ),
    "core-matrix-b": lambda k, n, K, N: (n >> 3) * 256 + k // 16 * 128 + (n & 7) * 16 + k % 16,
    "nibble-k": lambda k, n, K, N: 2 * (n * (K // 2) + k // 2) + k % 2,
    "gptq-4bit": lambda k, n, K, N: 8 * (k // 8 * N + n) + k % 8,
    "scale-128x4": lambda k, n, K, N: (
        (n // 128 * -(-K // 4) + k // 4) * 512 + (n % 32) * 16 + (n % 128 // 32) * 4 + k % 4
    ),
    "scale-8x4": lambda k, n, K, N: n // 8 * -(-K // 4) * 32 + k // 4 * 32 + n % 8 * 4 + k % 4,
}

#: Counterparts in tensor-layouts: shape and stride of the modes k and n.
CUTE: dict[str, Callable[[int, int], tuple[tuple[Any, Any], tuple[Any, Any]]]] = {
    "contiguous": lambda K, N: ((K, N), (N, 1)),
    "n-major": lambda K, N: ((K, N), (1, K)),
    "panel-64": lambda K, N: ((K, (64, N // 64)), (64, (1, 64 * K))),
    "panel-64-k16": lambda K, N: (((16, K // 16), (64, N // 64)), ((1, 1024), (16, 64 * K))),
    "stage-64-n128-k8": lambda K, N: (
        ((8, 8, K // 64), (128, N // 128)),
        ((1, 1024, 8192 * (N // 128)), (8, 8192)),
    ),
    "stage-64-k8": lambda K, N: (((8, 8, K // 64), N), ((1, 8 * N, 64 * N), 8)),
    "tile-128x64": lambda K, N: (((64, K // 64), (128, N // 128)), ((1, 8192), (64, 8192 * (K // 64)))),
    "fragment": lambda K, N: (((8, 4, K // 32), (16, N // 16)), ((1, 128, 512), (8, 512 * (K // 32)))),
    "fragment-pairs": lambda K, N: (
        ((8, 4, 8, K // 256), (16, 2, N // 32)),
        ((1, 256, 1024, 8192 * (N // 32)), (16, 8, 8192)),
    ),
    "core-matrix-a": lambda K, N: (((16, K // 16), (8, 2, N // 16)), ((1, 256), (16, 128, 16 * K))),
    "core-matrix-b": lambda K, N: (((16, K // 16), (8, N // 8)), ((1, 128), (16, 8 * K))),
    "scale-128x4": lambda K, N: (((4, K // 4), (32, 4, N // 128)), ((1, 512), (16, 4, 128 * K))),
    "scale-8x4": lambda K, N: (((4, K // 4), (8, N // 8)), ((1, 32), (4, 8 * K))),
}


def marlin_offset(layout: PackLayout, k: int, n: int, N: int) -> int:
    """Marlin's permutation as its packer builds it: tiles of 16 × 16, 1,024 codes at a time, interleaved in words."""
    interleave = [0, 2, 4, 6, 1, 3, 5, 7] if layout.element_bits == 4 else [0, 2, 1, 3]
    permutation: list[int] = []
    for lane in range(32):
        base = [16 * (2 * (lane % 4) + row) + lane // 4 + 8 * block for block in (0, 1) for row in (0, 1, 8, 9)]
        for tile in range(4):
            permutation += [256 * tile + place for place in base]
    width = len(interleave)
    order = [permutation[word + i] for word in range(0, 1024, width) for i in interleave]
    place = n // 16 * 256 + k % 16 * 16 + n % 16
    return k // 16 * 16 * N + place // 1024 * 1024 + order.index(place % 1024)


def awq_offset(k: int, n: int, N: int) -> int:
    return k * N + n // 8 * 8 + [0, 2, 4, 6, 1, 3, 5, 7].index(n % 8)


def grid(K: int, N: int) -> tuple[Offsets, Offsets]:
    return np.arange(K, dtype=np.int64)[:, np.newaxis], np.arange(N, dtype=np.int64)


def small_shapes(layout: PackLayout) -> list[tuple[int, int]]:
    return [(layout.k_multiple * i, layout.n_multiple * j) for i, j in ((1, 1), (2, 3), (3, 2))]


def slices(layout: PackLayout, size_k: int, size_n: int) -> list[tuple[Offsets, Offsets]]:
    """k and n of a production shape, thinned to about a million elements."""
    k, n = grid(size_k, size_n)
    step = max(1, size_k * size_n // 2**20) | 1  # odd: every residue of the digits is met
    return [(k[::step], n), (k, n[::step])]


def matrix(K: int, N: int, seed: int = 0) -> npt.NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, (K, N)).astype(np.int8)


@pytest.mark.parametrize(("layout", "use"), [u for u in USES if u[0].name in FORMULAS], ids=lambda v: v.name)
def test_offsets_of_every_production_shape_are_the_source_formula(layout: PackLayout, use: Any) -> None:
    for k, n in slices(layout, use.k, use.n):
        assert np.array_equal(layout.offset(k, n, use.k, use.n), FORMULAS[layout.name](k, n, use.k, use.n))


def test_every_layout_is_held_to_a_formula_or_a_packer() -> None:
    assert set(PACKS) == set(FORMULAS) | {"awq-4bit", "marlin-4bit", "marlin-8bit"}
    assert all(name == layout.name and layout.source and layout.uses for name, layout in PACKS.items())


def test_two_decode_kernels_share_one_relation() -> None:
    k, n = grid(2048, 2048)
    q_b = ((n // 16) * (2048 // 32) + k // 32) * 512 + ((k % 32) // 8) * 128 + (n % 16) * 8 + k % 8
    assert np.array_equal(q_b, PACKS["fragment"].offset(k, n, 2048, 2048))


@pytest.mark.parametrize("name", ["marlin-4bit", "marlin-8bit"])
def test_marlin_offsets_are_those_of_its_packer(name: str) -> None:
    layout = PACKS[name]
    for k in range(0, 32, 3):
        for n in range(0, 128, 5):
            assert layout.offset(k, n, 32, 128) == marlin_offset(layout, k, n, 128)


def test_awq_and_gptq_words_are_those_of_their_packers() -> None:
    codes = np.random.default_rng(3).integers(0, 16, (16, 24)).astype(np.uint8)
    awq = nibble.join(PACKS["awq-4bit"].pack(codes)).view("<u4").reshape(16, 3)
    gptq = nibble.join(PACKS["gptq-4bit"].pack(codes)).view("<u4").reshape(2, 24)
    for k in range(16):
        for n in range(24):
            assert PACKS["awq-4bit"].offset(k, n, 16, 24) == awq_offset(k, n, 24)
            assert gptq[k // 8, n] >> 4 * (k % 8) & 15 == codes[k, n]
    for slot, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
        assert np.array_equal(awq >> 4 * slot & 15, codes[:, column::8])


@pytest.mark.parametrize("name", CUTE)
def test_offsets_equal_tensor_layouts(name: str) -> None:
    layout = PACKS[name]
    for size_k, size_n in small_shapes(layout):
        size_k = 32 if name.startswith("core-matrix") else size_k
        theirs = tensor_layouts.Layout(*CUTE[name](size_k, size_n))
        k, n = grid(size_k, size_n)
        ours = layout.offset(k, n, size_k, size_n)
        picked = np.random.default_rng(1).integers(0, size_k * size_n, 200)
        for element in picked.tolist():
            row, column = divmod(element, size_n)
            assert ours[row, column] == theirs(row, column)


@pytest.mark.parametrize("layout", PACKS.values(), ids=lambda layout: layout.name)
def test_pack_unpack_and_locate_follow_the_offset(layout: PackLayout) -> None:
    for size_k, size_n in small_shapes(layout):
        raw = np.arange(size_k * size_n, dtype=np.int32).reshape(size_k, size_n)
        flat = layout.pack(raw)
        k, n = grid(size_k, size_n)
        assert np.array_equal(flat[layout.offset(k, n, size_k, size_n)], raw)
        assert np.array_equal(layout.unpack(flat, size_k, size_n), raw)
        at = np.arange(flat.size)
        where_k, where_n = layout.locate(at, size_k, size_n)
        assert np.array_equal(where_k * size_n + where_n, flat)
        assert [layout.locate(place, size_k, size_n) for place in range(0, flat.size, 97)] == [
            divmod(int(flat[place]), size_n) for place in range(0, flat.size, 97)
        ]
        assert layout.offset(size_k - 1, 0, size_k, size_n) == int(np.flatnonzero(flat == (size_k - 1) * size_n)[0])


@given(st.sampled_from(sorted(PACKS)), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_round_trip_of_random_legal_shapes(name: str, rows: int, columns: int, seed: int) -> None:
    layout = PACKS[name]
    size_k, size_n = layout.k_multiple * rows, layout.n_multiple * columns
    raw = matrix(size_k, size_n, seed)
    flat = layout.pack(raw)
    assert flat.size == layout.size(size_k, size_n) == raw.size
    assert np.array_equal(layout.unpack(flat, size_k, size_n), raw)


@given(st.sampled_from(["scale-128x4", "scale-8x4"]), st.integers(0, 13), st.integers(0, 300), st.integers(0, 255))
def test_ragged_scales_are_padded_and_come_back(name: str, size_k: int, size_n: int, fill: int) -> None:
    layout = PACKS[name]
    raw = (matrix(size_k, size_n).view(np.uint8) & 0x7F) | 1
    flat = layout.pack(raw, fill=fill)
    assert flat.size == layout.size(size_k, size_n)
    assert np.array_equal(layout.unpack(flat, size_k, size_n), raw)
    inside = np.zeros(flat.size, bool)
    inside[layout.offset(*grid(size_k, size_n), size_k, size_n)] = True
    assert np.all(flat[~inside] == fill)


@pytest.mark.parametrize(("layout", "use"), USES, ids=lambda value: value.name)
def test_every_relation_is_a_bijection_for_its_production_shape(layout: PackLayout, use: Any) -> None:
    proof = prove_layout(layout, use.k, use.n)
    power_of_two = (use.k & (use.k - 1)) == 0 and (use.n & (use.n - 1)) == 0
    assert proof.method is (Method.RANK if power_of_two else Method.ENUMERATION)
    assert proof.elements == layout.size(use.k, use.n)


@pytest.mark.parametrize("layout", PACKS.values(), ids=lambda layout: layout.name)
def test_rank_and_enumeration_agree(layout: PackLayout) -> None:
    size_k, size_n = max(layout.k_multiple, 32), max(2 * layout.n_multiple, 64)
    assert prove_layout(layout, size_k, size_n).method is Method.RANK
    assert enumerate_layout(layout, size_k, size_n).method is Method.ENUMERATION
    bits = (size_k * size_n).bit_length() - 1
    linear = BitMatrix.of(lambda i: layout.offset(i // size_n, i % size_n, size_k, size_n), bits)
    index = np.arange(size_k * size_n)
    everything = layout.offset(*grid(size_k, size_n), size_k, size_n).reshape(-1)
    assert np.array_equal(linear.apply_all(index), everything)  # linear indeed, not only on single bits
    assert [linear.apply(i) for i in range(0, index.size, 131)] == everything[::131].tolist()
    undo = linear.inverse()
    assert np.array_equal(undo.apply_all(everything), index)
    assert (undo @ linear).columns == tuple(1 << bit for bit in range(bits))


def test_panels_keep_a_stage_of_64_k_in_one_run_of_4_kib() -> None:
    layout = PACKS["panel-64"]
    k, n = grid(2048, 4096)
    stage = np.sort(layout.offset(k[64:128], n[128:192], 2048, 4096).reshape(-1))
    assert np.array_equal(stage, np.arange(stage[0], stage[0] + 4096))


def test_scales_in_flight_have_the_documented_evidence_and_the_inferred_one_says_so() -> None:
    inferred = [layout.name for layout in PACKS.values() if layout.evidence is Evidence.INFERRED]
    assert inferred == ["stage-64-k8"]


#: Wrong packs of a matrix: each must differ from the layout it imitates.
TWINS: dict[str, tuple[str, Callable[[npt.NDArray[np.int8]], npt.NDArray[np.int8]]]] = {
    "contiguous for n-major": ("n-major", lambda raw: raw.reshape(-1)),
    "view for transpose": ("n-major", lambda raw: raw.reshape(raw.shape[::-1]).reshape(-1)),
    "panels of 32": ("panel-64", lambda raw: raw.reshape(raw.shape[0], -1, 32).swapaxes(0, 1).reshape(-1)),
    "k and n of a panel exchanged": ("panel-64", lambda raw: PACKS["n-major"].pack(raw)),
    "k bytes swapped in pairs": (
        "fragment",
        lambda raw: PACKS["fragment"].pack(raw).reshape(-1, 2)[:, ::-1].reshape(-1),
    ),
    "halves of 8 bytes swapped": (
        "fragment",
        lambda raw: PACKS["fragment"].pack(raw).reshape(-1, 2, 4)[:, ::-1].reshape(-1),
    ),
    "chunk = lane >> 6, always 0": ("fragment", lambda raw: repeated_chunk(raw)),
    "last panel missing": ("panel-64", lambda raw: np.append(PACKS["panel-64"].pack(raw)[: -64 * len(raw)], raw[:0])),
    "sub-tile of a pair dropped": ("fragment-pairs", lambda raw: PACKS["fragment"].pack(raw)),
    "stage-major for tile-major": ("stage-64-n128-k8", lambda raw: PACKS["stage-64-k8"].pack(raw)),
    "GPTQ for AWQ": ("awq-4bit", lambda raw: PACKS["gptq-4bit"].pack(raw)),
    "columns in order for AWQ": ("awq-4bit", lambda raw: raw.reshape(-1)),
    "nibbles swapped": ("nibble-k", lambda raw: PACKS["nibble-k"].pack(raw).reshape(-1, 2)[:, ::-1].reshape(-1)),
    "8-bit words for Marlin": ("marlin-4bit", lambda raw: PACKS["marlin-8bit"].pack(raw)),
    "8x4 scales for 128x4": ("scale-128x4", lambda raw: PACKS["scale-8x4"].pack(raw)),
    "linear scales": ("scale-128x4", lambda raw: PACKS["n-major"].pack(raw)),
}


def repeated_chunk(raw: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    wrong = raw.copy()
    wrong[:, 16:] = np.tile(raw[:, :16], raw.shape[1] // 16 - 1)
    return PACKS["fragment"].pack(wrong)


@pytest.mark.parametrize("why", TWINS)
def test_wrong_packs_are_rejected(why: str) -> None:
    name, twin = TWINS[why]
    raw = matrix(512, 256)
    assert not np.array_equal(twin(raw), PACKS[name].pack(raw)), why


def test_an_index_of_32_bits_is_widened_before_it_overflows() -> None:
    k = np.array([65_535], np.int32)
    n = np.array([65_472], np.int32)
    assert PACKS["n-major"].offset(k, n, 65_536, 65_536).tolist() == [65_472 * 65_536 + 65_535]  # type: ignore[type-var]


def test_failed_proofs_name_what_collides() -> None:
    with pytest.raises(NotABijection, match="indices 0 and 6 share offset 0"):
        prove_rank(BitMatrix((1, 2, 2)))
    with pytest.raises(NotABijection, match="index 2 goes to offset 4, outside 4"):
        prove_rank(BitMatrix((1, 4)))
    with pytest.raises(NotABijection, match="index 3 and an earlier one share offset 1"):
        prove_enumeration([np.array([0, 1]), np.array([2, 1])], 4)
    with pytest.raises(NotABijection, match="offset 3 is taken by none"):
        prove_enumeration([np.array([0, 1, 2, 2])], 4)
    with pytest.raises(NotABijection, match="index 1 goes to offset 9"):
        prove_enumeration([np.array([0, 9])], 2)
    with pytest.raises(NotABijection, match="3 indices for 4 offsets"):
        prove_enumeration([np.array([0, 1, 2])], 4)


def test_rank_of_the_worked_examples() -> None:
    assert BitMatrix((0b010, 0b101, 0b100)).rank == 3
    assert BitMatrix((0b010, 0b110, 0b100)).rank == 2
    assert BitMatrix((0b010, 0b110, 0b100)).collision == 0b111
    assert str(BitMatrix((0b010, 0b101, 0b100))) == "bit 0 = in 1, bit 1 = in 0, bit 2 = in 1 ^ in 2"


def test_nibbles_join_low_first_and_come_back() -> None:
    codes = np.arange(16, dtype=np.uint8)
    assert nibble.join(codes[1:3]).tolist() == [0x21]
    assert nibble.swap(nibble.join(codes[1:3])).tolist() == [0x12]
    every = np.arange(256, dtype=np.uint8)
    assert np.array_equal(nibble.join(nibble.split(every)), every)
    assert np.array_equal(nibble.split(nibble.swap(every)).reshape(-1, 2)[:, ::-1].reshape(-1), nibble.split(every))


def layout_of(*digits: Any) -> PackLayout:
    return PackLayout(name="test", digits=digits, source="test", evidence=Evidence.INFERRED, uses=())


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: PACKS["panel-64"].pack(np.zeros((8, 65), np.int8)), "K = 8, N = 65 are no multiples of 1 and 64"),
        (lambda: PACKS["fragment-pairs"].size(128, 32), "no multiples of 256 and 32"),
        (lambda: PACKS["n-major"].size(-1, 4), "negative"),
        (lambda: PACKS["n-major"].pack(np.zeros(4, np.int8)), "rank 2"),
        (lambda: PACKS["n-major"].unpack(np.zeros(5, np.int8), 2, 2), r"buffer of shape \(5,\)"),
        (lambda: PACKS["n-major"].unpack(np.zeros((2, 2), np.int8), 2, 2), r"buffer of shape \(2, 2\)"),
        (lambda: PACKS["n-major"].offset(2, 0, 2, 2), "k = 2 is outside 0..1"),
        (lambda: PACKS["n-major"].offset(0, -1, 2, 2), "n = -1 is outside"),
        (lambda: PACKS["n-major"].offset(np.array([0, 5]), np.array([0]), 2, 2), "k from 0 to 5"),
        (lambda: PACKS["scale-8x4"].offset(3, 0, 3, 8), "k = 3 is outside 0..2"),
        (lambda: PACKS["n-major"].locate(4, 2, 2), "offset = 4 is outside"),
        (lambda: find_layout("panel"), "no layout 'panel'"),
        (lambda: layout_of(K // 2, N), "no|cut"),
        (lambda: layout_of(K // 4, K % 2, N), "do not cut axis k"),
        (lambda: layout_of(K, K % 2, N), "do not cut axis k"),
        (lambda: layout_of(K), "axis n"),
        (lambda: layout_of(K % 4, N), "quotient by 4"),
        (lambda: (K % 4) // 2, "already has an extent"),
        (lambda: K % 4 % 2, "already has an extent"),
        (lambda: nibble.join(np.array([1, 2, 3], np.uint8)), "n even"),
        (lambda: nibble.join(np.array([1, 16], np.uint8)), "code 16"),
        (lambda: nibble.split(np.array([1, 16], np.int8)), "int8"),
        (lambda: BitMatrix.of(lambda x: x ^ 1, 3), "takes 0 to 0"),
        (lambda: BitMatrix((1, 1)).inverse(), "no inverse"),
    ],
)
def test_illegal_requests_are_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        refused()
