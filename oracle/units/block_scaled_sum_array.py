"""The array twin of `block_scaled_sum` for the 4-bit kinds; `fused_sum_array` has the other."""

import numpy as np
import numpy.typing as npt

from tileproof.oracle.units.fused_sum_array import Coded, Side
from tileproof.oracle.units.unit import GroupScaledSum
from tileproof.oracle.units.unit_kernels import group_scaled_tiles


def group_scaled_sums(
    unit: GroupScaledSum, a: Side, b: Side, c: npt.NDArray[np.int64], index: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Codes of D, [output tiles, M, N]; arguments as `fused_sum_array.fused_sums`, formats without infinity and NaN."""
    assert a.factors is not None, "a scaled instruction has factors"
    assert b.factors is not None, "a scaled instruction has factors"
    d = np.empty((len(index), a.codes.index.shape[1], b.codes.index.shape[1]), np.int64)
    coded = (a.codes, b.codes, a.factors, b.factors)
    left = unit.fraction_bits - sum(part.table.fraction_bits for part in coded)
    group_scaled_tiles(
        _fixed_point(a.codes),
        _fixed_point(b.codes),
        a.factors.significand,
        b.factors.significand,
        a.factors.exponent,
        b.factors.exponent,
        c,
        index,
        d,
        np.array([unit.group, left, unit.fraction_bits, unit.least_exponent, unit.conversion.kept_bits]),
    )
    return d


def _fixed_point(codes: Coded) -> npt.NDArray[np.int64]:
    """Values in units of the last fraction bit: e2m1 has exponents 0 to 2, so nothing is lost."""
    return np.asarray((codes.table.significand << np.maximum(codes.table.exponent, 0))[codes.index])
