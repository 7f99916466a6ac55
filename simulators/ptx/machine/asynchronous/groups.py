"""What each thread knows of its own groups of copies, as plain arrays over the lanes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Groups:
    """The groups of one kind of copies; a lane's groups are numbered from 0.

    Attributes:
        open: for every lane the group that its next copy joins, which is the number of groups it committed.
        used: one more than the last group that has a copy; 0 for none.
        used_at: step index of the last copy.
        complete: groups below this are complete, as the lane knows from its waits.
        read: of bulk copies, groups below this have read their sources, as the lane knows.
        signalled: groups below this are tracked by an mbarrier.
    """

    open: Counts
    used: Counts
    used_at: Counts
    complete: Counts
    read: Counts
    signalled: Counts

    @classmethod
    def of(cls, lanes: int) -> "Groups":
        """No copies yet."""
        return cls(*np.zeros((6, lanes), np.int32))
