"""Decoding of `setmaxnreg` and `griddepcontrol`, and of moves from the registers that count time."""

from tileproof.simulators.ptx.decoding.decode_matrix import whole_warp
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.program import Kind, RegisterChange, Step, TimeRegister
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction, Special

# Width of what the counters of time hold (PTX ISA, "Special Registers").
_TIME_BITS = {
    TimeRegister.CLOCK: 32,
    TimeRegister.CLOCK_HIGH: 32,
    TimeRegister.CLOCK_64: 64,
    TimeRegister.NANOSECONDS: 64,
    TimeRegister.NANOSECONDS_LOW: 32,
    TimeRegister.NANOSECONDS_HIGH: 32,
}
TIME_REGISTERS = frozenset(register.value for register in TimeRegister)
_REGISTER_COUNTS = range(24, 257, 8)  # PTX ISA, "setmaxnreg"


def time_move(slots: Slots, instruction: Instruction) -> Step:
    """`mov` from %clock, %globaltimer and their like, which differ at every read."""
    target, source = instruction.operands
    assert isinstance(source, Special)
    register, type_ = TimeRegister(source.name), instruction.qualifiers[-1]
    if type_[1:] != str(_TIME_BITS[register]) or type_[0] not in "bus":
        raise not_modelled(instruction, f"{source.name} has {_TIME_BITS[register]} bits")
    return Step(
        Kind.CLOCK,
        opcode(instruction),
        where(instruction),
        destinations=(slots.destination(instruction, target, type_),),
        time=register,
    )


def _setmaxnreg(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case (("inc" | "dec") as action, "sync", "aligned", "u32"):
            pass
        case _:
            raise not_modelled(instruction, "only setmaxnreg.{inc,dec}.sync.aligned.u32 exists")
    check_count(instruction, len(instruction.operands), 1)
    count = instruction.operands[0]
    if not isinstance(count, Immediate) or count.bits not in _REGISTER_COUNTS:
        raise not_modelled(instruction, "the number of registers is a multiple of 8 from 24 to 256")
    return Step(
        Kind.REGISTER_COUNT,
        opcode(instruction),
        where(instruction),
        sources=(whole_warp(slots),),
        change=RegisterChange(count.bits, action == "inc"),
    )


def _griddepcontrol(slots: Slots, instruction: Instruction) -> Step:
    """Launches run one after the other here, so the grids that it speaks of have ended, or have not begun."""
    if instruction.qualifiers not in (("wait",), ("launch_dependents",)):
        raise not_modelled(instruction, "only griddepcontrol.{wait,launch_dependents} exists")
    return Step(Kind.NOTHING, opcode(instruction), where(instruction))


DECODERS = {
    "setmaxnreg": _setmaxnreg,
    "griddepcontrol": _griddepcontrol,
}
