"""The register fragments of a matrix instruction, by its name, and the proof that each is a bijection.

    find_fragments("mma.m16n8k32.f32.e4m3.e4m3").a.gather(codes)     # uint8 [16, 32] to uint32 [32 lanes, 4 registers]

`mma_fragments`, `wgmma_fragments`, `dumma_fragments` and `ldmatrix` hold the maps themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tileproof.oracle.addresses.bijection import Bijection, prove_enumeration, prove_rank
from tileproof.oracle.addresses.gf2 import BitMatrix
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.maps.dumma_fragments import DUMMA_A, DUMMA_B, DUMMA_C
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ldmatrix, stmatrix
from tileproof.oracle.maps.mma_fragments import SHAPES, N, mma_a, mma_b, mma_c
from tileproof.oracle.maps.wgmma_fragments import wgmma_a, wgmma_d, wgmma_k
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Family, Instruction, parse_instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OperandType

#: Kinds of `mma` whose 4-bit elements are dense; in the others every element fills a byte.
_DENSE_KINDS = ("mxf4", "mxf4nvf4")
#: Lowest bit of an e2m1 code in its byte of kind f8f6f4; 6-bit codes start at bit 0 (PTX ISA 9.2, "mma", packing).
_E2M1_SHIFT = 2


@dataclass(frozen=True)
class Fragments:
    """The maps of one instruction."""

    a: FragmentMap
    #: None for wgmma, whose B lies in shared memory (`wgmma_tile`).
    b: FragmentMap | None
    #: C and D.
    c: FragmentMap


@cache
def find_fragments(name: str) -> Fragments:
    """The register fragments of an instruction, as `matrix_unit.multiply_add` names it.

    Raises:
        Refusal: no such instruction, or one whose fragments are not modelled.
    """
    instruction = parse_instruction(name)
    if instruction.family is Family.MMA:
        return _mma(instruction)
    if instruction.family is Family.WGMMA:
        return _wgmma(instruction)
    raise Refusal(
        f"the fragments of {instruction.family} are outside the model",
        hint="modelled: mma, wgmma, DUMMA m16n16k32, ldmatrix, stmatrix and movmatrix",
    )


def every_fragment() -> Iterator[FragmentMap]:
    """Every map of the model; of wgmma accumulators, every N."""
    for shape in SHAPES:
        yield mma_a(shape.m, shape.k, shape.bits)
        yield mma_b(shape.m, shape.k, shape.bits)
        for bits in {1: (32,), 4: (32,), 8: (16, 32), 16: (16, 32), 32: (32,), 64: (64,)}[shape.bits]:
            yield mma_c(shape.m, shape.k, bits, shape.bits)
    for bits in (1, 8, 16, 32):
        yield wgmma_a(bits)
        for n in range(8, 257, 8):
            yield wgmma_d(n, wgmma_k(bits), 32)
            if bits in (8, 16):
                yield wgmma_d(n, wgmma_k(bits), 16)
    for transposed in (False, True):
        for count in (1, 2, 4):
            yield ldmatrix(count, transposed=transposed)
            yield stmatrix(count, transposed=transposed)
    for count in (1, 2):
        yield ldmatrix(count, transposed=True, shape="m16n16", bits=8)
    for count in (1, 2, 4):
        yield stmatrix(count, transposed=True, shape="m16n8", bits=8)
    yield from (DUMMA_A, DUMMA_B, DUMMA_C)


def prove_fragment(fragment: FragmentMap) -> Bijection:
    """Proves that every element has a place of its own and every place an element: by rank where the map is linear.

    Raises:
        NotABijection: it is none.
    """
    if not fragment.is_bit_linear:
        return enumerate_fragment(fragment)
    bits = (fragment.rows * fragment.columns).bit_length() - 1
    return prove_rank(BitMatrix.of(fragment.place_number, bits))


def enumerate_fragment(fragment: FragmentMap) -> Bijection:
    """Proves the same by listing every element."""
    size = fragment.rows * fragment.columns
    return prove_enumeration([fragment.place_number(np.arange(size, dtype=np.int64))], size)


def _mma(instruction: Instruction) -> Fragments:
    shape = instruction.shape
    if shape.n != N:
        raise Refusal(f"mma has no N = {shape.n}", hint=f"N is {N}")
    bits = [_slot_bits(instruction, operand) for operand in (instruction.a, instruction.b)]
    if bits[0] != bits[1]:
        raise Refusal(f"operands of {bits[0]} and {bits[1]} bits do not meet in one mma")
    accumulator_bits = 8 * ACCUMULATOR_DTYPES[instruction.accumulator].itemsize
    return Fragments(
        _of_codes(mma_a(shape.m, shape.k, bits[0]), instruction.a),
        _of_codes(mma_b(shape.m, shape.k, bits[1]), instruction.b),
        mma_c(shape.m, shape.k, accumulator_bits, bits[0]),
    )


def _wgmma(instruction: Instruction) -> Fragments:
    shape, bits = instruction.shape, 8 * instruction.a.code_dtype.itemsize
    if shape.m != 64 or shape.k != wgmma_k(bits):
        raise Refusal(f"wgmma has no {shape} with elements of {bits} bits", hint=f"M is 64, K is {wgmma_k(bits)}")
    if instruction.a.record is None and shape.n > 32 and shape.n % 16:
        raise Refusal(f"wgmma with integers has no N = {shape.n}", hint="above 32, N is a multiple of 16")
    accumulator_bits = 8 * ACCUMULATOR_DTYPES[instruction.accumulator].itemsize
    return Fragments(wgmma_a(bits), None, wgmma_d(shape.n, shape.k, accumulator_bits))


def _slot_bits(instruction: Instruction, operand: OperandType) -> int:
    return 4 if instruction.kind in _DENSE_KINDS else 8 * operand.code_dtype.itemsize


def _of_codes(fragment: FragmentMap, operand: OperandType) -> FragmentMap:
    """The map of an operand whose codes may be narrower than their bytes."""
    bits = operand.record.bits if operand.record else fragment.element_bits
    if fragment.element_bits != 8 or bits == 8:
        return fragment
    shift = _E2M1_SHIFT if bits == 4 else 0
    source = f"{fragment.source}; packing of kind::f8f6f4"
    return replace(fragment, code_bits=bits, code_shift=shift, source=source, evidence=Evidence.DOCUMENTED)
