"""Decoding of `wgmma`: the product, and the instructions that order it."""

from tileproof.oracle.maps.wgmma_tile import Major
from tileproof.simulators.ptx.decoding.decode_async import pending_groups
from tileproof.simulators.ptx.decoding.decode_matrix import matrix_access, parse, registers, require, split, whole_warp
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.matrix_form import Product, ProductOrder, ProductOrderForm, RegisterMatrix, SharedMatrix
from tileproof.simulators.ptx.program import Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction, Operand, Vector

_ORDERS = tuple(action.value for action in ProductOrder)
_TRANSPOSABLE = ("f16", "bf16")


def _wgmma(slots: Slots, instruction: Instruction) -> Step:
    first, *words = instruction.qualifiers
    if first in _ORDERS:
        return _order(slots, instruction, words)
    if first != "mma_async":
        raise not_modelled(instruction, f"wgmma has no .{first}")
    if "sp" in words:
        raise not_modelled(instruction, "sparse matrices are not modelled")
    found, types, shape = split(instruction, words, ("sync", "aligned", "satfinite"))
    require(instruction, found, ("sync", "aligned"))
    if len(types) != 3:
        raise not_modelled(instruction, "it needs the types of D, A and B")
    name = ".".join(("wgmma", shape, *(["satfinite"] if "satfinite" in found else []), *types))
    parsed, fragments = parse(instruction, name)
    check_count(instruction, len(instruction.operands), 4 + _immediates(instruction, types[1]))
    accumulator, a_operand, b_operand, scale, *numbers = instruction.operands
    negates_a, negates_b = [_choice(instruction, number, (1, -1)) == -1 for number in numbers[:2]] or [False, False]
    majors = [Major.MN if _choice(instruction, number, (0, 1)) else Major.K for number in numbers[2:]]
    b_major = majors.pop() if majors else Major.K
    bits = fragments.a.element_bits
    a: RegisterMatrix | SharedMatrix
    if isinstance(a_operand, Vector):
        a = registers(slots, instruction, fragments.a, a_operand)
    else:
        a = _shared(slots, instruction, a_operand, parsed.shape.m, bits, majors.pop() if majors else Major.K)
    adds_c, negated = slots.predicate(instruction, scale)
    c, d = (registers(slots, instruction, fragments.c, accumulator, result=result) for result in (False, True))
    b = _shared(slots, instruction, b_operand, parsed.shape.n, bits, b_major)
    return Step(
        Kind.WGMMA,
        opcode(instruction),
        where(instruction),
        destinations=d.slots,
        sources=(*_slots(a), *_slots(b), *c.slots, adds_c, whole_warp(slots)),
        access=matrix_access(StateSpace.SHARED),
        product=Product(parsed, a, b, c, d, negates_a, negates_b, adds_c, negated),
    )


def _order(slots: Slots, instruction: Instruction, words: list[str]) -> Step:
    """The instructions that order `wgmma`; the warp must execute them together."""
    if set(words) != {"sync", "aligned"}:
        raise not_modelled(instruction, "this form is not modelled")
    action = ProductOrder(instruction.qualifiers[0])
    check_count(instruction, len(instruction.operands), int(action is ProductOrder.WAIT))
    pending = pending_groups(instruction, instruction.operands[0]) if action is ProductOrder.WAIT else 0
    return Step(
        Kind.WGMMA_ORDER,
        opcode(instruction),
        where(instruction),
        sources=(whole_warp(slots),),
        product_order=ProductOrderForm(action, pending),
    )


def _immediates(instruction: Instruction, operand: str) -> int:
    """How many immediates follow `scale-d`: none for integers, two scales, and what may be transposed."""
    if operand in ("s8", "u8"):
        return 0
    if operand not in _TRANSPOSABLE:
        return 2
    return 3 if isinstance(instruction.operands[1], Vector) else 4


def _shared(
    slots: Slots, instruction: Instruction, operand: Operand, rows: int, bits: int, major: Major
) -> SharedMatrix:
    return SharedMatrix(slots.source(instruction, operand, "b64"), rows, bits, major)


def _slots(matrix: RegisterMatrix | SharedMatrix) -> tuple[int, ...]:
    return matrix.slots if isinstance(matrix, RegisterMatrix) else (matrix.descriptor,)


def _choice(instruction: Instruction, operand: Operand, legal: tuple[int, int]) -> int:
    """The value of an immediate that has two legal ones."""
    if not isinstance(operand, Immediate) or operand.bits not in legal:
        raise not_modelled(instruction, f"another operand where the immediate {legal[0]} or {legal[1]} belongs")
    return operand.bits


DECODERS = {"wgmma": _wgmma}
