"""Fragment maps are bijections, as the PTX ISA writes them, and move whole matrices by the same rule."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.oracle.addresses.bijection import Method, NotABijection
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.fragments import enumerate_fragment, every_fragment, find_fragments, prove_fragment
from tileproof.oracle.maps.dumma_fragments import DUMMA_A, DUMMA_B, DUMMA_C
from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap, Operand, Place
from tileproof.oracle.maps.mma_fragments import SHAPES, mma_a, mma_b, mma_c
from tileproof.oracle.maps.wgmma_fragments import wgmma_a, wgmma_d
from tileproof.oracle.refusal import Refusal

EVERY = list(every_fragment())
#: One map of each rule, small enough to look at every element in Python.
SMALL = [fragment for fragment in EVERY if fragment.rows * fragment.columns <= 1024]

each_map = pytest.mark.parametrize("fragment", EVERY, ids=str)
each_small_map = pytest.mark.parametrize("fragment", SMALL, ids=str)


def codes_of(fragment: FragmentMap, *batch: int) -> np.ndarray[Any, Any]:
    limit = 1 << fragment.code_width
    shape = (*batch, fragment.rows, fragment.columns)
    return np.random.default_rng(5).integers(0, limit, shape, dtype=np.uint64).astype(fragment.code_dtype)


@each_map
def test_every_element_has_a_place_of_its_own(fragment: FragmentMap) -> None:
    proof = enumerate_fragment(fragment)
    assert (proof.method, proof.elements) == (Method.ENUMERATION, fragment.rows * fragment.columns)


@each_map
def test_linear_maps_have_full_rank(fragment: FragmentMap) -> None:
    expected = Method.RANK if fragment.is_bit_linear else Method.ENUMERATION
    assert prove_fragment(fragment).method is expected


@each_small_map
def test_locate_undoes_place(fragment: FragmentMap) -> None:
    for element in range(fragment.rows * fragment.columns):
        row, column = divmod(element, fragment.columns)
        place = fragment.place(row, column)
        assert fragment.locate(*place) == (row, column)
        number = (place.lane * fragment.registers + place.register) * fragment.slots + place.slot
        assert fragment.place_number(element) == number


@each_map
def test_scatter_undoes_gather(fragment: FragmentMap) -> None:
    codes = codes_of(fragment, 2)
    words = fragment.gather(codes)
    assert words.shape == (2, fragment.lanes, fragment.registers)
    assert words.dtype == fragment.word_dtype
    assert (fragment.scatter(words) == codes).all()


@each_small_map
def test_gather_puts_each_code_into_the_bits_of_its_place(fragment: FragmentMap) -> None:
    codes = codes_of(fragment)
    words = fragment.gather(codes)
    for row in range(0, fragment.rows, 3):
        for column in range(fragment.columns):
            lane, register, slot = fragment.place(row, column)
            low = slot * fragment.element_bits + fragment.code_shift
            assert int(words[lane, register]) >> low & (1 << fragment.code_width) - 1 == codes[row, column]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"m{s.m}n8k{s.k}-{s.bits}")
def test_mma_multiplicands_are_as_the_ptx_isa_writes_them(shape: Any) -> None:
    """PTX ISA 9.2 section 9.7.14.5: groupID = %laneid >> 2, threadID_in_group = %laneid % 4, element ai or bi."""
    a, b = mma_a(shape.m, shape.k, shape.bits), mma_b(shape.m, shape.k, shape.bits)
    in_register, halves = a.slots, shape.m // 8
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        for i in range(a.registers * a.slots):
            # As in the sections: which half of the rows an ai is in changes from register to register.
            row = group if i // in_register % halves == 0 else group + 8
            column = thread * in_register + i % in_register + i // (in_register * halves) * 4 * in_register
            assert a.locate(lane, i // in_register, i % in_register) == (row, column)
        for i in range(b.registers * b.slots):
            k = thread * in_register + i % in_register + i // in_register * 4 * in_register
            assert b.locate(lane, i // in_register, i % in_register) == (group, k)


def isa_m16n8k16_f16_a(i: int, group: int, thread: int) -> tuple[int, int]:
    """Section 9.7.14.5.8: row groupID for i in 0, 1, 4, 5; column threadID_in_group * 2 + (i & 1), + 8 from i = 4."""
    row = group if i < 2 or 4 <= i < 6 else group + 8
    return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)


def isa_m16n8k8_tf32_a(i: int, group: int, thread: int) -> tuple[int, int]:
    """Section 9.7.14.5.7, figure 72: row groupID for a0 and a2; column + 4 for a2 and a3."""
    return group if i in (0, 2) else group + 8, thread if i in (0, 1) else thread + 4


def isa_m16n8k16_s8_a(i: int, group: int, thread: int) -> tuple[int, int]:
    """Section 9.7.14.5.9, figure 84: row groupID for i < 4; column threadID_in_group * 4 + (i & 3)."""
    return group if i < 4 else group + 8, thread * 4 + (i & 3)


def isa_m16n8k64_s4_a(i: int, group: int, thread: int) -> tuple[int, int]:
    """Section 9.7.14.5.11, figure 93: row groupID for 0 <= i < 8 or 16 <= i < 24; column + 32 from i = 16."""
    row = group if 0 <= i < 8 or 16 <= i < 24 else group + 8
    return row, thread * 8 + (i & 7) + (32 if i >= 16 else 0)


def isa_c(i: int, group: int, thread: int) -> tuple[int, int]:
    """Sections 9.7.14.5.7 to .11: row groupID for c0 and c1, groupID + 8 for c2 and c3."""
    return group if i < 2 else group + 8, thread * 2 + (i & 1)


def isa_wgmma_d(i: int, group: int, thread: int) -> tuple[int, int]:
    """Section 9.7.15.5.1.1, figure 149, within a warp: columns repeat every 8 with four elements."""
    return group if i % 4 < 2 else group + 8, 8 * (i // 4) + thread * 2 + (i & 1)


def dumma_c(i: int, q: int, r: int) -> tuple[int, int]:
    """x[i] = C[row r][column q + 4i]."""
    return r, q + 4 * i


def dumma_ab(i: int, q: int, r: int) -> tuple[int, int]:
    """x[i] = A[row r][k = 8q + i], B[k = 8q + i][n = r]."""
    return r, 8 * q + i


@pytest.mark.parametrize(
    ("fragment", "formula"),
    [
        (mma_a(16, 16, 16), isa_m16n8k16_f16_a),
        (mma_a(16, 8, 32), isa_m16n8k8_tf32_a),
        (mma_a(16, 16, 8), isa_m16n8k16_s8_a),
        (mma_a(16, 64, 4), isa_m16n8k64_s4_a),
        (mma_c(16, 16, 32, 16), isa_c),
        (mma_c(16, 16, 16, 16), isa_c),
        (mma_c(16, 32, 32, 8), isa_c),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_fragments_of_a_warp_are_the_formulas_of_their_section(
    fragment: FragmentMap, formula: Callable[[int, int, int], tuple[int, int]]
) -> None:
    for lane in range(32):
        for i in range(fragment.registers * fragment.slots):
            assert fragment.locate(lane, *divmod(i, fragment.slots)) == formula(i, lane >> 2, lane % 4)


@pytest.mark.parametrize(
    ("fragment", "formula"), [(DUMMA_A, dumma_ab), (DUMMA_B, dumma_ab), (DUMMA_C, dumma_c)], ids=["A", "B", "C"]
)
def test_fragments_of_a_wave_are_the_formulas_of_their_source(
    fragment: FragmentMap, formula: Callable[[int, int, int], tuple[int, int]]
) -> None:
    for lane in range(64):
        for i in range(fragment.registers * fragment.slots):
            assert fragment.locate(lane, *divmod(i, fragment.slots)) == formula(i, lane >> 4, lane & 15)


@pytest.mark.parametrize("n", [8, 24, 104, 256])
@pytest.mark.parametrize("bits", [16, 32])
def test_a_warp_of_wgmma_holds_sixteen_rows(n: int, bits: int) -> None:
    fragment = wgmma_d(n, 16, bits)
    for lane in range(0, 128, 5):
        for i in range(fragment.registers * fragment.slots):
            row, column = isa_wgmma_d(i, lane % 32 >> 2, lane % 4)
            assert fragment.locate(lane, *divmod(i, fragment.slots)) == (row + 16 * (lane // 32), column)


@pytest.mark.parametrize(("bits", "k"), [(8, 32), (16, 16), (32, 8), (1, 256)])
def test_wgmma_a_is_mma_a_for_each_warp(bits: int, k: int) -> None:
    whole, part = wgmma_a(bits), mma_a(16, k, bits)
    codes = codes_of(whole)
    warps = part.gather(codes.reshape(4, 16, k))
    assert (whole.gather(codes).reshape(warps.shape) == warps).all()


def test_words_hold_neighbouring_bytes_as_little_endian_memory_does() -> None:
    codes = np.arange(16 * 32, dtype=np.uint32).astype(np.uint8).reshape(16, 32)
    words = mma_a(16, 32, 8).gather(codes)
    for lane in range(32):
        start = 32 * (lane // 4) + 4 * (lane % 4)
        assert words[lane, 0].astype("<u4").tobytes() == codes.reshape(-1)[start : start + 4].tobytes()


def test_the_worked_example_of_the_module() -> None:
    fragment = mma_a(16, 16, 16)
    assert fragment.place(11, 13) == Place(lane=14, register=3, slot=1)
    assert fragment.formula == "lane [row%8][column/2%4], register [column/8][row/8], slot [column%2]"


@given(seed=st.integers(0, 2**32), batch=st.lists(st.integers(1, 3), max_size=2))
@settings(max_examples=25, deadline=None)
def test_any_float_type_passes_through_by_its_bits(seed: int, batch: list[int]) -> None:
    fragment = mma_c(16, 32, 32, 8)
    bits = np.random.default_rng(seed).integers(0, 2**32, (*batch, 16, 8), dtype=np.uint32)
    floats = fragment.scatter(fragment.gather(bits.view(np.float32)), np.float32)
    assert floats.dtype == np.float32
    assert (floats.view(np.uint32) == bits).all()


@pytest.mark.parametrize(
    ("name", "bits", "code_bits", "shift"),
    [
        ("mma.m16n8k32.f32.e4m3.e5m2", 8, 8, 0),
        ("mma.m16n8k32.kind::f8f6f4.f32.e2m1.e4m3", 8, 4, 2),
        ("mma.m16n8k32.kind::f8f6f4.f32.e3m2.e2m1", 8, 6, 0),
        ("mma.m16n8k32.satfinite.s32.s8.u8", 8, 8, 0),
        ("mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.ue4m3", 4, 4, 0),
        ("mma.m16n8k8.f32.tf32.tf32", 32, 32, 0),
        ("mma.m16n8k16.f32.bf16.bf16", 16, 16, 0),
        ("mma.m8n8k4.f64.f64.f64", 64, 64, 0),
        ("wgmma.m64n256k32.f32.e4m3.e4m3", 8, 8, 0),
    ],
)
def test_a_name_finds_its_fragments(name: str, bits: int, code_bits: int, shift: int) -> None:
    a = find_fragments(name).a
    assert (a.element_bits, a.code_width, a.code_shift) == (bits, code_bits, shift)


def test_narrow_codes_stand_in_the_middle_of_their_bytes() -> None:
    """PTX ISA: an e2m1 element of kind f8f6f4 fills bits 5:2 of its byte."""
    a = find_fragments("mma.m16n8k32.kind::f8f6f4.f32.e2m1.e4m3").a
    assert a.evidence is Evidence.DOCUMENTED
    words = a.gather(np.full((16, 32), 0xF, np.uint8))
    assert (words == 0x3C3C3C3C).all()
    assert (a.scatter(words | np.uint32(0xC3C3C3C3)) == 0xF).all()
    with pytest.raises(Refusal, match="needs more than 4 bits"):
        a.gather(np.full((16, 32), 0x10, np.uint8))


def test_what_no_recording_shows_is_not_called_measured() -> None:
    levels = {evidence: {str(f) for f in EVERY if f.evidence is evidence} for evidence in Evidence}
    assert not levels[Evidence.INFERRED]
    assert str(DUMMA_C) in levels[Evidence.DOCUMENTED]
    assert str(mma_a(16, 32, 8)) in levels[Evidence.MEASURED]
    assert all("h200_fragments" in f.source for f in EVERY if f.evidence is Evidence.MEASURED)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mma.m16n8k64.f32.e4m3.e4m3", "m16n8k64 with elements of 8 bits is outside"),
        ("mma.m8n8k4.f32.f16.f16", "m8n8k4 with elements of 16 bits is outside"),
        ("mma.m16n16k16.f32.f16.f16", "no N = 16"),
        ("mma.m16n8k16.f32.f16.tf32", "operands of 16 and 32 bits"),
        ("mma.m16n8k8.f16.tf32.tf32", "no accumulators of 16 bits"),
        ("wgmma.m64n12k16.f32.f16.f16", "no N = 12"),
        ("wgmma.m64n264k16.f32.f16.f16", "no N = 264"),
        ("wgmma.m64n40k32.s32.s8.s8", "integers has no N = 40"),
        ("wgmma.m64n8k32.f32.f16.f16", "no m64n8k32"),
        ("wgmma.m64n8k8.f16.tf32.tf32", "no accumulators of 16 bits"),
        ("mfma.m16n16k16.f32.f16.f16", "fragments of mfma"),
        ("tcgen05.m128n256k32.kind::f8f6f4.f32.e4m3.e4m3", "fragments of tcgen05"),
    ],
)
def test_what_has_no_modelled_fragments_is_refused_with_a_remedy(name: str, message: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        find_fragments(name)
    assert refused.value.hint or "do not meet" in refused.value.message


def test_lanes_registers_slots_and_elements_outside_are_refused() -> None:
    fragment = mma_a(16, 16, 16)
    for place in ((32, 0, 0), (0, 4, 0), (0, 0, 2), (-1, 0, 0)):
        with pytest.raises(Refusal, match="is outside 0"):
            fragment.locate(*place)
    for element in ((16, 0), (0, 16), (-1, 0)):
        with pytest.raises(Refusal, match="outside 16 × 16"):
            fragment.place(*element)


def test_matrices_and_words_of_another_shape_or_width_are_refused() -> None:
    fragment = mma_a(16, 16, 16)
    for matrix in (np.zeros((16, 8), np.uint16), np.zeros((16, 16), np.uint8), np.zeros(256, np.uint16)):
        with pytest.raises(Refusal, match="a matrix of shape"):
            fragment.gather(matrix)
    for words in (np.zeros((32, 2), np.uint32), np.zeros((32, 4), np.uint64)):
        with pytest.raises(Refusal, match="words of shape"):
            fragment.scatter(words)
    with pytest.raises(Refusal, match="cannot be seen as"):
        fragment.scatter(np.zeros((32, 4), np.uint32), np.float32)


def test_digits_that_lose_or_repeat_a_part_make_no_map() -> None:
    fragment = mma_a(16, 16, 16)
    with pytest.raises(Refusal, match="no digit"):
        replace(fragment, register=(COLUMN // 8,))
    with pytest.raises(Refusal, match="do not cut"):
        replace(fragment, slot=(COLUMN % 2, COLUMN % 2))
    with pytest.raises(Refusal, match="digits give"):
        replace(fragment, register=(COLUMN // 8, ROW // 8, COLUMN % 2), slot=())
    with pytest.raises(Refusal, match="leaves its slot"):
        replace(fragment, code_bits=12, code_shift=5)


def test_a_map_that_holds_an_element_twice_fails_its_proof() -> None:
    class Folded(FragmentMap):
        def place_number(self, element: Any) -> Any:
            return super().place_number(element & ~1)

    whole = mma_c(16, 16, 32, 16)
    folded = Folded(**{name: getattr(whole, name) for name in whole.__dataclass_fields__})
    for prove in (prove_fragment, enumerate_fragment):
        with pytest.raises(NotABijection):
            prove(folded)


def test_operands_say_what_their_rows_are() -> None:
    found = find_fragments("mma.m16n8k16.f32.f16.f16")
    assert found.b is not None
    assert [f.operand for f in (found.a, found.b, found.c)] == [Operand.A, Operand.B, Operand.C]
    assert (found.b.rows, found.b.columns) == (8, 16)
    assert find_fragments("wgmma.m64n8k16.f32.f16.f16").b is None
