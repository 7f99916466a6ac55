"""Holes that are known, and why they are there. An entry that explains nothing any more is a defect: a test says so."""

from collections.abc import Mapping

_EMPTY = (
    "a call without tokens ends before its call site matters; tests/conformance/test_ninfer_gemm.py::"
    "test_a_call_without_tokens_is_judged_whatever_its_views runs it for every contract"
)

EXPLAINED: Mapping[tuple[str, str], str] = {
    **{
        ("route", f"ninfer_{site}/fp8_a8_gemm/empty"): _EMPTY
        for site in ("linear_add", "linear_swiglu", "attn_input_proj", "gdn_input_proj")
    },
    ("route", "ninfer_linear_add/fp8_a8_gemm/refused"): (
        "K = 0 is refused before the call site matters, which ninfer_linear has as a case; this site takes any N"
    ),
    ("route", "astrai_linear_backward/fp8_linear/no-gradients"): (
        "a program with steps without gradients asks for none: astrai_linear has its cases"
    ),
    ("kernel", "reference/e4m3_gemm"): "the reference of tests/h200: it judges others, and its own tests judge it",
    ("kernel", "reference/fp8_a8_judge"): "holds outputs to right sums on a GPU; its own tests judge it",
}
"""Kind and name of a hole to the reason."""
