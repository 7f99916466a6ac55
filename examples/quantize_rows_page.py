"""What quantize_rows of quantize_rows.cu must do: the rule of `ninfer_quantize`, a contract of tileproof's.

    tileproof try examples/quantize_rows.cu

The first draft came from `tileproof try quantize_rows.cu --like ninfer_quantize`.
"""

from tileproof.conformance.pages import Cuda, Launch, Page, around

KERNEL = Cuda("quantize_rows.cu")

SIZES = {"T": (1, 3), "K": around(256)}


def launch(x, codes, scales, T, K):
    return Launch(grid=T, block=256, args=(x, codes, scales, K))


PAGE = Page("quantize_rows", KERNEL, SIZES, launch=launch, like="ninfer_quantize", dtype="f32")
