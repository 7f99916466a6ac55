"""Measures both tiled routes of the FP8 product on a GPU and fits the constants by which the selector chooses.

    python -m benchmarks.fp8_a8_calibrate CALIBRATION.json [NAME]

The selector's model has a ratio of work, the cost of a lone block, a margin, a floor of widths, and ceilings for some
weights. The cost of a lone block is measured or left at 1. The ratio and the floor are tried out: for every ratio the
selector itself says which measured cells take the TMA route, for every floor each weight gets the ceiling that helps it
most, if one does. Of all these the one whose worst choice is best wins, or the one that loses the least time where
several are within the limit. The record is one of kernels/fp8_a8_calibrations.json.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import log
from statistics import median
from typing import TypeAlias

from benchmarks.fp8_a8_gpu import FORCED, Cell, choice, measure, token_costs, work_ratio, worst_choice
from benchmarks.report import keep, show
from tileproof.conformance.environment import capture
from tileproof.kernels.fp8_a8_calibration import Calibration, Ceiling
from tileproof.kernels.fp8_a8_call_site import ATTN_INPUT_PROJ, GDN_INPUT_PROJ, LINEAR_ADD, LINEAR_SWIGLU
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.oracle.refusal import Refusal

SHAPES = (
    (LINEAR_ADD, 5120, 17408),
    (LINEAR_ADD, 5120, 6144),
    (ATTN_INPUT_PROJ, 14336, 5120),
    (GDN_INPUT_PROJ, 16384, 5120),
    (LINEAR_SWIGLU, 34816, 5120),
)
WIDTHS = (256, 384, 512, 640, 768, 896, 1024, 1152, 1345, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 8192)
MARGIN = 0.02
LIMIT = 1.03
"""How much longer than the better route a choice may take."""

NEVER = 1 << 40
"""A floor that no call reaches: the TMA route never pays."""

Loss: TypeAlias = tuple[float, float]


def fit(cells: Sequence[Cell], blank: Calibration, lone_blocks: Sequence[float] = ()) -> Calibration:
    """The calibration under which the selector does best on these cells.

    Args:
        cells: measured, with the times of both routes.
        blank: the device and all that is not fitted; its margin is kept.
        lone_blocks: costs of a lone block to try, best first; the measured one, then the published model's.
    """
    tries = lone_blocks or dict.fromkeys((lone_block(cells, blank.sm_count), 1.0))
    blanks = [replace(blank, lone_block=lone) for lone in tries]
    floors = (*sorted({cell.tokens for cell in cells}), NEVER)
    tried = [
        _with_ceilings(cells, replace(one, work_ratio=ratio), floors) for one in blanks for ratio in _ratios(cells, one)
    ]
    return min((one for group in tried for one in group), key=lambda one: one[0])[1]


def lone_block(cells: Sequence[Cell], sm_count: int) -> float:
    """What a last wave of cp.async blocks costs of which none shares its multiprocessor, relative to a full wave.

    From the cells that end in such a wave, by the work ratio of all others; 1 where there are none.
    """
    lone = [cell for cell in cells if token_costs(cell, sm_count, 0.5) > token_costs(cell, sm_count)]
    others = [cell for cell in cells if cell not in lone]
    if not lone or not others:
        return 1.0
    ratio = work_ratio(others, sm_count)
    return round(median(_last_wave(cell, sm_count, ratio) for cell in lone), 2)


def _last_wave(cell: Cell, sm_count: int, ratio: float) -> float:
    """Waves that the cp.async kernel's time is worth, less the full ones."""
    half, full = (1.0 / token_costs(cell, sm_count, lone) for lone in (0.5, 1.0))
    return 1.0 + (ratio / cell.ratio(*FORCED).middle - full) / (2.0 * (full - half))


def _ratios(cells: Sequence[Cell], blank: Calibration) -> list[float]:
    """The measured one, then those at which a cell's choice turns, from both sides."""
    turns = {(1.0 - blank.margin) / token_costs(cell, blank.sm_count, blank.lone_block) for cell in cells}
    measured = work_ratio(cells, blank.sm_count, blank.lone_block)
    return [measured, *sorted(value + step for value in turns for step in (-1e-6, 1e-6))]


@dataclass(frozen=True)
class _Choice:
    """A cell under a ratio: whether the TMA route is taken, and what each route loses, as logarithms."""

    tokens: int
    is_tma: bool
    tma: float
    cp_async: float

    def lost(self, floor: int, ceiling: int) -> float:
        """Under a floor and a ceiling, too."""
        return self.tma if self.is_tma and floor <= self.tokens <= ceiling else self.cp_async


def _with_ceilings(
    cells: Sequence[Cell], calibration: Calibration, floors: Sequence[int]
) -> list[tuple[Loss, Calibration]]:
    """For each floor the ceilings that lose least: weights do not depend on each other."""
    open_end = replace(calibration, min_tokens=0, max_tokens=())
    weights: dict[tuple[int, int], list[_Choice]] = {}
    for cell in cells:
        is_tma = choice(cell, open_end.sm_count, open_end.arch, open_end)[0] is Route.TMA
        made = _Choice(cell.tokens, is_tma, *(log(cell.loss(route)) for route in FORCED))
        weights.setdefault((cell.rows, cell.depth), []).append(made)
    found = []
    for floor in floors:
        losses, ceilings = [], []
        for (rows, depth), members in weights.items():
            ends = (NEVER, 0, *(one.tokens for one in members))
            loss, ceiling = min((_loss(members, floor, end), end) for end in ends)
            losses.append(loss)
            if loss < _loss(members, floor, NEVER):
                ceilings.append(Ceiling(rows=rows, depth=depth, tokens=ceiling))
        total = max(beyond for beyond, _ in losses), sum(lost for _, lost in losses) + 1e-6 * len(ceilings)
        found.append((total, replace(calibration, min_tokens=floor, max_tokens=tuple(ceilings))))
    return found


def _loss(members: Sequence[_Choice], floor: int, ceiling: int) -> Loss:
    """By how much the worst choice passes the limit, then what all choices lose."""
    lost = [one.lost(floor, ceiling) for one in members]
    return max(0.0, max(lost) - log(LIMIT)), sum(lost)


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and fit on the first GPU; without one, say so."""
    try:
        device = RecordingDevice()
    except Refusal as refusal:
        show(f"fp8_a8_calibrate: not run: {refusal}")
        return
    cells = measure(device, SHAPES, WIDTHS, FORCED)
    name = arguments[1] if len(arguments) > 1 else "h200"
    blank = Calibration(
        name=name,
        device=capture().gpu.split(",")[0],
        arch=device.arch,
        sm_count=device.sm_count,
        date=datetime.now(UTC).date().isoformat(),
        work_ratio=1.0,
        margin=MARGIN,
        min_tokens=0,
        max_tokens=(),
        source="benchmarks/fp8_a8_calibrate.py",
    )
    fitted = fit(cells, blank)
    worst, where = worst_choice(cells, device.sm_count, device.arch, fitted)
    show(
        f"ratio {fitted.work_ratio:.4f}, a lone block {fitted.lone_block}, from {fitted.min_tokens} tokens on; "
        f"the worst choice takes {worst:.3f} of the "
        f"better route's time, {where}"
    )
    if arguments:
        record = {"calibration": asdict(fitted), "worst": worst, "cells": [asdict(cell) for cell in cells]}
        keep(record, arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
