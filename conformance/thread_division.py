"""An output divided among threads, each of which makes single elements or short vectors of it.

Worked example: the row quantiser's vector route with rows of 100 elements. A block makes a row; thread t takes columns
8 t to 8 t + 7 of the first 96, and one of the last four. Column 43 is element 3 of thread 5: warp 0, lane 5. Column 98
is made by thread 2, alone: element "tail".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.division import TILE_LIMIT, WARP, Kind, Places, numbered
from tileproof.oracle.refusal import Refusal

TAIL = "tail"


@dataclass(frozen=True)
class Makers:
    """Who makes each element of a tile.

    Args:
        thread: its number in its block [tile rows, tile columns]; negative where nobody makes it.
        element: which of the elements that a thread makes in one step it is, likewise.
        step: in which step of its thread, likewise.
    """

    thread: Places
    element: Places
    step: Places


@dataclass(frozen=True)
class ThreadDivision:
    """An output whose elements belong to threads.

    Args:
        tile: rows and columns of what repeats.
        threads: of a block.
        elements: the names of what a thread makes in one step; a single one is none.
        makers: called when there is something to draw.
        words: what a reader must know.
        is_flat: whether a matrix is divided as its elements lie in memory.

    Raises:
        Refusal: a tile without elements or of more than `TILE_LIMIT`.
    """

    tile: tuple[int, int]
    threads: int
    elements: Sequence[str]
    makers: Callable[[], Makers]
    words: str
    is_flat: bool = False

    def __post_init__(self) -> None:
        size = self.tile[0] * self.tile[1]
        if not 0 < size <= TILE_LIMIT:
            raise Refusal(f"a tile of {size} elements", hint=f"1 to {TILE_LIMIT}")

    def kinds(self) -> Sequence[Kind]:
        """Steps, warps, lanes and a thread's own elements, where there is more than one."""
        steps = int(self.makers().step.max()) + 1
        found = [numbered("warp", self.threads // WARP), numbered("lane", WARP)]
        if len(self.elements) > 1:
            found.append(Kind("element", (1, len(self.elements)), self.elements))
        return [numbered("step", steps), *found] if steps > 1 else found

    def places(self) -> dict[str, Places]:
        """By name, each [tile rows, tile columns]."""
        made = self.makers()
        nobody = made.thread < 0
        found = {"step": made.step, "warp": made.thread // WARP, "lane": made.thread % WARP, "element": made.element}
        return {name: np.where(nobody, -1, numbers) for name, numbers in found.items()}

    def __str__(self) -> str:
        return self.words


def strided(total: int, vector: int, threads: int) -> Makers:
    """Of a line of elements that threads take in turns: `vector` neighbours each, and the rest singly.

    Returns:
        Places [1, total].
    """
    at: NDArray[np.int64] = np.arange(total, dtype=np.int64)[np.newaxis]
    whole = total // vector * vector if vector > 1 else 0
    in_vector = at < whole
    alone = at - whole
    return Makers(
        thread=np.where(in_vector, at // vector, alone) % threads,
        element=np.where(in_vector, at % vector, vector if whole else 0),
        step=np.where(in_vector, at // (vector * threads), alone // threads),
    )
