"""The programs of the linear layer's cases: what a model does with one layer, in order, on a device or in the oracle.

A program is written once, against `Session`; each side keeps its own account of weights, casts and rings. Step t has
the inputs x[t], w[t], g[t] and the outputs out[t], dx[t], dw[t], dbias[t].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tileproof.conformance.astrai_linear_setting import PROGRAMS, RESTORED_AT


class Session(Protocol):
    """One layer in use. Weights have numbers; a number names another weight after `renew`."""

    steps: int

    def update(self, step: int, weight: int = 0) -> None:
        """The weight has the contents w[step] from now on."""

    def forward(self, step: int, *, weight: int = 0, gradients: bool = True, shared: bool = False) -> None:
        """out[step] of x[step]; shared: of the cast that the pass of the step before has made."""

    def backward(self, step: int) -> None:
        """The gradients of that step's forward pass for g[step]; nothing in a case without them."""

    def renew(self) -> None:
        """Weight 0 dies, and another takes its place, at its address and with its contents."""

    def change_margin(self) -> None:
        """A recipe with one more power of two of headroom."""

    def reset(self) -> None:
        """All states are forgotten."""

    def restore(self) -> None:
        """Weight 0 dies; a checkpoint is taken, and restored in another process, in which nothing else is known."""


@dataclass(frozen=True)
class Program:
    """One program.

    Args:
        run: what it does.
        weights: rings for how many weights it makes in a number of steps.
    """

    run: Callable[[Session], None]
    weights: Callable[[int], int] = lambda steps: 1


def _training(session: Session) -> None:
    for step in range(session.steps):
        session.update(step)
        session.forward(step)
        session.backward(step)


def _unchanged_weight(session: Session) -> None:
    """Gradients are accumulated: the weight is cast and folded once."""
    session.update(0)
    for step in range(session.steps):
        session.forward(step)
        session.backward(step)


def _no_gradients(session: Session) -> None:
    """Every other pass records none: it reads rings and leaves them."""
    for step in range(session.steps):
        session.update(step)
        session.forward(step, gradients=step % 2 == 0)
        if step % 2 == 0:
            session.backward(step)


def _checkpointed(session: Session) -> None:
    """Each pass runs without gradients first and is computed again for the backward pass."""
    for step in range(session.steps):
        session.update(step)
        session.forward(step, gradients=False)
        session.forward(step)
        session.backward(step)


def _late_backward(session: Session) -> None:
    """All forward passes, then the backward passes, the last one first: pairs of scales have been written again."""
    for step in range(session.steps):
        session.update(step)
        session.forward(step)
    for step in reversed(range(session.steps)):
        session.backward(step)


def _shared_activation(session: Session) -> None:
    """Two layers of one activation, step by step in turn: the second takes the first one's cast."""
    for step in range(session.steps):
        second = step % 2
        session.update(step, second)
        session.forward(step, weight=second, shared=bool(second))
        session.backward(step)


def _renewed_weight(session: Session) -> None:
    session.update(0)
    for step in range(session.steps):
        if step:
            session.renew()
        session.forward(step)
        session.backward(step)


def _changed_recipe(session: Session) -> None:
    """The weight has not changed, but what it was cast for has."""
    session.update(0)
    for step in range(session.steps):
        if step == 1:
            session.change_margin()
        session.forward(step)
        session.backward(step)


def _reset(session: Session) -> None:
    """Under another recipe, then a reset: rings are new, and the recipe is the first one."""
    session.update(0)
    for step in range(session.steps):
        if step == 1:
            session.change_margin()
        if step == 2:
            session.reset()
        session.forward(step)
        session.backward(step)


def _restored(session: Session) -> None:
    """Two layers of one shape; the first is gone when the checkpoint is taken, so a third claims the second's rings.

    The second has folded three times by then: index and current pair stand elsewhere than in a new ring.
    """
    for step in range(session.steps):
        if step == RESTORED_AT:
            session.restore()
        weight = 0 if step == 0 else 1 if step < RESTORED_AT else 2
        session.update(step, weight)
        session.forward(step, weight=weight)
        session.backward(step)


_BY_NAME: Mapping[str, Program] = {
    "training": Program(_training),
    "unchanged-weight": Program(_unchanged_weight),
    "no-gradients": Program(_no_gradients),
    "checkpointed": Program(_checkpointed),
    "late-backward": Program(_late_backward),
    "shared-activation": Program(_shared_activation, lambda steps: min(steps, 2)),
    "quantised-weight": Program(_unchanged_weight),
    "renewed-weight": Program(_renewed_weight, lambda steps: steps),
    "changed-recipe": Program(_changed_recipe, lambda steps: min(steps, 2)),
    "reset": Program(_reset, lambda steps: min(steps, 3)),
    "restored": Program(_restored, lambda steps: min(steps, 2)),
}


def program(name: str) -> Program:
    """The program of a name in PROGRAMS."""
    return _BY_NAME[name]


assert tuple(_BY_NAME) == PROGRAMS
