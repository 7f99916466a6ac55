"""A Python function judged by a contract of tileproof's: each row to e4m3 codes and one scale.

tileproof try examples/numpy_quantizer_page.py
"""

import ml_dtypes
import numpy as np

from tileproof.conformance.pages import Page, Python, around

LARGEST = np.float32(448)


def quantize(x):
    """Codes [T, K] and scales [T] of x [T, K], float32."""
    scales = np.where(np.isnan(x), 0, np.abs(x)).max(axis=1) / LARGEST
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    with np.errstate(all="ignore"):
        scaled = np.clip(x * inverse[:, None], -LARGEST, LARGEST)
    codes = scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return np.where(np.isnan(scaled), np.uint8(0x7F), codes), scales


PAGE = Page(
    "numpy_quantizer",
    Python(quantize),
    {"T": (1, 3), "K": around(64)},
    like="ninfer_quantize",
    dtype="f32",
    views=("xpad3", "xoff1"),
)
