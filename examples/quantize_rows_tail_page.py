"""The same rule for quantize_rows_tail.cu, which is wrong on purpose: its maximum leaves the end of a row out.

tileproof try examples/quantize_rows_tail.cu
"""

from quantize_rows_page import SIZES, launch

from tileproof.conformance.pages import Cuda, Page

KERNEL = Cuda("quantize_rows_tail.cu")

PAGE = Page("quantize_rows_tail", KERNEL, SIZES, launch=launch, like="ninfer_quantize", dtype="f32")
