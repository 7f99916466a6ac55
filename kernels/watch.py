"""Who wants to know which kernels run: every launch of `launcher.Kernel` is told to whoever watches.

    with watched() as seen:
        operator(x, weight, out)
    [launched.entry for launched in seen]     # of all launches of the operator, in their order

An operator's own answer names one launch; what it launched before that, its quantiser for example, is told here alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tileproof.kernels.compile import CompiledModule


@dataclass(frozen=True)
class Launched:
    """One launch: the module, and its kernel that ran."""

    module: CompiledModule
    entry: str


_watchers: ContextVar[tuple[list[Launched], ...]] = ContextVar("watchers", default=())


@contextmanager
def watched() -> Iterator[list[Launched]]:
    """Collect all launches meanwhile, in their order."""
    seen: list[Launched] = []
    token = _watchers.set((*_watchers.get(), seen))
    try:
        yield seen
    finally:
        _watchers.reset(token)


def tell(module: CompiledModule, entry: str) -> None:
    """A kernel is about to run."""
    for seen in _watchers.get():
        seen.append(Launched(module, entry))
