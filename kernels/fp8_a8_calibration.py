"""What the choice between the two tiled routes was calibrated with, as data: `fp8_a8_calibrations.json`.

A calibration belongs to one device and one date. The bounds of what a kernel can do at all are code, in
`fp8_a8_selector`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tileproof.kernels.compile import architecture_number
from tileproof.oracle.refusal import Refusal

FILE = "fp8_a8_calibrations.json"

PUBLISHED = "rtx5090"
"""The calibration of devices that have none of their own."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The widest call of one weight that takes the TMA route."""

    rows: int
    depth: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """One device's measured constants.

    Args:
        name: how callers name it.
        device: product name.
        arch: its architecture.
        sm_count: its multiprocessors.
        date: when it was measured.
        work_ratio: time of the TMA kernel for a token of work, relative to the cp.async kernel.
        lone_block: time of a cp.async block that has a multiprocessor for itself, relative to two that share one; 1 in
            the published model.
        margin: by which share the modelled cost must be lower.
        min_tokens: the narrowest call that takes the TMA route.
        max_tokens: ceilings; other weights have none.
        source: where the constants come from.
    """

    name: str
    device: str
    arch: str
    sm_count: int
    date: str
    work_ratio: float
    lone_block: float = 1.0
    margin: float
    min_tokens: int
    max_tokens: tuple[Ceiling, ...]
    source: str

    def ceiling(self, rows: int, depth: int) -> int | None:
        """The widest call of a weight [rows, depth]; None without one."""
        return next((one.tokens for one in self.max_tokens if (one.rows, one.depth) == (rows, depth)), None)


@cache
def calibrations() -> Mapping[str, Calibration]:
    """All calibrations by name."""
    records: list[dict[str, Any]] = json.loads(resources.files("tileproof.kernels").joinpath(FILE).read_text())
    return {record["name"]: _calibration(record) for record in records}


def find_calibration(name: str) -> Calibration:
    """The calibration of that name. Raises: Refusal where there is none."""
    known = calibrations()
    if name not in known:
        raise Refusal(f"no calibration is called {name!r}", hint=f"known: {', '.join(known)}")
    return known[name]


def calibration_of(arch: str, sm_count: int) -> Calibration:
    """The calibration of a device: one of its architecture, with as many multiprocessors if there is one.

    Args:
        arch: such as "sm_90a"; the letter does not matter.
        sm_count: multiprocessors; 0 where they are not known.
    """
    number = architecture_number(arch)
    same = [one for one in calibrations().values() if architecture_number(one.arch) == number]
    exact = [one for one in same if one.sm_count == sm_count]
    return next(iter((*exact, *same)), calibrations()[PUBLISHED])


def _calibration(record: dict[str, Any]) -> Calibration:
    ceilings = tuple(Ceiling(**ceiling) for ceiling in record["max_tokens"])
    return Calibration(**{**record, "max_tokens": ceilings})
