"""A schedule that follows a script: which warps go on, until they have made a certain instruction, one after the other.

A move names warps and the beginning of an opcode, as `atom.global.add`. Its warps run by themselves, rearmost first,
until one of them has made such an instruction; then the next move begins. Where they wait, others help: warps that no
move names, and warps of later moves, but these not through the instruction that their own move waits for. Only where
nobody else is left does anybody go on: a script says who comes first, and no wait is broken. Behind its last move the
schedule is the friendly one. Copies land when the script says, at issue or as late as they may; stores of one block
reach another as late as they may, as far as a generator draws it.
"""

from dataclasses import dataclass, replace

import numpy as np

from tileproof.simulators.ptx.machine.forward import NEVER, up_to
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.schedule import Friendly, Turn
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.program import Kind, Program

# Turns that a move's warps have for themselves before others help, every other turn; and turns after which a move whose
# warps cannot go on is given up, or only poll for what a later move brings.
_ALONE_TURNS, _MOST_TURNS, _MOST_OWN_TURNS = 4, 512, 2048
# Steps of a turn of those that help.
_HELPING_STEPS = 32


@dataclass(frozen=True)
class Move:
    """Warps go on until one has made an instruction.

    Args:
        warps: of the wave; block after block, each with as many as its threads take.
        opcode: how the instruction's opcode begins.
    """

    warps: range
    opcode: str


@dataclass(frozen=True)
class Script:
    """Moves of the launches of one kernel.

    Args:
        kernel: how the entry name begins; launches of others run as the device has them.
        moves: in their order.
        lands_late: copies land when they must, not at issue.
        seed: draws which stores come late and which loads see what was there before; None for none.
    """

    kernel: str
    moves: tuple[Move, ...]
    lands_late: bool = False
    seed: int | None = None


class Scripted(Friendly):
    """Follows a script through one launch.

    Attributes:
        made: moves whose instruction was made.

    Args:
        script: what to follow.
        program: the kernel.
    """

    def __init__(self, script: Script, program: Program) -> None:
        super().__init__()
        self._script = script
        self._targets = [self._steps(program, move.opcode) for move in script.moves]
        self._branches = np.array([*(step.kind is Kind.BRANCH for step in program.steps), False])
        self._named = sorted({warp for move in script.moves for warp in move.warps})
        self._turns = 0
        self.made = 0

    @staticmethod
    def _steps(program: Program, opcode: str) -> Mask:
        """Which steps of the program a move waits for; one more place for lanes behind the last step."""
        return np.array([*(step.opcode.startswith(opcode) for step in program.steps), False])

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """See `Schedule.next_turn`."""
        while self.made < len(self._script.moves):
            of_move = _of(running, self._script.moves[self.made].warps)
            if self._turns >= (_MOST_OWN_TURNS if of_move.size else _MOST_TURNS):
                self._next_move()  # its warps have ended without the instruction, or wait for ever, or poll for ever
                continue
            self._turns += 1
            is_helped = not of_move.size or (self._turns > _ALONE_TURNS and self._turns % 2 == 0)
            turn = self._help(pc, running) if is_helped else None
            if turn is None and of_move.size:
                return self._own_turn(pc, of_move, self._targets[self.made])
            # Nobody else is left: warps of later moves go on through what they wait for.
            return turn or replace(super().next_turn(pc, running), steps=_HELPING_STEPS)
        return super().next_turn(pc, running)

    def _help(self, pc: Lanes, running: Lanes) -> Turn | None:
        """A short turn of others than the move's warps; None where nobody can help."""
        free = running[~np.isin(running >> WARP_SHIFT, self._named)]
        later = [turn for turn in (self._later(pc, running, warp) for warp in self._named) if turn is not None]
        if later and (not free.size or self._turns % 4 < 2):
            return later[self._turns // 4 % len(later)]
        return replace(super().next_turn(pc, free), steps=_HELPING_STEPS) if free.size else None

    def _later(self, pc: Lanes, running: Lanes, warp: int) -> Turn | None:
        """A turn of a warp up to the instruction that its own next move waits for; None where it cannot go on to it."""
        lanes = _of(running, range(warp, warp + 1))
        moves = range(self.made, len(self._script.moves))
        own = next((move for move in moves if warp in self._script.moves[move].warps), None)
        if own == self.made or not lanes.size:
            return None
        targets = self._targets[own] if own is not None else np.zeros_like(self._targets[0])
        lanes = lanes[~targets[pc[lanes]]]
        if not lanes.size:
            return None
        turn = up_to(pc, lanes, targets, self._branches)
        return replace(turn, steps=min(turn.steps, _HELPING_STEPS))

    def _next_move(self) -> None:
        self.made += 1
        self._turns = 0

    def _own_turn(self, pc: Lanes, lanes: Lanes, targets: Mask) -> Turn:
        """The rearmost of the move's lanes, up to its instruction or through it."""
        places = pc[lanes]
        first = int(places.min())
        if not targets[first]:
            return up_to(pc, lanes, targets, self._branches)
        self._next_move()
        return Turn(lanes[places == first], first, NEVER, 1)

    def weak(self) -> np.random.Generator | None:
        """See `Schedule.weak`."""
        return None if self._script.seed is None else np.random.default_rng(self._script.seed)

    def landing_delay(self) -> int | None:
        """See `Schedule.landing_delay`."""
        return None if self._script.lands_late else 0


def _of(running: Lanes, warps: range) -> Lanes:
    """The lanes of some warps."""
    numbers = running >> WARP_SHIFT
    return running[(numbers >= warps.start) & (numbers < warps.stop)]
