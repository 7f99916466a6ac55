"""What it costs to decide the protocols' models, over their size: python -m benchmarks protocol_search.

`alone` is the compiled search by itself, which knows all steps and has all room; `whole` asks the model for its steps,
makes room and sees that every state can end. Seconds of both are the processor's, of one thread. `side by side` is what
`alone` is by several threads, in seconds by the clock: of use on quiet cores only, two by `taskset --cpu-list 0,1`.
"""

import time
from collections.abc import Callable, Iterator

from benchmarks.report import show
from tileproof.simulators.protocols.definition import ALL_REDUCTIONS, NOTHING_LEFT_OUT, Reductions
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models.cp_async_ring import CpAsyncRing
from tileproof.simulators.protocols.models.election import Election
from tileproof.simulators.protocols.models.multicast_ring import MulticastRing
from tileproof.simulators.protocols.models.split_k import SplitK
from tileproof.simulators.protocols.models.tma_ring import TmaRing
from tileproof.simulators.protocols.search import Search
from tileproof.simulators.protocols.side_by_side import threads_of_machine


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
    for stages in (2, 3, 4, 5, 6, 7, 8):
        yield TmaRing(stages, 3 * stages, 8).model(), ALL_REDUCTIONS
    for stages in (3, 4, 5):
        yield TmaRing(stages, 3 * stages, 2).model(), Reductions(partial_order=False)
    for stages in (2, 3, 4, 5, 6, 7, 8):
        yield CpAsyncRing(stages, 3 * stages, 2).model(), ALL_REDUCTIONS
    for stages in (2, 3, 4, 5, 6, 7, 8):
        yield CpAsyncRing(stages, 3 * stages, 8).model(), ALL_REDUCTIONS
    for stages in (3, 4, 5):
        yield CpAsyncRing(stages, 3 * stages, 2).model(), Reductions(partial_order=False)
    for tiles in (1, 2):
        yield MulticastRing(2, 2, tiles, 1).model(), ALL_REDUCTIONS


def main() -> None:
    """Prints a line for each size."""
    Search(TmaRing(5, 15, 4).model(), ALL_REDUCTIONS).run(progress=True)  # loads the compiled search
    threads = threads_of_machine()
    show(f"seconds, and million states a second; side by side: {threads} threads")
    head = ("states", "steps", "asked", "whole", "M/s", "alone", "M/s", "side by side", "M/s")
    show("{:>10} {:>10} {:>7} {:>8} {:>5} {:>8} {:>5} {:>12} {:>5}  model".format(*head))
    for model, reductions in sizes():
        began = time.process_time()
        search = Search(model, reductions, threads=1)
        verdict = search.run(progress=True)
        whole = time.process_time() - began
        alone = min(_again(search, time.process_time) for _ in range(3))
        search.threads = threads
        together = min(_again(search, time.perf_counter) for _ in range(3))
        rates = [verdict.states / seconds / 1e6 for seconds in (whole, alone, together)]
        counts = f"{verdict.states:10,} {verdict.steps:10,} {search.asked:7,}"
        seconds = f"{whole:8.3f} {rates[0]:5.2f} {alone:8.4f} {rates[1]:5.2f} {together:12.4f} {rates[2]:5.2f}"
        show(f"{counts} {seconds}  {_name(model, reductions)}")


def _name(model: Model, reductions: Reductions) -> str:
    if reductions == ALL_REDUCTIONS:
        return model.name
    return f"{model.name}, {'rows exchanged' if reductions.symmetry else 'nothing'} left out"


def _again(search: Search, clock: Callable[[], float]) -> float:
    search.rewind()
    began = clock()
    search.again()
    return clock() - began


if __name__ == "__main__":
    main()
