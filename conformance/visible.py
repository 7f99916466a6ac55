"""Text of files and kernels, made harmless to show: what would act on a terminal or hide is written out, `\\x1b`.

Escapes, bells and backspaces move the cursor or change the window's title; marks of direction and of zero width make a
line read otherwise than it is. They may stand in any name or message that comes out of a file.
"""

from typing import Any


def visible(text: str) -> str:
    """The text as one line: what prints nothing, but for spaces and tabs, is written as its number; line ends, too."""
    return text if text.isprintable() else "".join(map(_shown, text))


def visible_lines(text: str) -> list[str]:
    """The text line by line, each as `visible`; an empty text is one empty line."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def visible_text(text: str) -> str:
    """The text with its lines."""
    return "\n".join(visible_lines(text))


def visible_data(data: Any) -> Any:
    """The texts, with their lines, in what JSON can hold."""
    match data:
        case str():
            return visible_text(data)
        case dict():
            return {key: visible_data(value) for key, value in data.items()}
        case list() | tuple():
            return [visible_data(value) for value in data]
        case _:
            return data


def _shown(letter: str) -> str:
    if letter.isprintable() or letter == "\t":
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
