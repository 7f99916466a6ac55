"""What it costs to decide the protocols' models, over their size: python -m benchmarks protocol_search.

`alone` is the compiled search by itself, which knows all steps and has all room; `whole` asks the model for its steps,
makes room and sees that every state can end. Seconds are the processor's, of one core.
"""

import time
from collections.abc import Iterator

from benchmarks.report import show
from tileproof.simulators.protocols.definition import ALL_REDUCTIONS, NOTHING_LEFT_OUT, Reductions
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models.cp_async_ring import CpAsyncRing
from tileproof.simulators.protocols.models.election import Election
from tileproof.simulators.protocols.models.multicast_ring import MulticastRing
from tileproof.simulators.protocols.models.split_k import SplitK
from tileproof.simulators.protocols.models.tma_ring import TmaRing
from tileproof.simulators.protocols.search import Search


def sizes() -> Iterator[tuple[Model, Reductions]]:
    """Each family in growing sizes, and two of them with nothing left out."""
    for blocks in (2, 3, 4, 5, 6, 7, 8):
        yield Election(blocks).model(), ALL_REDUCTIONS
    for blocks in (2, 3, 4):
        yield Election(blocks).model(), NOTHING_LEFT_OUT
    for parts in (2, 3, 4, 5, 6, 7):
        yield SplitK(parts).model(), ALL_REDUCTIONS
    for stages in (2, 3, 4, 5, 6, 7, 8):
        yield TmaRing(stages, 3 * stages, 2).model(), ALL_REDUCTIONS
    for stages in (2, 3, 4, 5, 6, 7):
        yield TmaRing(stages, 3 * stages, 8).model(), ALL_REDUCTIONS
    for stages in (3, 4, 5):
        yield TmaRing(stages, 3 * stages, 2).model(), Reductions(partial_order=False)
    for stages in (2, 3, 4, 5, 6, 7):
        yield CpAsyncRing(stages, 3 * stages, 2).model(), ALL_REDUCTIONS
    for tiles in (1, 2):
        yield MulticastRing(2, 2, tiles, 1).model(), ALL_REDUCTIONS


def main() -> None:
    """Prints a line for each size."""
    Search(TmaRing(5, 15, 4).model(), ALL_REDUCTIONS).run(progress=True)  # loads the compiled search
    head = ("states", "steps", "asked", "whole s", "M/s", "alone s", "M/s")
    show(f"{head[0]:>10} {head[1]:>10} {head[2]:>7} {head[3]:>8} {head[4]:>5} {head[5]:>8} {head[6]:>5}  model")
    for model, reductions in sizes():
        began = time.process_time()
        search = Search(model, reductions)
        verdict = search.run(progress=True)
        whole = time.process_time() - began
        alone = min(_again(search) for _ in range(3))
        rates = (verdict.states / seconds / 1e6 for seconds in (whole, alone))
        counts = f"{verdict.states:10,} {verdict.steps:10,} {search.asked:7,}"
        show(f"{counts} {whole:8.3f} {next(rates):5.2f} {alone:8.4f} {next(rates):5.2f}  {_name(model, reductions)}")


def _name(model: Model, reductions: Reductions) -> str:
    if reductions == ALL_REDUCTIONS:
        return model.name
    return f"{model.name}, {'rows exchanged' if reductions.symmetry else 'nothing'} left out"


def _again(search: Search) -> float:
    search.rewind()
    began = time.process_time()
    search.again()
    return time.process_time() - began


if __name__ == "__main__":
    main()
