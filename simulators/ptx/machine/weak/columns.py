"""Records of columns: what is chosen of all of them alike, and what stands one behind the other."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


class Columns:
    """A record of arrays of one length, row by row; a dataclass that names its columns."""

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All of them, in the order of the attributes."""
        raise NotImplementedError

    @classmethod
    def of(cls, parts: Sequence[Self]) -> Self:
        """Rows of several records, one after the other; at least one record."""
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))

    def take(self, chosen: Any) -> Self:
        """Some of the rows."""
        return type(self)(*(column[chosen] for column in self.columns))
