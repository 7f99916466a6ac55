"""Hostile texts from a seed: a right one, edited where a reader or a decoder may stumble."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import corpus
from corpus import Source
from pieces import DIRECTIVES, GARBAGE, LINES, NUMBERS, SPACES, TYPES, WORDS

_PIECE = re.compile(r'\s+|//[^\n]*|"[^"\n]*"|[\w$%]+(?:\.[\w:]+)*|\.[\w:]+|.', re.DOTALL)
_NUMBER = re.compile(r"0[fFdDxX][0-9a-fA-F]+|-?\d+")
_REGISTER = re.compile(r"%\w+(?:\.\w)?")
_NAME = re.compile(r"\.\w+(?:::\w+)*")
_BLANK = re.compile(r"\b(?:REG|NUMBER|LABEL|NAME)\b")
_ANY = re.compile(r"\S+")

Pieces = list[str]
_Edit = Callable[[random.Random, Pieces], None]


def hostile(seed: int) -> Source:
    """One text and its launch: the same for the same seed."""
    draw = random.Random(seed)
    source = draw.choice(corpus.small() if draw.random() < 0.85 else corpus.compiled())
    kind = draw.random()
    if kind < 0.06:
        return replace(source, text=source.text[: draw.randrange(len(source.text))])
    if kind < 0.12:
        return replace(source, text=_bytes(draw, source.text))
    pieces = list(_pieces(source.text))
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4, 8))):
        draw.choices(_EDITS, _WEIGHTS)[0](draw, pieces)
    return replace(source, text="".join(pieces))


@cache
def _pieces(text: str) -> tuple[str, ...]:
    return tuple(_PIECE.findall(text))


def _bytes(draw: random.Random, text: str) -> str:
    """Bytes changed, dropped or put in; what is no UTF-8 then stays as lone surrogates."""
    raw = bytearray(text.encode())
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at = draw.randrange(len(raw))
        match draw.randrange(3):
            case 0:
                raw[at] = draw.randrange(256)
            case 1:
                raw[at] ^= 1 << draw.randrange(8)
            case 2:
                del raw[at : at + draw.choice((1, 1, 2, 30))]
                raw = raw or bytearray(b"\0")
    return raw.decode("utf-8", draw.choice(("surrogateescape", "replace")))


def _places(pieces: Pieces, pattern: re.Pattern[str]) -> list[int]:
    return [index for index, piece in enumerate(pieces) if pattern.fullmatch(piece)]


def _swap_like(pattern: re.Pattern[str], others: Sequence[str] = ()) -> _Edit:
    """One piece that matches becomes another one of the text, or of a list."""

    def edit(draw: random.Random, pieces: Pieces) -> None:
        places = _places(pieces, pattern)
        if places:
            at = draw.choice(places)
            pieces[at] = draw.choice(others) if others and draw.random() < 0.6 else pieces[draw.choice(places)]

    return edit


def _opcode(draw: random.Random, pieces: Pieces) -> None:
    """A qualifier of an opcode becomes another one, goes, or comes in."""
    places = [index for index, piece in enumerate(pieces) if "." in piece[1:] and not piece.startswith(("%", '"', "/"))]
    if not places:
        return
    at = draw.choice(places)
    first, *parts = re.split(r"(?=\.)", pieces[at])
    where = draw.randrange(len(parts))
    new = draw.choice((TYPES, SPACES, WORDS, tuple(parts)))
    match draw.randrange(4):
        case 0 | 1:
            parts[where] = draw.choice(new)
        case 2:
            del parts[where]
        case 3:
            parts.insert(where, draw.choice(new))
    pieces[at] = first + "".join(parts)


def _delete(draw: random.Random, pieces: Pieces) -> None:
    at = draw.randrange(len(pieces) + 1)
    del pieces[at : at + draw.choice((1, 1, 1, 2, 5, 40))]


def _exchange(draw: random.Random, pieces: Pieces) -> None:
    if len(pieces) > 1:
        a, b = draw.randrange(len(pieces)), draw.randrange(len(pieces))
        pieces[a], pieces[b] = pieces[b], pieces[a]


def _repeat(draw: random.Random, pieces: Pieces) -> None:
    at = draw.randrange(len(pieces) + 1)
    part = pieces[at : at + draw.choice((1, 3, 10, 60))]
    pieces[at:at] = part * draw.choice((1, 1, 2, 50))


def _garbage(draw: random.Random, pieces: Pieces) -> None:
    pieces.insert(draw.randrange(len(pieces) + 1), draw.choice(GARBAGE))


def _line_ends(pieces: Pieces) -> list[int]:
    return [index + 1 for index, piece in enumerate(pieces) if piece == ";" or "\n" in piece] or [len(pieces)]


def _directive(draw: random.Random, pieces: Pieces) -> None:
    pieces.insert(draw.choice(_line_ends(pieces)), f"\n{draw.choice(DIRECTIVES).strip()}\n")


def _line(draw: random.Random, pieces: Pieces) -> None:
    """A new instruction with registers, labels and names of the text."""
    registers = [pieces[at] for at in _places(pieces, _REGISTER)] or ["%r1"]
    names = [pieces[at - 1] for at, piece in enumerate(pieces) if piece == ":" and at] or ["L"]
    text = _BLANK.sub(lambda found: _filled(draw, found[0], registers, names), draw.choice(LINES).strip())
    pieces.insert(draw.choice(_line_ends(pieces)), f" {text} ")


def _filled(draw: random.Random, blank: str, registers: Sequence[str], names: Sequence[str]) -> str:
    if blank == "NUMBER":
        return draw.choice(NUMBERS) if draw.random() < 0.5 else str(16 * draw.randrange(64))
    return draw.choice(registers if blank == "REG" else names)


def _move_line(draw: random.Random, pieces: Pieces) -> None:
    """A statement goes, moves, or stands twice."""
    ends = _line_ends(pieces)
    at = draw.randrange(len(ends))
    first, last = ends[at - 1] if at else 0, ends[at]
    line = pieces[first:last]
    if draw.random() < 0.7:
        del pieces[first:last]
    if draw.random() < 0.7:
        to = draw.choice(_line_ends(pieces))
        pieces[to:to] = line


_EDITS: tuple[_Edit, ...] = (
    _swap_like(_NUMBER, NUMBERS),
    _swap_like(_REGISTER, ("%tid.x", "%clock64", "%laneid", "_", "%nosuch", "%smid", "%ntid.w")),
    _swap_like(_NAME, (*TYPES, *SPACES, *WORDS)),
    _swap_like(_ANY),
    _opcode,
    _delete,
    _exchange,
    _repeat,
    _garbage,
    _directive,
    _line,
    _move_line,
)
_WEIGHTS = (6, 6, 2, 1, 5, 1, 1, 1, 1, 2, 5, 4)
