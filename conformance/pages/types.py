"""Element types as a page writes them: `f32`, `bf16`, `e4m3`, ... Eight-bit floats are stored as codes in uint8."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.oracle.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, FloatFormat
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class ElementType:
    """One element type.

    Args:
        name: as a page writes it.
        dtype: of an array that holds it; uint8 for codes of eight bits.
        format: its name in reports.
        record: how its bits are read as numbers; None for integers.
    """

    name: str
    dtype: np.dtype[Any]
    format: str
    record: FloatFormat | None = None

    @property
    def is_code(self) -> bool:
        """Whether an array holds codes, not numbers."""
        return self.record is not None and self.dtype.kind == "u"


_CODES = {"e4m3": "E4M3FN", "e5m2": "E5M2", "e4m3fnuz": "E4M3FNUZ", "e5m2fnuz": "E5M2FNUZ", "e8m0": "E8M0FNU"}

TYPES: Mapping[str, ElementType] = {
    one.name: one
    for one in (
        ElementType("f32", np.dtype(np.float32), "FLOAT32", FLOAT32),
        ElementType("f16", np.dtype(np.float16), "FLOAT16", FLOAT16),
        ElementType("bf16", np.dtype(ml_dtypes.bfloat16), "BFLOAT16", BFLOAT16),
        *(ElementType(name, np.dtype(np.uint8), full, FORMATS[full]) for name, full in _CODES.items()),
        *(ElementType(f"s{bits}", np.dtype(f"i{bits // 8}"), f"INT{bits}") for bits in (8, 16, 32, 64)),
        *(ElementType(f"u{bits}", np.dtype(f"u{bits // 8}"), f"UINT{bits}") for bits in (8, 16, 32, 64)),
    )
}
"""By name."""


def element_type(name: str) -> ElementType:
    """The type of that name. Raises: Refusal for another, with near names."""
    if not isinstance(name, str) or name not in TYPES:
        near = difflib.get_close_matches(str(name), TYPES, n=3) or list(TYPES)
        raise Refusal(f"unknown element type {name!r}", hint="did you mean " + ", ".join(near))
    return TYPES[name]
