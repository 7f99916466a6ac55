"""Comparisons of one run of lanes: 1 where the relation holds, else 0.

A relation is the set of outcomes (less, equal, greater, unordered) for which it holds, each 0 or 1.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import COMPARE, COMPARE_SINGLE, MASK, OP, RESULT, SLOT, SOURCE, SOURCES
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import double, longs_at, single
from tileproof.simulators.ptx.fast.rows import copy_row

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_SIGN32, _SIZE32 = np.uint64(0x8000_0000), np.uint64(0x7FFF_FFFF)


@part
def _relation(op: Any, pa: Any, pb: Any, p_out: Any, n: Any, ma: Any, mb: Any, k: Any) -> None:
    """One comparison.

    Args:
        op: what is compared: integers, f32 or f64.
        pa, pb: addresses of the source rows.
        p_out: address of the result's row, none of the sources.
        n: length of the rows.
        ma, mb: masks of the sources.
        k: bias that makes integers compare as unsigned ones, or the least normal f32 where subnormals are flushed;
            then the outcomes for which the relation holds.
    """
    a, b, out = longs_at(pa, n), longs_at(pb, n), longs_at(p_out, n)
    k0, less, equal, greater, unordered = k[0], k[1], k[2], k[3], k[4]
    if op == COMPARE:
        for i in range(n):
            x, y = (a[i] & ma) ^ k0, (b[i] & mb) ^ k0
            out[i] = less if x < y else equal if x == y else greater
    elif op == COMPARE_SINGLE:
        for i in range(n):
            u, v = a[i] & ma, b[i] & mb
            u = u & _SIGN32 if u & _SIZE32 < k0 else u
            v = v & _SIGN32 if v & _SIZE32 < k0 else v
            x, y = single(u), single(v)
            out[i] = less if x < y else equal if x == y else greater if x > y else unordered
    else:
        for i in range(n):
            x, y = double(a[i]), double(b[i])
            out[i] = less if x < y else equal if x == y else greater if x > y else unordered


@part
def _combine(mode: Any, pa: Any, pc: Any, inverted: Any, p_out: Any, n: Any, complement: Any) -> None:
    """A comparison's result, or its complement, combined with a predicate.

    Args:
        mode: 0 nothing, 1 and, 2 or, 3 xor.
        pa: address of the comparison's row of 0 and 1.
        pc: address of the predicate's row.
        inverted: 1: the predicate is read inverted.
        p_out: address of the result's row; the comparison's or the predicate's is allowed.
        n: length of the rows.
        complement: 1 for the complement of the comparison.
    """
    a, c, out = longs_at(pa, n), longs_at(pc, n), longs_at(p_out, n)
    for i in range(n):
        x, y = a[i] ^ complement, (c[i] & _ONE) ^ inverted
        out[i] = x if mode == 0 else x & y if mode == 1 else x | y if mode == 2 else x ^ y


@part
def compare(row: Any, k: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """A comparison, and its complement where there is a second result, each combined with a predicate if there is one.

    Constants 5 and 6 are the combination and whether the predicate is read inverted.
    """
    s, result = row[SOURCE], row[RESULT]
    a, ma = operands[s, SLOT], np.uint64(operands[s, MASK])
    b, mb = operands[s + 1, SLOT], np.uint64(operands[s + 1, MASK])
    c = operands[s + 2, SLOT] if row[SOURCES] > 2 else a
    p, q = operands[result, SLOT], operands[result + 1, SLOT]
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        pa, pb = registers + (a * lanes + first) * 8, registers + (b * lanes + first) * 8
        out, pc = scratch + first * 8, registers + (c * lanes + first) * 8
        _relation(row[OP], pa, pb, out, n, ma, mb, k)
        if q >= 0:
            second = scratch + (lanes + first) * 8
            _combine(k[5], out, pc, k[6], second, n, _ONE)
        if p >= 0:
            _combine(k[5], out, pc, k[6], registers + (p * lanes + first) * 8, n, _ZERO)
        if q >= 0:
            copy_row(second, registers + (q * lanes + first) * 8, n)
