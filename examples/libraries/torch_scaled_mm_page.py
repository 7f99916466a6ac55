"""`torch._scaled_mm`: scales of a tensor and of rows, fast and slow accumulation, sums that are exact and others.

tileproof try examples/libraries/torch_scaled_mm_page.py --target gpu
"""

import fp8_products as products
import torch

from tileproof.conformance.pages import Input, Page, Python


def by_tensor(a, b, scale_a, scale_b):
    return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.float32, use_fast_accum=True)


def by_tensor_slowly(a, b, scale_a, scale_b):
    return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.float32, use_fast_accum=False)


def by_row(a, b, scale_a, scale_b):
    return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=True)


def tensors_by_tensor(M, N, K):
    scales = [Input(name, "f32", (1,)) for name in ("scale_a", "scale_b")]
    return [*products.operands(M, N, K), *scales, products.output("f32", M, N)]


def tensors_by_row(M, N, K):
    scales = [Input("scale_a", "f32", (M, 1)), Input("scale_b", "f32", (1, N))]
    return [*products.operands(M, N, K), *scales, products.output("bf16", M, N)]


def exact_by_tensor(a, b, scale_a, scale_b):
    return products.exact(a, b, scale_a * scale_b).astype("f4")


def exact_by_row(a, b, scale_a, scale_b):
    return products.exact(a, b, scale_a * scale_b).astype(products.BF16)


def within_by_tensor(a, b, scale_a, scale_b, K):
    return products.within(a, b, K, scale_a * scale_b)


def within_by_row(a, b, scale_a, scale_b, K):
    return products.within(a, b, K, scale_a * scale_b, products.BF16)


def _page(name, function, tensors, inputs, expected, exactly):
    sizes, families = (products.SIZES, ("integers",)) if exactly else (products.DEEP, ("normal", "wide"))
    return Page(
        name,
        Python(function, arrays="torch"),
        sizes,
        tensors=tensors,
        inputs=inputs,
        expected=expected,
        compare="bits" if exactly else "bound",
        families=families,
        rules=[("scales", "powers of two: applied in any order they lose nothing")],
    )


_TENSOR = (tensors_by_tensor, products.scales_of_tensors)
_ROW = (tensors_by_row, products.scales_of_rows)
TENSOR_EXACT = _page("scaled_mm_tensor_exact", by_tensor, *_TENSOR, exact_by_tensor, True)
TENSOR_FAST = _page("scaled_mm_tensor_fast", by_tensor, *_TENSOR, within_by_tensor, False)
TENSOR_SLOW = _page("scaled_mm_tensor_slow", by_tensor_slowly, *_TENSOR, within_by_tensor, False)
ROW_EXACT = _page("scaled_mm_row_exact", by_row, *_ROW, exact_by_row, True)
ROW_FAST = _page("scaled_mm_row_fast", by_row, *_ROW, within_by_row, False)
