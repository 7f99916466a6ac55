"""Contract pages: what they judge, and what they refuse, each with a right twin beside the wrong one."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_files import DOUBLE, HEAD, contract_in, findings, verdicts, written

from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Comparison, Tier
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.pages import around, within
from tileproof.conformance.pages.families import FAMILIES
from tileproof.conformance.pages.page_file import load_pages
from tileproof.conformance.pages.types import TYPES
from tileproof.conformance.pages.user_code import PageError
from tileproof.conformance.target import Target
from tileproof.oracle.refusal import Refusal

OWN = 'tensors=tensors, expected=expected, families=("normal",)'
SIZED = f'{{"N": (5,)}}, {OWN}'


def changed(old: str, new: str) -> str:
    assert old in DOUBLE
    return DOUBLE.replace(old, new)


def test_a_right_page_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, DOUBLE) == []


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("return 3 * x", {FindingKind.MISMATCH}),
        ("return np.where(np.arange(x.size) < 4, 2 * x, 0).astype(np.float32)", {FindingKind.MISMATCH}),
        ("x[2] += 1; return 2 * x", {FindingKind.INPUT_CHANGED, FindingKind.MISMATCH}),
        ("raise ValueError('five is too many')", {FindingKind.REFUSAL}),
    ],
)
def test_a_wrong_function_is_found(body: str, kinds: set[FindingKind], tmp_path: Path) -> None:
    found = findings(tmp_path, changed("    return 2 * x\n\ndef tensors", f"    {body}\n\ndef tensors"))
    assert {finding.kind for finding in found} == kinds


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("y[...] = 2 * x", set()),
        ("y[:4] = 2 * x[:4]", {FindingKind.UNWRITTEN}),
        ("y[...] = 2 * x; np.ndarray(7, np.float32, y, 0)[6] = 1", {FindingKind.CANARY}),
    ],
)
def test_a_function_that_writes_its_output_is_held_to_all_of_it(
    body: str, kinds: set[FindingKind], tmp_path: Path
) -> None:
    if FindingKind.CANARY in kinds:
        body = body.replace("np.ndarray(7, np.float32, y, 0)", "np.lib.stride_tricks.as_strided(y, (7,), (4,))")
    text = changed("def double(x):\n    return 2 * x", f"def double(x, y):\n    {body}")
    assert {finding.kind for finding in findings(tmp_path, text)} == kinds


def test_without_expected_a_result_is_held_to_a_second_run(tmp_path: Path) -> None:
    text = changed(" expected=expected,", "")
    assert contract_in(tmp_path, text).comparison is Comparison.REPEAT
    assert findings(tmp_path, text) == []
    drawn = text.replace(
        "    return 2 * x\n\ndef tensors", "    return x + np.float32(np.random.rand())\n\ndef tensors"
    )
    assert {finding.kind for finding in findings(tmp_path, drawn)} == {FindingKind.MISMATCH}


def test_an_unwritten_element_that_nothing_judges_is_not_said_to_be_as_expected(tmp_path: Path) -> None:
    text = changed(", expected=expected", "").replace("def double(x):", "def double(x, y):")
    text = text.replace("    return 2 * x\n\ndef tensors", "    y[:4] = 2 * x[:4]\n\ndef tensors")
    (found,) = findings(tmp_path, text)
    assert found.kind is FindingKind.UNWRITTEN
    assert found.mismatch is not None
    assert str(found.mismatch.expected) == "anything: nothing says what"
    assert str(found.mismatch.observed).startswith("0xa5a5a5a5")


def test_any_nan_of_32_bits_is_right_where_one_is_expected_and_no_number(tmp_path: Path) -> None:
    nan = "np.full(x.shape, 0x7FC00001, np.uint32).view(np.float32)"
    expects = changed("return 2 * x\n\nPAGE", "return np.full(x.shape, np.nan, np.float32)\n\nPAGE")
    right = expects.replace("return 2 * x\n\ndef tensors", f"return {nan}\n\ndef tensors")
    assert findings(tmp_path, right) == []
    assert {finding.kind for finding in findings(tmp_path, expects)} == {FindingKind.MISMATCH}


def test_between_takes_every_value_of_an_interval_and_no_other(tmp_path: Path) -> None:
    text = changed("return 2 * x\n\nPAGE", "return between(2 * x, np.nextafter(2 * x, np.float32(np.inf)))\n\nPAGE")
    text = text.replace("families=", 'compare="bound", families=')
    assert findings(tmp_path, text) == []
    above = text.replace("    return 2 * x\n\ndef", "    return np.nextafter(2 * x, np.float32(np.inf))\n\ndef")
    assert findings(tmp_path, above) == []
    far = above.replace("np.float32(np.inf))\n\ndef", "np.float32(-np.inf))\n\ndef")
    assert {finding.kind for finding in findings(tmp_path, far)} == {FindingKind.MISMATCH}


def test_an_output_may_be_read_first(tmp_path: Path) -> None:
    text = changed('Output("y", "f32", (N,))', 'InOut("y", "f32", (N,))').replace(
        "def expected(x)", "def expected(x, y)"
    )
    text = text.replace("def double(x):\n    return 2 * x", "def double(x, y):\n    y += x")
    right = text.replace("return 2 * x\n\nPAGE", "return x + y\n\nPAGE")
    assert findings(tmp_path, right) == []
    assert {finding.kind for finding in findings(tmp_path, text)} == {FindingKind.MISMATCH}


def test_inputs_of_the_pages_own_are_used(tmp_path: Path) -> None:
    text = changed("PAGE = ", "def inputs(random, N):\n    return {'x': np.arange(N, dtype=np.float32)}\n\nPAGE = ")
    text = text.replace('families=("normal",)', "inputs=inputs")
    contract = contract_in(tmp_path, text)
    (case,) = contract.cases(Tier.SMOKE)
    assert case.family == "given"
    assert contract.inputs(case)["x"].tolist() == [0, 1, 2, 3, 4]
    assert findings(tmp_path, text) == []


def test_views_place_a_tensor_elsewhere(tmp_path: Path) -> None:
    text = changed("(N,)", "(N, N)").replace("families=", 'views=("xpad3", "xoff1.yoff2"), families=')
    contract = contract_in(tmp_path, text)
    names = [str(case.shape) for case in contract.cases(Tier.SMOKE)]
    assert names == ["N5", "N5.xpad3", "N5.xoff1.yoff2"]
    assert findings(tmp_path, text) == []


def test_every_family_comes_in_smoke_and_every_product_in_full(tmp_path: Path) -> None:
    text = changed('families=("normal",)', "seeds=2")
    contract = contract_in(tmp_path, text)
    assert {case.family for case in contract.cases(Tier.SMOKE)} == {"normal", "integers", "wide", "specials"}
    assert len(contract.cases(Tier.FULL)) == 4 * 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("def tensors(N):", "def tensors(M):", r"a_page\.py:8, tensors wants M"),
        ('Output("y", "f32"', 'Output("y", "f23"', "tensor y: unknown element type 'f23'"),
        ('Output("y"', 'Output("x"', "the name 'x' is taken twice"),
        ('return Input("x", "f32", (N,)), ', "return 3, ", "tensors gives 3"),
        ('"double", Python', '"Double", Python', "name 'Double' has other letters"),
        ('{"N": (5,)}', '{"n": (5,)}', "size 'n' is no name"),
        ('{"N": (5,)}', '{"N": 5}', "size N is 5, no tuple"),
        ('{"N": (5,)}', "{}", "sizes is empty"),
        ('families=("normal",)', 'families=("norml",)', "families 'norml' are none of"),
        ("expected=expected", 'expected=expected, like="ninfer_quantize"', "like and expected are both given"),
        ("expected=expected", 'expected=expected, compare="close"', "compare 'close' is none of bits, set, bound"),
        ("Python(double)", "double", "kernel is <function double"),
        ("Python(double)", 'Cuda("x.cu")', "launch is missing"),
        ("PAGE = Page", "Page", "defines no page"),
        ("def double(x):", "def double(x:", r"a_page\.py:5: "),
        ("PAGE = ", "1 / 0\nPAGE = ", r"a_page\.py:14: ZeroDivisionError"),
        ("PAGE = ", "raise SystemExit(0)\nPAGE = ", r"a_page\.py:14: SystemExit"),
        ("families=", 'views=("xpd3",), families=', "view 'xpd3'"),
        ("families=", 'views=("zoff3",), families=', "unknown tensor in a view 'z'"),
        (OWN, 'like="ninfer_quantise"', "no contract 'ninfer_quantise'"),
        (OWN, 'like="ninfer_quantize"', "like ninfer_quantize: sizes are N"),
        (SIZED, '{"T": (1,), "K": (1,)}, like="ninfer_quantize"', "like ninfer_quantize: dtype is ''"),
    ],
)
def test_a_wrong_page_is_refused_in_its_own_lines(old: str, new: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(PageError, match=told) as refused:
        contract_in(tmp_path, changed(old, new))
    assert "Traceback" not in str(refused.value)


def test_all_wrong_fields_are_told_at_once(tmp_path: Path) -> None:
    text = changed('"double", Python(double), {"N": (5,)}', '"Double", Python(double), {"n": 5}')
    with pytest.raises(PageError, match=r"name 'Double'.*size 'n'.*size n is 5"):
        contract_in(tmp_path, text)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("return (2 * x).astype(np.float64)", "gives y as float64; it is float32"),
        ("return x[:4]", r"gives y the shape \(4,\)"),
        ("return {'z': x}", "gives z"),
        ("return x, x", "gives 2 arrays"),
        ("return x[7]", r"a_page\.py:12, expected: IndexError"),
    ],
)
def test_what_expected_gives_wrongly_is_an_error_and_no_verdict(new: str, told: str, tmp_path: Path) -> None:
    (verdict,) = verdicts(tmp_path, changed("return 2 * x\n\nPAGE", f"{new}\n\nPAGE"))
    assert verdict.result is None
    assert re.search(told, verdict.report)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("return 2.0 * x.astype(np.float64)", "y has element type float64; it must be float32"),
        ("return x[:4]", r"y has shape (4,)"),
        ("return 'two'", "a str was returned, which is no array"),
        ("return None", "a NoneType was returned"),
    ],
)
def test_a_function_that_returns_something_else_is_an_error(new: str, told: str, tmp_path: Path) -> None:
    (verdict,) = verdicts(tmp_path, changed("    return 2 * x\n\ndef tensors", f"    {new}\n\ndef tensors"))
    assert verdict.result is None
    assert told in verdict.report


def test_what_speaks_dlpack_is_taken_as_an_array(tmp_path: Path) -> None:
    """As a library's own array type does, of which nothing is known here."""
    text = changed(
        "def double(x):\n    return 2 * x",
        "class Own:\n"
        "    def __init__(self, array): self.array = array\n"
        "    def __dlpack__(self, **options): return self.array.__dlpack__(**options)\n"
        "    def __dlpack_device__(self): return self.array.__dlpack_device__()\n\n"
        "def double(x):\n    return Own(2 * x)",
    )
    assert findings(tmp_path, text) == []
    assert {finding.kind for finding in findings(tmp_path, text.replace("Own(2 * x)", "Own(3 * x)"))} == {
        FindingKind.MISMATCH
    }


def test_codes_of_eight_bits_are_compared_to_the_bit(tmp_path: Path) -> None:
    text = HEAD + (
        "from tileproof.oracle.formats import E4M3FN\n"
        "def cast(x):\n    return E4M3FN.encode(x)\n"
        'def tensors(N):\n    return Input("x", "f32", (N,)), Output("y", "e4m3", (N,))\n'
        "def expected(x):\n    return E4M3FN.encode(x)\n"
        'PAGE = Page("cast", Python(cast), {"N": (200,)}, tensors=tensors, expected=expected, families=("specials",))\n'
    )
    assert findings(tmp_path, text) == []
    other_nan = text.replace(
        "    return E4M3FN.encode(x)\ndef tensors", "    return E4M3FN.encode(x) | 0x80\ndef tensors"
    )
    assert findings(tmp_path, other_nan) != []


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_gives_every_type_in_its_own_shape_and_dtype(family: str, name: str) -> None:
    made = FAMILIES[family](np.random.default_rng(0), TYPES[name], (3, 50))
    assert (made.shape, made.dtype) == ((3, 50), TYPES[name].dtype)


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "e4m3", "e5m2"])
def test_families_hold_what_their_names_say(name: str) -> None:
    kind, random = TYPES[name], np.random.default_rng(1)
    assert kind.record is not None

    def values(family: str) -> Any:
        raw = FAMILIES[family](random, kind, (4000,)).view(f"u{kind.dtype.itemsize}")
        return np.asarray(kind.record.decode(raw), np.float64)  # type: ignore[union-attr]

    assert set(values("integers")) == set(range(-8, 9))
    assert np.isfinite(values("wide")).all()
    wide = np.abs(values("wide"))
    assert np.ptp(np.log2(wide[wide != 0])) > 12
    specials = values("specials")
    assert np.isnan(specials).any()
    assert (specials == 0).any()
    assert np.isfinite(specials).any()


def test_around_is_both_sides_of_one_tile_and_of_two() -> None:
    assert around(256) == (1, 255, 256, 257, 511, 512, 513)
    assert around(64, multiple=16) == (16, 48, 64, 80, 112, 128, 144)
    assert around(1) == (1, 2, 3)


def test_a_page_beside_another_imports_from_it(tmp_path: Path) -> None:
    written(tmp_path, "SIZE = 5\n", "sizes_beside.py")
    text = "from sizes_beside import SIZE\n" + DOUBLE.replace("(5,)", "(SIZE,)")
    assert findings(tmp_path, text) == []


def test_a_missing_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="there is no page"):
        load_pages(tmp_path / "none.py")


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="'ninfer_quantize' is taken"):
        verdicts(tmp_path, changed('"double"', '"ninfer_quantize"'))


def test_a_function_does_not_run_on_the_simulator(tmp_path: Path) -> None:
    (verdict,) = verdicts(tmp_path, DOUBLE, Target.SIM)
    assert verdict.result is None
    assert "does not run on sim" in verdict.report


@pytest.mark.parametrize(("nan", "right"), [("floats", False), ("bits", False), ("any", True)])
def test_a_page_says_whose_nans_are_free(nan: str, right: bool, tmp_path: Path) -> None:
    text = changed('Output("y", "f32"', 'Output("y", "e4m3"').replace("families=", f'nan="{nan}", families=')
    text = text.replace("    return 2 * x\n\ndef", "    return np.full(5, 0xFF, np.uint8)\n\ndef")
    text = text.replace("return 2 * x\n\nPAGE", "return np.full(5, 0x7F, np.uint8)\n\nPAGE")
    assert (findings(tmp_path, text) == []) == right


def test_bits_of_a_nan_count_where_the_page_says_so(tmp_path: Path) -> None:
    text = changed("return 2 * x\n\nPAGE", "return np.full(x.shape, -np.nan, np.float32)\n\nPAGE")
    text = text.replace("    return 2 * x\n\ndef", "    return np.full(x.shape, np.nan, np.float32)\n\ndef")
    assert findings(tmp_path, text) == []
    assert findings(tmp_path, text.replace("families=", 'nan="bits", families=')) != []


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "e4m3"])
def test_within_holds_whatever_a_close_number_rounds_to_and_no_more(name: str) -> None:
    kind, random = TYPES[name], np.random.default_rng(3)
    assert kind.record is not None
    values, error = random.standard_normal(500), 0.01
    allowed = within(values, error, name)
    lower, upper = (np.asarray(kind.record.decode(raw_bits(end)), np.float64) for end in (allowed.lower, allowed.upper))
    for close in (values, values - error, values + error, values + error * random.uniform(-1, 1, 500)):
        rounded = np.asarray(kind.record.decode(kind.record.encode(close)), np.float64)
        assert ((lower <= rounded) & (rounded <= upper)).all()
    spacing = np.abs(upper - lower) - 2 * error
    assert (spacing <= 2.0**-kind.record.mantissa_bits * np.maximum(np.abs(values) + error, 2.0**-6)).all()


def test_whole_numbers_have_no_interval() -> None:
    with pytest.raises(Refusal, match="s32 holds whole numbers"):
        within(np.zeros(3), 1, "s32")


def test_only_the_combinations_that_a_kernel_takes_are_cases(tmp_path: Path) -> None:
    text = changed('{"N": (5,)}', '{"N": (4, 5, 6), "M": (4, 5)}').replace(
        "families=", "only=lambda N, M: N == M, families="
    )
    assert [str(case.shape) for case in contract_in(tmp_path, text).cases(Tier.FULL)] == ["N4.M4", "N5.M5"]
    with pytest.raises(PageError, match="leaves no combination"):
        contract_in(tmp_path, text.replace("N == M", "N > 9"))


def test_a_page_that_says_its_tiles_is_told_where_by_tile_warp_and_lane(tmp_path: Path) -> None:
    text = changed("    return 2 * x\n\ndef tensors", "    y = 2 * x; y[9, 13] += 1; return y\n\ndef tensors")
    text = text.replace("(N,)", "(N, 32)").replace('{"N": (5,)}', '{"N": (32,)}')
    tiles = 'Tiles((32, 32), warp=(16, 16), fragment="mma.m16n8k16.f32.f16.f16", first_warp=4)'
    (found,) = findings(tmp_path, text.replace('families=("normal",)', f'families=("normal",), tiles={{"y": {tiles}}}'))
    assert found.mismatch is not None
    assert found.mismatch.units is not None
    assert found.mismatch.units.where == "the one that differs lies in warp 4, fragment (0, 1), lane 6, register 3"


@pytest.mark.parametrize(
    ("tiles", "told"),
    [
        ('{"z": Tiles((8, 8))}', "tiles of 'z'"),
        ('{"y": 8}', "no mapping of outputs to Tiles"),
        ('{"y": Tiles(8)}', "no mapping of outputs to Tiles"),
        ('{"y": Tiles((8, 0))}', "tile of 8 x 0"),
        ('{"y": Tiles((64, 64), warp=(48, 64))}', "a tile of 64 x 64 is not filled by one warp's part of 48 x 64"),
        ('{"y": Tiles((64, 64), fragment="mma.m16n8k16.f32.f16.f16")}', "without the part"),
        ('{"y": Tiles((64, 64), warp=(8, 64), fragment="mma.m16n8k16.f32.f16.f16")}', "not filled by one fragment"),
        ('{"y": Tiles((64, 64), warp=(64, 64), fragment="mma.m16n8k15")}', "mma.m16n8k15"),
        ('{"y": Tiles((4096, 4096))}', "the most is 1048576"),
    ],
)
def test_tiles_that_cannot_be_are_refused_by_name(tiles: str, told: str, tmp_path: Path) -> None:
    text = changed('families=("normal",)', f'families=("normal",), tiles={tiles}')
    with pytest.raises(PageError, match=re.escape(told)):
        contract_in(tmp_path, text)
