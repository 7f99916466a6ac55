"""Finds the steady-state stages of a kernel: the loop that multiplies, cut at its barriers.

The loop is the innermost one with a product: from a label to the branch back to it. Its body is a circle, so where the
compiler lets it begin does not matter: it is turned until it ends with a barrier, and every stretch up to a barrier is
one stage (a loop unrolled twice has two). A body with branches inside has several orders and is refused, as is one that
is left and entered again in its middle: nothing is proved of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.isa.instruction import Instruction, shown
from tileproof.simulators.gfx928.isa.listing import Function

PRODUCT = "v_mmac_i32_16x16x32_i8"
BARRIER = "s_barrier"
#: Beyond these a text is refused: a judgement takes time with their squares.
SPAN_LIMIT, BODY_LIMIT = 256, 4096
_BRANCHES = ("s_branch", "s_cbranch")
#: Instructions after which a straight line is none.
_LEAVES = ("s_setpc", "s_swappc", "s_call", "s_endpgm", "s_trap", "s_rfe")
#: Of these, those that come back.
_CALLS = ("s_swappc", "s_call", "s_trap")
#: Instructions whose registers are chosen at run time, or that switch others off.
_UNREADABLE = ("v_movrel", "v_swaprel", "s_set_gpr_idx", "s_setvskip")

Stage = tuple[Instruction, ...]


@dataclass(frozen=True)
class Loop:
    """The loop that multiplies."""

    first_line: int
    last_line: int
    #: In order of execution, each up to and with its barrier; one without a barrier where the loop has none.
    stages: tuple[Stage, ...]


def find_loop(function: Function) -> Loop:
    """The steady state of a kernel.

    Raises:
        Refusal: no loop with a product, several, one that branches inside or goes on in several ways, or one with an
            instruction that does not say which registers it takes.
    """
    loops = _loops(function)
    if len(loops) > SPAN_LIMIT:
        raise Refusal(f"{shown(function.name)}: {len(loops)} loops that multiply", hint=f"at most {SPAN_LIMIT}")
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    if len(inner) != 1:
        found = ", ".join(f"lines {_line(function, a)} to {_line(function, b)}" for a, b in inner[:5]) or "none"
        raise Refusal(
            f"{shown(function.name)}: loops with {PRODUCT}: {found}",
            hint="the steady state is one loop; an unrolled kernel has none, and several cannot be told apart",
        )
    begin, end = inner[0]
    if sum(first == begin for first, _ in loops) > 1:
        raise Refusal(
            f"{shown(function.name)}: several branches back to line {_line(function, begin)}",
            hint="the order of a loop that goes on in several ways is not decided here",
        )
    if end - begin >= BODY_LIMIT:
        raise Refusal(f"a loop of {end - begin + 1} instructions", hint=f"at most {BODY_LIMIT} are judged")
    _require_straight(function, begin, end)
    _require_one_entry(function, begin, end)
    body = function.instructions[begin : end + 1]
    return Loop(body[0].line, body[-1].line, tuple(_stages(body)))


def _loops(function: Function) -> list[tuple[int, int]]:
    """First and last instruction of every loop with a product: a branch and what it goes back to."""
    products = [0, *accumulate(instruction.mnemonic == PRODUCT for instruction in function.instructions)]
    targets = [
        (function.target(instruction), number)
        for number, instruction in enumerate(function.instructions)
        if instruction.mnemonic.startswith(_BRANCHES)
    ]
    back = {(target, number) for target, number in targets if target is not None and target <= number}
    return sorted((first, last) for first, last in back if products[last + 1] > products[first])


def _require_straight(function: Function, begin: int, end: int) -> None:
    for instruction in function.instructions[begin:end]:
        inside = False
        if instruction.mnemonic.startswith(_BRANCHES):
            target = function.target(instruction)
            inside = instruction.mnemonic == "s_branch" or (target is not None and begin <= target <= end)
        if inside or instruction.mnemonic.startswith(_LEAVES):
            raise Refusal(
                f"{instruction}: the loop does not run in a straight line",
                hint="the order of a stage that branches is not decided here",
            )
        if instruction.mnemonic.startswith(_UNREADABLE):
            raise Refusal(f"{instruction}: what it reads and writes is decided while it runs", hint="it is not judged")


def _require_one_entry(function: Function, begin: int, end: int) -> None:
    """Refuses a way out of the loop that comes back behind its beginning: a turn may then leave out a part of it.

    An outer loop comes back to the beginning, which is no such way.
    """
    inside = range(begin, end + 1)
    seen = {step for number in inside for step in _steps(function, number) if step not in inside}
    todo = list(seen)
    while todo:
        number = todo.pop()
        for step in _steps(function, number):
            if begin < step <= end:
                raise Refusal(
                    f"{function.instructions[step]}: the loop is entered here from line {_line(function, number)}",
                    hint="the order of a stage that branches is not decided here",
                )
            if step not in seen and step != begin:
                seen.add(step)
                todo.append(step)


def _steps(function: Function, number: int) -> Iterator[int]:
    """Instructions that may come after one."""
    instruction = function.instructions[number]
    branches = instruction.mnemonic.startswith(_BRANCHES)
    target = function.target(instruction) if branches else None
    if target is not None:
        yield target
    ends = instruction.mnemonic.startswith(_LEAVES) and not instruction.mnemonic.startswith(_CALLS)
    if not ends and instruction.mnemonic != "s_branch" and number + 1 < len(function.instructions):
        yield number + 1


def _stages(body: list[Instruction]) -> list[Stage]:
    """The body turned to end with its last barrier, then cut after each."""
    at = [number for number, instruction in enumerate(body) if instruction.mnemonic == BARRIER]
    if not at:
        return [tuple(body)]
    turned = body[at[-1] + 1 :] + body[: at[-1] + 1]
    stages: list[Stage] = []
    begin = 0
    for number, instruction in enumerate(turned):
        if instruction.mnemonic == BARRIER:
            stages.append(tuple(turned[begin : number + 1]))
            begin = number + 1
    return stages


def _line(function: Function, number: int) -> int:
    return function.instructions[number].line
