"""The array twin of `fused_sum`, and of the scaled sum of `block_scaled_sum`, for whole batches of tiles."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.units.term_array import TermTable
from tileproof.oracle.units.unit import FusedSum, LateSum
from tileproof.oracle.units.unit_kernels import EARLY, LATE_CHAIN, LATE_HALVES, fused_tiles

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """Codes as indices into the table of their terms."""

    index: npt.NDArray[np.uint32]
    table: TermTable

    @property
    def significand(self) -> Values:
        """The significands of all codes."""
        return np.asarray(self.table.significand[self.index])

    @property
    def exponent(self) -> Values:
        """The exponents of all codes."""
        return np.asarray(self.table.exponent[self.index])


@dataclass(frozen=True)
class Side:
    """A or B."""

    #: [tiles, rows, K]
    codes: Coded
    #: Scale factors, [tiles, rows, blocks]; None without block scaling.
    factors: Coded | None = None


def fused_sums(unit: FusedSum | LateSum, a: Side, b: Side, c: Values, index: npt.NDArray[np.uint64]) -> Values:
    """Codes of D, [output tiles, M, N].

    Args:
        unit: the parameters.
        a: M rows a tile.
        b: N rows a tile.
        c: codes, [tiles of C, M, N].
        index: for each output tile, its tiles of A, B and C, [output tiles, 3].
    """
    rows, columns, depth = a.codes.index.shape[1], b.codes.index.shape[1], a.codes.index.shape[2]
    d = np.empty((len(index), rows, columns), np.int64)
    fused_tiles(
        *_flat(a),
        *_flat(b),
        c.reshape(-1),
        index,
        d.reshape(-1),
        summing_order(unit, depth),
        np.array([rows, columns, depth, fused_unit(unit).group, _blocks(a)], np.uint64),
        kernel_parameters(unit, a.codes.table, b.codes.table),
    )
    return d


def fused_unit(unit: FusedSum | LateSum) -> FusedSum:
    """The unit that sums the groups."""
    return unit if isinstance(unit, FusedSum) else unit.unit


def kernel_parameters(unit: FusedSum | LateSum, a: TermTable, b: TermTable) -> Values:
    """The parameters of `unit_kernels.fused_tiles`."""
    fused = fused_unit(unit)
    return np.array(
        [
            fused.fraction_bits - a.fraction_bits - b.fraction_bits,
            fused.fraction_bits,
            fused.least_exponent,
            fused.conversion.nearest,
            fused.conversion.kept_bits,
            _mode(unit),
        ],
        np.int64,
    )


def _flat(side: Side) -> tuple[npt.NDArray[np.uint32], Values, Values, Values]:
    """The arrays of one side, as `_fused_tiles` takes them."""
    factors = side.factors.exponent.reshape(-1) if side.factors else np.empty(0, np.int64)
    return side.codes.index.reshape(-1), side.codes.table.significand, side.codes.table.exponent, factors


def _blocks(side: Side) -> int:
    return side.factors.index.shape[2] if side.factors else 0


def _mode(unit: FusedSum | LateSum) -> int:
    if isinstance(unit, FusedSum):
        return EARLY
    return LATE_CHAIN if unit.chained else LATE_HALVES


def summing_order(unit: FusedSum | LateSum, depth: int) -> npt.NDArray[np.uint64]:
    """The order of k: for a late sum k mod 4 in {0, 1} before k mod 4 in {2, 3}; see `fused_sum.late_sum`."""
    order = np.arange(depth, dtype=np.uint64)
    if isinstance(unit, FusedSum):
        return order
    return np.concatenate((order[order % 4 < 2], order[order % 4 >= 2]))
