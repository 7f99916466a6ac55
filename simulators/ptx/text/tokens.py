"""PTX text to tokens, and a cursor that reads them.

An opcode or special register is one token with its dots, a directive is one token with its dot, so that
``@%p1 st.shared::cta.u32 [%rd1+4], 0x7f;`` is ``@``, ``%p1``, ``st.shared::cta.u32``, ``[``, ``%rd1``, ``+``, ``4``,
``]``, ``,``, ``0x7f``, ``;``. Comments and white space separate tokens and vanish; preprocessor lines (``#``) are
refused. Source: PTX ISA 9.0, sections 4.1 to 4.5; where its text is silent, what ptxas 13.0 accepts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, NoReturn

from tileproof.simulators.ptx.text.syntax import PtxSyntaxError

MAX_TEXT_CHARS = 1 << 25
"""Longest text read. Whole libraries of GEMM kernels stay below 10 MB; a longer text is not a module but a mistake."""

MAX_QUOTED_CHARS = 60
"""Longest piece of the text repeated in an error message; mangled names run to kilobytes."""

MAX_NAME_CHARS = 1 << 15
"""Longest name, which messages repeat as a whole; mangled names of templates run to some thousand characters."""

MAX_OPCODE_CHARS = 1 << 10
"""Longest opcode with its qualifiers; the longest ones that exist have some 150 characters."""


class Kind(Enum):
    """What a token is."""

    WORD = "a name"
    NUMBER = "a number"
    DIRECTIVE = "a directive"
    PUNCTUATION = "a punctuation mark"
    STRING = "a string"
    END = "the end of the text"


class Token(NamedTuple):
    """A token and the offset of its first character."""

    kind: Kind
    text: str
    start: int


# The possessive quantifiers keep the scan linear on any text. Groups are in the order of frequency in real PTX.
_TOKEN = re.compile(
    r"""
    (?:\s++|//[^\n]*+|/\*.*?\*/)*+
    (?:
        ([A-Za-z_$%][\w$]*+(?:\.\w++(?:::\w++)*+)*+)
      | ([][{}(),;:+|@!=*&^~?-]|<<|>>|[<>]|/(?!\*))
      | ((?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
            |[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+U?)(?![\w$.]))
      | (\.\w++(?:::\w++)*+)
      | ("(?:[^"\\\n]|\\[^\n])*+")
      | (\Z)
      | ([0-9][\w$.]*+|.)
    )
    """,
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_KIND_OF_GROUP = (None, Kind.WORD, Kind.PUNCTUATION, Kind.NUMBER, Kind.DIRECTIVE, Kind.STRING, Kind.END, None)


def quote(text: str) -> str:
    """The text as error messages show it: in quotes, one line, not longer than ``MAX_QUOTED_CHARS``."""
    return repr(text if len(text) <= MAX_QUOTED_CHARS else text[: MAX_QUOTED_CHARS - 3] + "...")


def tokenise(text: str) -> Iterator[Token]:
    """The tokens of a text, the last of which has the kind END. Reads no further than they are asked for.

    Raises:
        PtxSyntaxError: something in the text is no token.
    """
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        assert group is not None  # the last group takes any character
        kind = _KIND_OF_GROUP[group]
        if kind is None:
            raise _no_token(text, match[group], match.start(group))
        if match.end(group) - match.start(group) > MAX_OPCODE_CHARS and kind in (Kind.WORD, Kind.DIRECTIVE):
            _check_length(text, match[group], match.start(group))
        yield Token(kind, match[group], match.start(group))
        if kind is Kind.END:
            return


def _check_length(text: str, word: str, start: int) -> None:
    what, most = ("an opcode", MAX_OPCODE_CHARS) if "." in word else ("a name", MAX_NAME_CHARS)
    if len(word) > most:
        line = text.count("\n", 0, start) + 1
        raise PtxSyntaxError(f"{quote(word)} has {len(word)} characters: {what} has at most {most}", line=line)


def _no_token(text: str, found: str, start: int) -> PtxSyntaxError:
    line = text.count("\n", 0, start) + 1
    if text.startswith("/*", start):
        return PtxSyntaxError("the comment '/*' is not closed", line=line, hint="end it with */")
    if found == '"':
        return PtxSyntaxError("the string is not closed on its line", line=line)
    if found[0].isdigit():
        hint = "floats have 8 hexadecimal digits after 0f or 16 after 0d; only U may follow an integer"
        return PtxSyntaxError(f"{quote(found)} is not a number", line=line, hint=hint)
    hints = {
        "\0": "strip the zero byte that ends a C string",
        "#": "run the preprocessor before; its lines are not read here",
    }
    return PtxSyntaxError(f"{quote(found)} cannot begin a token", line=line, hint=hints.get(found, ""))


class Cursor:
    """Reads the tokens of a text one by one; ``token`` is the next one, ``following`` the one after it.

    Raises:
        PtxSyntaxError: the text is longer than ``MAX_TEXT_CHARS``, or from any method: something in it is no token.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT_CHARS:
            raise PtxSyntaxError(f"the text has {len(text)} characters, the limit is {MAX_TEXT_CHARS}", line=1)
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._tokens = tokenise(text)
        self.token = next(self._tokens)
        self.following = next(self._tokens, self.token)

    def line_of(self, token: Token) -> int:
        """The line of a token, from 1."""
        return bisect_left(self._newlines, token.start) + 1

    @property
    def line(self) -> int:
        """The line of the next token, from 1."""
        return self.line_of(self.token)

    def take(self) -> Token:
        """The next token, moving past it. At the end of the text it stays there."""
        token = self.token
        self.token = self.following
        self.following = next(self._tokens, self.following)
        return token

    def accept(self, text: str) -> bool:
        """Whether the next token is this text; if so, moves past it."""
        if self.token.text != text:
            return False
        self.take()
        return True

    def expect(self, text: str, where: str, *, hint: str = "") -> None:
        """Moves past the next token, which must be this text; ``where`` says in which place it belongs."""
        if self.token.text != text:
            self.fail(f"{text!r} {where}", hint=hint)
        self.take()

    def expect_kind(self, kind: Kind, expected: str) -> Token:
        """The next token, which must be of this kind, moving past it."""
        if self.token.kind is not kind:
            self.fail(expected)
        return self.take()

    def expect_name(self, expected: str) -> str:
        """A plain name without dots."""
        token = self.expect_kind(Kind.WORD, expected)
        if "." in token.text:
            raise PtxSyntaxError(f"expected {expected}, found {quote(token.text)}", line=self.line_of(token))
        return token.text

    def fail(self, expected: str, *, hint: str = "") -> NoReturn:
        """Raises that the next token is not what was expected."""
        token = self.token
        found = token.kind.value if token.kind is Kind.END else quote(token.text)
        raise PtxSyntaxError(f"expected {expected}, found {found}", line=self.line, hint=hint)
