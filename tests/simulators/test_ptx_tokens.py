import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.simulators.ptx.text.syntax import PtxSyntaxError
from tileproof.simulators.ptx.text.tokens import MAX_QUOTED_CHARS, MAX_TEXT_CHARS, Cursor, Kind, quote, tokenise


def texts(text: str) -> list[str]:
    return [token.text for token in tokenise(text)][:-1]


def only(text: str) -> tuple[Kind, str]:
    token, end = tokenise(text)
    assert end.kind is Kind.END
    return token.kind, token.text


def test_an_instruction_splits_at_everything_but_the_dots_of_its_opcode() -> None:
    line = "@!%p1 st.shared::cta.v2.u32 [%rd1+-8],{%r1 , 0x7f};"
    assert texts(line) == [
        *("@", "!", "%p1", "st.shared::cta.v2.u32", "[", "%rd1", "+", "-", "8", "]", ","),
        *("{", "%r1", ",", "0x7f", "}", ";"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint", Kind.WORD),
        ("%tid.x", Kind.WORD),
        ("$L__BB0_1", Kind.WORD),
        ("_", Kind.WORD),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernelEEEvv", Kind.WORD),
        (".reqnctapercluster", Kind.DIRECTIVE),
        (".2d", Kind.DIRECTIVE),
        (".L2::128B", Kind.DIRECTIVE),
        ("0", Kind.NUMBER),
        ("017", Kind.NUMBER),
        ("4294967295U", Kind.NUMBER),
        ("0xFFFFFFFFFFFFFFFFU", Kind.NUMBER),
        ("0X1f", Kind.NUMBER),
        ("0b101U", Kind.NUMBER),
        ("0f3F800000", Kind.NUMBER),
        ("0D3ff0000000000000", Kind.NUMBER),
        ("1.5e-3", Kind.NUMBER),
        ("1e3", Kind.NUMBER),
        (".5", Kind.NUMBER),
        ("9.0", Kind.NUMBER),
        ('"used_bytes_mask 15"', Kind.STRING),
        (r'"a \"quoted\" name"', Kind.STRING),
        ("<<", Kind.PUNCTUATION),
        ("|", Kind.PUNCTUATION),
    ],
)
def test_one_token_has_the_kind(text: str, kind: Kind) -> None:
    assert only(text) == (kind, text)


def test_comments_and_white_space_separate_tokens_and_vanish() -> None:
    assert texts('a/* 1 \n // */b // c ; "d\n\t\r\n\f/**/e/***/') == ["a", "b", "e"]


def test_the_end_of_an_empty_text_is_a_token() -> None:
    assert [token.kind for token in tokenise(" // nothing")] == [Kind.END]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_count_from_one_and_through_comments(newline: str) -> None:
    cursor = Cursor(newline.join(["a", "/* two", "three */ b", "", "c"]))
    assert [cursor.line_of(cursor.take()) for _ in range(3)] == [1, 3, 5]


def test_a_cursor_stays_at_the_end() -> None:
    cursor = Cursor("a")
    assert [cursor.take().kind for _ in range(3)] == [Kind.WORD, Kind.END, Kind.END]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a\n/* b", 2, "the comment '/*' is not closed"),
        ('a "b\n"', 1, "the string is not closed on its line"),
        ("0f3F80", 1, "'0f3F80' is not a number"),
        ("0d3F800000", 1, "'0d3F800000' is not a number"),
        ("12ab", 1, "'12ab' is not a number"),
        ("0x", 1, "'0x' is not a number"),
        ("3u", 1, "'3u' is not a number"),
        ("1.2.3", 1, "'1.2.3' is not a number"),
        ("a;\0", 1, r"'\x00' cannot begin a token"),
        ("# 1 file", 1, "'#' cannot begin a token"),
        ("a\n\\", 2, r"'\\' cannot begin a token"),
        ("é", 1, "'é' cannot begin a token"),
        ("٣", 1, "'٣' is not a number"),
        ("a . b", 1, "'.' cannot begin a token"),
    ],
)
def test_what_is_no_token_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(PtxSyntaxError) as error:
        list(tokenise(text))
    assert (error.value.line, error.value.reason) == (line, reason)


def test_a_text_beyond_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(PtxSyntaxError, match=f"the limit is {MAX_TEXT_CHARS}"):
        Cursor(";" * (MAX_TEXT_CHARS + 1))


def test_quoted_text_is_one_short_line() -> None:
    assert quote("a\nb") == r"'a\nb'"
    assert len(quote("x" * 10_000)) == MAX_QUOTED_CHARS + 2


WORDS = st.from_regex(r"[A-Za-z%$_][A-Za-z0-9$_]{0,5}(\.[a-z0-9]{1,4}(::[a-z0-9]{1,4})?){0,2}", fullmatch=True)
NUMBERS = st.sampled_from(["0", "017", "1.5", "0f3F800000", "0x1fU", "0b11", "12"])
MARKS = st.sampled_from(list("[]{}(),;:+|@!=*&^~?-/<>"))


@settings(deadline=None)
@given(st.lists(WORDS | NUMBERS | MARKS, max_size=30), st.sampled_from([" ", "\n", "\t", " /**/ ", " // x\n"]))
def test_tokens_joined_by_any_separator_come_back(tokens: list[str], separator: str) -> None:
    assert texts(separator.join(tokens)) == tokens
