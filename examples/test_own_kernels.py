"""Kernels as tests: each case of a page is one, and a failure ends in the command that replays it."""

from tileproof.conformance.pytest_plugin import judged


@judged("quantize_rows_page.py")
def test_quantize_rows(result):
    """Judged before this line; the result has the outputs too."""
    assert set(result.outputs) == {"codes", "scales"}


@judged("column_sums_page.py")
def test_column_sums(result):
    pass
