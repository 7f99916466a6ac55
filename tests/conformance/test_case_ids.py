"""A case id is the case: one spelling each, and nothing unknown gets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileproof.conformance.case import Case, Dimension, Shape, View, parse_case
from tileproof.conformance.contract import Tier
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.selection import select
from tileproof.oracle.refusal import Refusal

WORDS = st.from_regex(r"[a-z0-9]+([_-][a-z0-9]+)*", fullmatch=True)
SIZES = st.integers(0, 2**40)
TENSORS = st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda name: "pad" not in name and "off" not in name)
VIEWS = st.builds(View, TENSORS, SIZES, SIZES).filter(lambda view: bool(view.pad or view.offset))
SHAPES = st.builds(
    Shape,
    st.lists(
        st.builds(Dimension, st.from_regex(r"[A-Z][A-Za-z]*", fullmatch=True), SIZES),
        unique_by=lambda dimension: dimension.name,
        max_size=5,
    ).map(tuple),
    st.sampled_from(["", "bf16", "f16", "f32", "s8", "e4m3"]),
    st.lists(VIEWS, unique_by=lambda view: view.tensor, max_size=4).map(tuple),
).filter(lambda shape: bool(shape.dimensions or shape.dtype))
CASES = st.builds(Case, WORDS, WORDS, WORDS, SHAPES, WORDS, SIZES)

GOOD = "ninfer_quantize/fp8_quantize_rows/vector/T3.K129.f32.xpad3.cpad7/ties/0"


@given(CASES)
def test_every_case_is_read_back_from_its_id(case: Case) -> None:
    assert parse_case(str(case)) == case


@given(st.text(alphabet="TKxc0123f/.abpdo-_ \n", max_size=40))
def test_a_text_is_refused_or_is_the_one_spelling_of_its_case(text: str) -> None:
    for candidate in (text, f"a/b/c/{text}/d/0"):
        try:
            case = parse_case(candidate)
        except Refusal:
            continue
        assert str(case) == candidate


@pytest.mark.parametrize("tier", Tier)
def test_every_listed_case_is_known_distinct_and_read_back(tier: Tier) -> None:
    for contract in contracts().values():
        cases = contract.cases(tier)
        assert [find_case(str(case)) for case in cases] == list(cases)
        assert len(set(cases)) == len(cases)


def test_each_tier_contains_the_one_before() -> None:
    for contract in contracts().values():
        smoke, full, soak = (set(contract.cases(tier)) for tier in Tier)
        assert smoke <= full <= soak


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ninfer_quantize", "ninfer_quantise", "did you mean ninfer_quantize"),
        ("fp8_quantize_rows", "fp8_quantize_row", "did you mean fp8_quantize_rows"),
        ("vector", "vectors", "did you mean vector"),
        ("vector", "scalar", "its shape takes vector"),
        ("f32", "f64", "unknown element type"),
        (".f32", "", "no element type"),
        ("ties", "tie", "did you mean ties"),
        ("T3.K129", "T3.N129", "dimensions"),
        ("T3.K129", "K129.T3", "dimensions"),
        ("xpad3", "wpad3", "unknown tensor in a view"),
        ("xpad3.cpad7", "xpad3.cpad7.spad1", "scales, which has no rows"),
        ("/ties", "", "5 parts"),
        ("/0", "/00", "not a number"),
        ("/0", "/-1", "not a number"),
        ("K129", "K0129", "not a view"),
        ("xpad3", "xpad0", "not a view"),
        ("xpad3", "xoff1.xpad3", "not spelled"),
        ("T3.K129", "T3.T3.K129", "not spelled"),
        ("f32", "F32", "no element type"),
        ("ties", "Ties", "not a name"),
    ],
)
def test_an_unknown_part_is_refused_by_name(old: str, new: str, says: str) -> None:
    find_case(GOOD)
    with pytest.raises(Refusal, match=says):
        find_case(GOOD.replace(old, new))


def test_the_seed_of_the_data_is_the_id_and_nothing_else() -> None:
    case = find_case(GOOD)
    again = find_case(GOOD)
    other = find_case(GOOD.replace("/0", "/1"))
    assert case.random().integers(2**62) == again.random().integers(2**62) != other.random().integers(2**62)


@pytest.mark.parametrize(
    ("glob", "hint"),
    [
        ("ninfer_quantise/*", "'ninfer_quantise' is no part of an id there; did you mean ninfer_quantize"),
        ("ninfer_quantize/*/vectr/*", "'vectr' is no part of an id there; did you mean vector"),
        ("ninfer_quantize/*/vector/T1.K63.*/ties/0", "did you mean T1.K64."),
        ("?/?", "'?' is no part of an id there; `tileproof list` shows what there is"),
        ("ninfer_quantize/*/*/*/*/*/*/*", "'*' is no part of an id there"),
    ],
)
def test_a_glob_that_matches_nothing_is_told_by_the_part_that_does_not(glob: str, hint: str) -> None:
    with pytest.raises(Refusal) as refused:
        select((glob,))
    assert hint in (refused.value.hint or "")
