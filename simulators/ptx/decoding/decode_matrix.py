"""Decoding of `ldmatrix`, `stmatrix`, `movmatrix` and `mma`.

Qualifiers are a set, except that types keep their order. The last source of every step is the member mask that PTX
leaves unsaid: all lanes of the warp.
"""

from collections.abc import Callable, Collection, Sequence

from tileproof.oracle.fragments import Fragments, find_fragments
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ROW_BYTES, ldmatrix, stmatrix
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Instruction as MatrixInstruction
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OPERAND_TYPES
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count, elements
from tileproof.simulators.ptx.matrix_form import Product, RegisterMatrix
from tileproof.simulators.ptx.program import Access, Kind, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Instruction, Operand

_TYPES = frozenset(OPERAND_TYPES) | frozenset(ACCUMULATOR_DTYPES)
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SHAPES = ("m8n8", "m16n16", "m16n8")
_ELEMENT_BITS = {"b16": 16, "b8": 8}
_WHOLE_WARP = 0xFFFF_FFFF


def whole_warp(slots: Slots) -> int:
    """The slot of the member mask of all lanes."""
    return slots.constant(_WHOLE_WARP, 32)


def matrix_access(space: StateSpace, offset: int = 0) -> Access:
    """The access to one row of 16 bytes."""
    return Access(space, ROW_BYTES, offset, strong=False, acquires=False, releases=False)


def registers(
    slots: Slots, instruction: Instruction, fragment: FragmentMap, operand: Operand, *, result: bool = False
) -> RegisterMatrix:
    """The matrix in the registers that a vector operand names."""
    names = elements(operand)
    if len(names) != fragment.registers:
        message = f"{len(names)} registers of {fragment.operand} where {fragment.registers} belong"
        raise not_modelled(instruction, message)
    type_ = f"b{fragment.register_bits}"
    read = slots.destination if result else slots.source
    chosen = tuple(read(instruction, name, type_) for name in names)
    narrow = (0,) * len(chosen) if result else slots.narrow(chosen, (type_,) * len(chosen))
    return RegisterMatrix(fragment, chosen, narrow)


def parse(instruction: Instruction, name: str) -> tuple[MatrixInstruction, Fragments]:
    """The matrix instruction of a name in the oracle's words.

    Raises:
        NotModelled: there is no such one.
    """
    try:
        parsed = parse_instruction(name)
        return parsed, find_fragments(parsed.name)
    except Refusal as error:
        raise not_modelled(instruction, error.message, error.hint or "") from error


def split(instruction: Instruction, words: Sequence[str], flags: Collection[str]) -> tuple[set[str], list[str], str]:
    """Flags, types in their order, and the shape.

    Raises:
        NotModelled: an unknown qualifier, or not one shape.
    """
    types = [word for word in words if word in _TYPES]
    shapes = [word for word in words if word[:1] == "m" and word[1:2].isdigit()]
    found = set(words) - set(types) - set(shapes)
    unknown = sorted(found - set(flags))
    if unknown:
        raise not_modelled(instruction, f"the qualifier .{unknown[0]} is not modelled")
    if len(shapes) != 1:
        raise not_modelled(instruction, f"it has {len(shapes)} shapes")
    return found, types, shapes[0]


def require(instruction: Instruction, found: Collection[str], needed: Collection[str]) -> None:
    """Refuse an instruction that lacks a qualifier."""
    missing = [word for word in needed if word not in found]
    if missing:
        raise not_modelled(instruction, f"it lacks .{missing[0]}")


def _mma(slots: Slots, instruction: Instruction) -> Step:
    words = instruction.qualifiers
    kinds = [word for word in words if word.startswith("kind::")]
    flags = ("sync", "aligned", "row", "col", "satfinite", *kinds[:1])
    found, types, shape = split(instruction, words, flags)
    require(instruction, found, ("sync", "aligned", "row", "col"))
    if len(types) != 4 or types[0] != types[3]:
        raise not_modelled(instruction, "it needs the types of D, A, B and C, with D and C alike")
    check_count(instruction, len(instruction.operands), 4)
    name = ".".join(("mma", shape, *kinds, *(["satfinite"] if "satfinite" in found else []), *types[:3]))
    parsed, fragments = parse(instruction, name)
    assert fragments.b is not None
    target, *given = instruction.operands
    d = registers(slots, instruction, fragments.c, target, result=True)
    maps = (fragments.a, fragments.b, fragments.c)
    a, b, c = (registers(slots, instruction, f, o) for f, o in zip(maps, given, strict=True))
    return Step(
        Kind.MMA,
        opcode(instruction),
        where(instruction),
        destinations=d.slots,
        sources=(*a.slots, *b.slots, *c.slots, whole_warp(slots)),
        product=Product(parsed, a, b, c, d),
    )


def _transfer(instruction: Instruction, make: Callable[..., FragmentMap]) -> tuple[FragmentMap, StateSpace]:
    """The map and space of `ldmatrix` or `stmatrix`."""
    words = set(instruction.qualifiers)
    require(instruction, words, ("sync", "aligned"))
    counts, shapes, types = ([w for w in words if w in known] for known in (_COUNTS, _SHAPES, _ELEMENT_BITS))
    shared = words & {"shared", "shared::cta"}
    unknown = sorted(words - {"sync", "aligned", "trans", *counts, *shapes, *types, *shared})
    if unknown:
        raise not_modelled(instruction, f"the qualifier .{unknown[0]} is not modelled")
    if not len(counts) == len(shapes) == len(types) == 1:
        raise not_modelled(instruction, "it needs one shape, one count and one type")
    form = {"transposed": "trans" in words, "shape": shapes[0], "bits": _ELEMENT_BITS[types[0]]}
    try:
        fragment = make(_COUNTS[counts[0]], **form)
    except Refusal as error:
        raise not_modelled(instruction, error.message, error.hint or "") from error
    return fragment, StateSpace.SHARED if shared else StateSpace.GENERIC


def _load(slots: Slots, instruction: Instruction) -> Step:
    fragment, space = _transfer(instruction, ldmatrix)
    check_count(instruction, len(instruction.operands), 2)
    target, source = instruction.operands
    slot, offset = slots.address(instruction, source)
    return Step(
        Kind.MATRIX_LOAD,
        opcode(instruction),
        where(instruction),
        destinations=registers(slots, instruction, fragment, target, result=True).slots,
        sources=(slot, whole_warp(slots)),
        access=matrix_access(space, offset),
        transfer=fragment,
    )


def _store(slots: Slots, instruction: Instruction) -> Step:
    fragment, space = _transfer(instruction, stmatrix)
    check_count(instruction, len(instruction.operands), 2)
    target, values = instruction.operands
    slot, offset = slots.address(instruction, target)
    matrix = registers(slots, instruction, fragment, values)
    return Step(
        Kind.MATRIX_STORE,
        opcode(instruction),
        where(instruction),
        sources=(slot, *matrix.slots, whole_warp(slots)),
        narrow=(0, *matrix.narrow, 0),
        access=matrix_access(space, offset),
        transfer=fragment,
    )


def _transpose(slots: Slots, instruction: Instruction) -> Step:
    if set(instruction.qualifiers) != {"sync", "aligned", "m8n8", "trans", "b16"}:
        raise not_modelled(instruction, "only movmatrix.sync.aligned.m8n8.trans.b16 is modelled")
    check_count(instruction, len(instruction.operands), 2)
    target, value = instruction.operands
    return Step(
        Kind.MATRIX_TRANSPOSE,
        opcode(instruction),
        where(instruction),
        destinations=(slots.destination(instruction, target, "b32"),),
        sources=(slots.source(instruction, value, "b32"), whole_warp(slots)),
    )


DECODERS = {"mma": _mma, "ldmatrix": _load, "stmatrix": _store, "movmatrix": _transpose}
