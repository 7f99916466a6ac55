"""The same kernel without its barrier, as a page finds it: `WITHOUT_BARRIER` takes it out.

tileproof try examples/column_sums_race_page.py
"""

from column_sums_page import exact, launch, tensors

from tileproof.conformance.pages import Cuda, Page

KERNEL = Cuda("column_sums.cu", entry=("sum_strips", "add_strips"), define=["WITHOUT_BARRIER"])

PAGE = Page(
    "column_sums_race",
    KERNEL,
    {"Rows": (33,), "Columns": (33,)},
    tensors=tensors,
    launch=launch,
    expected=exact,
    families=("integers",),
)
