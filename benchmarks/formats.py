"""Conversions against ml_dtypes, both into a given array on one core; and the sweep of all float32 patterns on two."""

import time
from collections.abc import Callable

import ml_dtypes
import numpy as np

from benchmarks.report import best_seconds, show
from tileproof.oracle.formats import BFLOAT16, E4M3FN, E5M2, FloatFormat
from tileproof.oracle.numbers.sweep import sweep_float32

_SIZE = 1 << 20
_ENCODE_FLOOR, _DECODE_FLOOR, _SWEEP_LIMIT_S = 5.0, 3.0, 15.0


def main() -> None:
    """Prints speeds, ratios and the floors they must reach."""
    show(f"formats: {_SIZE} elements, one core, best of 15, ml_dtypes {ml_dtypes.__version__} in turn")
    for record, dtype in ((E4M3FN, ml_dtypes.float8_e4m3fn), (E5M2, ml_dtypes.float8_e5m2)):
        _encode(record, np.dtype(dtype), np.dtype(np.float32), _ENCODE_FLOOR)
        _decode(record, np.dtype(dtype), _DECODE_FLOOR)
    for source in (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)):
        _encode(E4M3FN, np.dtype(ml_dtypes.float8_e4m3fn), source, None)
    _encode(BFLOAT16, np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), None)
    _sweep()


def _encode(
    record: FloatFormat, theirs: np.dtype[np.generic], source: np.dtype[np.generic], floor: float | None
) -> None:
    values = (np.random.default_rng(0).standard_normal(_SIZE) * 100).astype(np.float32).astype(source)
    codes, cast = np.empty(_SIZE, record.code_dtype), np.empty(_SIZE, theirs)
    _compare(
        f"encode {source} -> {record.name}",
        lambda: record.encode(values, out=codes),
        lambda: np.copyto(cast, values, casting="unsafe"),
        floor,
    )


def _decode(record: FloatFormat, theirs: np.dtype[np.generic], floor: float) -> None:
    codes = np.random.default_rng(0).integers(0, 256, _SIZE).astype(np.uint8)
    values, cast = np.empty(_SIZE, np.float32), codes.view(theirs)
    _compare(
        f"decode {record.name} -> float32",
        lambda: record.decode(codes, out=values),
        lambda: np.copyto(values, cast, casting="unsafe"),
        floor,
    )


def _compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], floor: float | None) -> None:
    mine, peer = best_seconds(ours, theirs)
    verdict = "" if floor is None else f"  (floor {floor:g}x: {'met' if peer / mine >= floor else 'MISSED'})"
    speeds = f"{_SIZE / mine / 1e6:7.0f} M/s, ml_dtypes {_SIZE / peer / 1e6:5.0f} M/s"
    show(f"  {name:32} {speeds}: {peer / mine:5.1f}x{verdict}")


def _sweep() -> None:
    sweep_float32(E4M3FN, heads=range(4))  # compiles
    started, used = time.perf_counter(), time.process_time()
    results = [sweep_float32(record, threads=2) for record in (E4M3FN, E5M2)]
    seconds, used = time.perf_counter() - started, time.process_time() - used
    patterns, different = (sum(getattr(result, name) for result in results) for name in ("patterns", "different"))
    verdict = "met" if seconds <= _SWEEP_LIMIT_S else "MISSED"
    show(
        f"  all float32 to E4M3FN and E5M2   {patterns} compared with the table form, {different} different, "
        f"{seconds:.1f} s on two threads, {used:.1f} s of processor time  (limit {_SWEEP_LIMIT_S:g} s: {verdict})"
    )
