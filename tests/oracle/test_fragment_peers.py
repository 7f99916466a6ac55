"""Fragments against CuTe's atoms in the independent package tensor-layouts, and faults that these must see.

An atom's layout takes a thread and a value number to row + column · rows. Value v of a lane is slot v % slots of
register v / slots.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensor_layouts.atoms_nv as atoms

from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap
from tileproof.oracle.maps.ldmatrix import ldmatrix, stmatrix
from tileproof.oracle.maps.mma_fragments import mma_a, mma_b, mma_c
from tileproof.oracle.maps.wgmma_fragments import wgmma_d

Numbers = npt.NDArray[np.int64]
Atom = Any
Layout = Any

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "e4m3": 8, "e5m2": 8, "s4": 4, "b1": 1, "f32": 32}
#: Atoms of other instructions: sparse and complex operands.
OTHER = re.compile("SPARSE|C64")
#: The atom's own layout is no bijection: threads of a group overlap (stride 32 where 64 covers k). The H200 recording
#: of mma.m16n8k32 with s4 follows the map of this project.
BROKEN_B = "SM80_16x8x32_S32S4S4S32_TN"
#: The layout of m16n8k64, which exists for 4-bit elements, under a name of 8-bit ones.
NAMED_8_BIT = re.compile(r"SM120_16x8x64_F\d+E4M3E4M3")

MMA_ATOMS = [
    atom
    for group in ("SM75", "SM80", "SM89", "SM90", "SM120")
    for atom in getattr(atoms, f"MMA_ATOMS_{group}")
    if not OTHER.search(atom.name)
]
GMMA_ATOMS = [
    *atoms.MMA_ATOMS_SM90_GMMA,
    *atoms.MMA_ATOMS_SM90_GMMA_EXT,
    *map(atoms.make_gmma_atom_ss, range(8, 257, 8)),
]
each_mma_atom = pytest.mark.parametrize("atom", MMA_ATOMS, ids=lambda atom: atom.name)


def numbers_of(layout: Layout, fragment: FragmentMap) -> Numbers:
    """For each lane and value, the atom's row + column · rows."""
    values = fragment.registers * fragment.slots
    return np.array([[layout(lane, value) for value in range(values)] for lane in range(fragment.lanes)], np.int64)


def numbers_here(fragment: FragmentMap) -> Numbers:
    """The same numbers from a fragment map."""
    element = np.arange(fragment.rows * fragment.columns)
    numbers = np.empty_like(element)
    numbers[fragment.place_number(element)] = element // fragment.columns + element % fragment.columns * fragment.rows
    return numbers.reshape(fragment.lanes, -1)


def agrees(layout: Layout, fragment: FragmentMap) -> bool:
    return bool((numbers_of(layout, fragment) == numbers_here(fragment)).all())


def fragments_of(atom: Atom) -> tuple[FragmentMap, FragmentMap, FragmentMap]:
    """The maps for the shape and types in an atom's PTX name."""
    m, _, k = atom.shape_mnk
    accumulator, operand = atom.ptx.split(".")[6:8]
    bits = 4 if NAMED_8_BIT.match(atom.name) else BITS[operand]
    accumulator_bits = 32 if bits < 8 else BITS.get(accumulator, 32)
    return mma_a(m, k, bits), mma_b(m, k, bits), mma_c(m, k, accumulator_bits, bits)


def test_every_mma_atom_of_the_architectures_is_compared() -> None:
    assert len(MMA_ATOMS) == 35
    assert {atom.shape_mnk for atom in MMA_ATOMS} >= {(16, 8, 8), (16, 8, 16), (16, 8, 32), (8, 8, 16), (16, 8, 64)}


@each_mma_atom
def test_mma_fragments_are_those_of_the_atom(atom: Atom) -> None:
    a, b, c = fragments_of(atom)
    assert agrees(atom.a_layout, a)
    assert agrees(atom.b_layout, b) is (atom.name != BROKEN_B)
    assert agrees(atom.c_layout, c)


def test_the_atom_that_disagrees_holds_elements_twice() -> None:
    atom = getattr(atoms, BROKEN_B)
    numbers = numbers_of(atom.b_layout, mma_b(16, 32, 4))
    assert np.unique(numbers).size < numbers.size


@pytest.mark.parametrize("n", sorted({atom.shape_mnk[1] for atom in GMMA_ATOMS}))
def test_wgmma_accumulators_are_those_of_the_atoms(n: int) -> None:
    layout, *others = {str(atom.c_layout): atom.c_layout for atom in GMMA_ATOMS if atom.shape_mnk[1] == n}.values()
    assert not others
    expected = numbers_of(layout, wgmma_d(n, 16, 32))
    for bits, k in ((32, 8), (32, 16), (32, 32), (16, 16), (16, 32)):
        assert (numbers_here(wgmma_d(n, k, bits)) == expected).all()


TRANSFERS: dict[str, FragmentMap] = {
    "SM75_U32x1_LDSM_N": ldmatrix(1),
    "SM75_U32x2_LDSM_N": ldmatrix(2),
    "SM75_U32x4_LDSM_N": ldmatrix(4),
    "SM75_U16x2_LDSM_T": ldmatrix(1, transposed=True),
    "SM75_U16x4_LDSM_T": ldmatrix(2, transposed=True),
    "SM75_U16x8_LDSM_T": ldmatrix(4, transposed=True),
    "SM90_U32x1_STSM_N": stmatrix(1),
    "SM90_U32x2_STSM_N": stmatrix(2),
    "SM90_U32x4_STSM_N": stmatrix(4),
    "SM90_U16x2_STSM_T": stmatrix(1, transposed=True),
    "SM90_U16x4_STSM_T": stmatrix(2, transposed=True),
    "SM90_U16x8_STSM_T": stmatrix(4, transposed=True),
}


def transfer_agrees(name: str, fragment: FragmentMap) -> bool:
    """Bit by bit: the register side of a copy atom takes (lane, bit of its registers) to a bit of the rows."""
    atom = getattr(atoms, name)
    layout = atom.dst_layout_bits if "LDSM" in name else atom.src_layout_bits
    for lane in range(32):
        for register in range(fragment.registers):
            for slot in range(fragment.slots):
                row, column = fragment.locate(lane, register, slot)
                bit = 32 * register + fragment.element_bits * slot
                if layout(lane, bit) != 128 * row + fragment.element_bits * column:
                    return False
    return True


def test_every_copy_atom_of_ldmatrix_and_stmatrix_is_compared() -> None:
    names = {atom.name for atom in [*atoms.COPY_ATOMS_SM75, *atoms.COPY_ATOMS_SM90]}
    assert names == set(TRANSFERS)


@pytest.mark.parametrize("name", TRANSFERS)
def test_transfers_are_those_of_the_copy_atom(name: str) -> None:
    assert transfer_agrees(name, TRANSFERS[name])


@pytest.mark.parametrize("name", TRANSFERS)
def test_row_r_is_at_the_address_of_lane_r(name: str) -> None:
    atom = getattr(atoms, name)
    layout = atom.src_layout_bits if "LDSM" in name else atom.dst_layout_bits
    for lane in range(TRANSFERS[name].rows):
        assert layout(lane, 0) == 128 * lane


def matrix_of(layout: Layout, words: Numbers, fragment: FragmentMap) -> Numbers:
    """What a unit that reads registers by an atom's layout sees: rows × columns."""
    flat = np.empty(fragment.rows * fragment.columns, np.int64)
    flat[numbers_of(layout, fragment).reshape(-1)] = words.reshape(-1)
    return flat.reshape(fragment.columns, fragment.rows).T


def multiply(atom: Atom, a: FragmentMap, b: FragmentMap, c: FragmentMap, seed: int) -> tuple[Numbers, Numbers]:
    """A product through fragments, the unit reading and writing by the atom; and the plain product."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 2 ** min(a.element_bits, 8), (a.rows, a.columns)).astype(a.code_dtype)
    right = rng.integers(0, 2 ** min(b.element_bits, 8), (b.rows, b.columns)).astype(b.code_dtype)
    seen = [
        matrix_of(layout, _values(fragment, fragment.gather(matrix)), fragment)
        for layout, fragment, matrix in ((atom.a_layout, a, left), (atom.b_layout, b, right))
    ]
    product = seen[0] @ seen[1].T
    numbers = numbers_of(atom.c_layout, c)
    words = product.T.reshape(-1)[numbers].astype(c.word_dtype)
    return c.scatter(words.reshape(c.lanes, c.registers)).astype(np.int64), left.astype(np.int64) @ right.T


def _values(fragment: FragmentMap, words: Any) -> Numbers:
    """Every slot of every register as an integer, [lanes, registers · slots]."""
    shifts = np.arange(fragment.slots, dtype=np.uint64) * np.uint64(fragment.element_bits)
    mask = np.uint64((1 << fragment.element_bits) - 1)
    values: Numbers = (words.astype(np.uint64)[..., np.newaxis] >> shifts & mask).astype(np.int64)
    return values.reshape(fragment.lanes, -1)


PRODUCT_ATOMS = [
    atom for atom in MMA_ATOMS if atom.name != BROKEN_B and fragments_of(atom)[2].slots == 1 and "F64" not in atom.name
]


@pytest.mark.parametrize("atom", PRODUCT_ATOMS, ids=lambda atom: atom.name)
def test_a_product_through_fragments_is_the_plain_product(atom: Atom) -> None:
    for seed in range(3):
        through, plain = multiply(atom, *fragments_of(atom), seed)
        assert (through == plain).all()


@dataclass(frozen=True)
class Twin:
    """A wrong map and what it is held to."""

    fault: str
    atom: str
    operand: str
    make: Callable[[FragmentMap], FragmentMap]


TWINS = (
    Twin(
        "A: registers swapped",
        "SM80_16x8x16_F32F16F16F32_TN",
        "a",
        lambda f: replace(f, register=(ROW // 8, COLUMN // 8)),
    ),
    Twin(
        "A: group is lane & 3",
        "SM80_16x8x16_F32F16F16F32_TN",
        "a",
        lambda f: replace(f, lane=(COLUMN // 2 % 4, ROW % 8)),
    ),
    Twin(
        "A: rows interleaved, not + 8",
        "SM80_16x8x32_S32S8S8S32_TN",
        "a",
        lambda f: replace(f, lane=(ROW // 2, COLUMN // 4 % 4), register=(COLUMN // 16, ROW % 2)),
    ),
    Twin(
        "A: k of the second register next to the first",
        "SM80_16x8x32_S32S8S8S32_TN",
        "a",
        lambda f: replace(f, lane=(ROW % 8, COLUMN // 8), register=(COLUMN // 4 % 2, ROW // 8)),
    ),
    Twin(
        "B: transposed",
        "SM80_16x8x8_F32F16F16F32_TN",
        "b",
        lambda f: replace(f, lane=(COLUMN, ROW // 2), register=(), slot=(ROW % 2,)),
    ),
    Twin(
        "B: registers swapped with slots",
        "SM80_16x8x16_F32F16F16F32_TN",
        "b",
        lambda f: replace(f, register=(COLUMN % 2,), slot=(COLUMN // 8,)),
    ),
    Twin("B: group is lane & 3", "SM80_16x8x32_S32S8S8S32_TN", "b", lambda f: replace(f, lane=(COLUMN // 4 % 4, ROW))),
    Twin(
        "C: registers swapped", "SM80_16x8x32_S32S8S8S32_TN", "c", lambda f: replace(f, register=(COLUMN % 2, ROW // 8))
    ),
    Twin(
        "C: columns four apart, as on DUMMA",
        "SM80_16x8x32_S32S8S8S32_TN",
        "c",
        lambda f: replace(f, lane=(ROW % 8, COLUMN % 4), register=(ROW // 8, COLUMN // 4)),
    ),
    Twin(
        "C: rows interleaved, not + 8",
        "SM80_16x8x32_S32S8S8S32_TN",
        "c",
        lambda f: replace(f, lane=(ROW // 2, COLUMN // 2), register=(ROW % 2, COLUMN % 2)),
    ),
)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.fault)
def test_wrong_maps_are_seen_by_the_atom_and_by_the_product(twin: Twin) -> None:
    atom = getattr(atoms, twin.atom)
    maps = dict(zip("abc", fragments_of(atom), strict=True))
    layout = getattr(atom, f"{twin.operand}_layout")
    assert agrees(layout, maps[twin.operand])
    maps[twin.operand] = twin.make(maps[twin.operand])
    assert not agrees(layout, maps[twin.operand])
    through, plain = multiply(atom, maps["a"], maps["b"], maps["c"], 0)
    assert (through != plain).any()


TRANSFER_TWINS = {
    "ldmatrix: .trans forgotten": ("SM75_U16x8_LDSM_T", ldmatrix(4)),
    "ldmatrix: matrices in another order": (
        "SM75_U32x4_LDSM_N",
        replace(ldmatrix(4), register=(ROW // 8 % 2, ROW // 16)),
    ),
    "stmatrix: slots swapped with lanes": (
        "SM90_U32x2_STSM_N",
        replace(stmatrix(2), lane=(ROW % 8, COLUMN % 4), slot=(COLUMN // 4,)),
    ),
}


@pytest.mark.parametrize("fault", TRANSFER_TWINS)
def test_wrong_transfers_are_seen_by_the_copy_atom(fault: str) -> None:
    name, fragment = TRANSFER_TWINS[fault]
    assert not transfer_agrees(name, fragment)


def test_warps_in_another_order_are_seen_by_the_wgmma_atom() -> None:
    right = wgmma_d(16, 16, 32)
    wrong = replace(right, lane=(ROW % 4, ROW // 8, COLUMN // 2 % 4), register=(COLUMN // 8, ROW // 4 % 2, COLUMN % 2))
    layout = atoms.make_gmma_atom_ss(16).c_layout
    assert agrees(layout, right)
    assert not agrees(layout, wrong)
