"""Names and types of a kernel's parameters as its CUDA source declares them: text that is read, not understood.

parameters_in('template <class T> __global__ void f(const T* __restrict__ x, int n)', "f")
# (Declared("const T* __restrict__", "x"), Declared("int", "n"))
"""

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"(\w+)\s*(?:\[\s*\])?$")

_TYPES = (
    (re.compile(r"fp8_e4m3|\be4m3\b|float8_e4m3|float_e4m3"), "e4m3"),
    (re.compile(r"fp8_e5m2|\be5m2\b|float8_e5m2|float_e5m2"), "e5m2"),
    (re.compile(r"bfloat16|\bbf16\b"), "bf16"),
    (re.compile(r"\b(?:__)?half\b|\bfloat16"), "f16"),
    (re.compile(r"\bfloat\b"), "f32"),
    (re.compile(r"\b(?:std::)?uint8_t\b|\bunsigned char\b|fp8_storage_t"), "u8"),
    (re.compile(r"\b(?:std::)?int8_t\b|\bsigned char\b|\bchar\b"), "s8"),
    (re.compile(r"\b(?:std::)?uint16_t\b|\bunsigned short\b"), "u16"),
    (re.compile(r"\b(?:std::)?int16_t\b|\bshort\b"), "s16"),
    (re.compile(r"\b(?:std::)?uint64_t\b|\bsize_t\b|\bunsigned long long\b"), "u64"),
    (re.compile(r"\b(?:std::)?int64_t\b|\blong long\b|\blong\b"), "s64"),
    (re.compile(r"\b(?:std::)?uint32_t\b|\bunsigned(?: int)?\b"), "u32"),
    (re.compile(r"\b(?:std::)?int32_t\b|\bint\b"), "s32"),
)


@dataclass(frozen=True)
class Declared:
    """One parameter: the text of its type, and its name."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """Whether it is an address."""
        return "*" in self.type

    @property
    def element(self) -> str | None:
        """The element type as pages write it; None where the text does not say it, as for a template's type."""
        return element_in(self.type)


def element_in(text: str) -> str | None:
    """The element type that C++ text names, as pages write it."""
    return next((name for pattern, name in _TYPES if pattern.search(text)), None)


def parameters_in(text: str, kernel: str) -> tuple[Declared, ...] | None:
    """The parameters of a kernel's definition; None where the text has no such definition that can be read."""
    plain = _COMMENT.sub(" ", text)
    for found in re.finditer(rf"\b{re.escape(kernel)}\s*\(", plain):
        if "__global__" not in plain[max(0, found.start() - 400) : found.start()]:
            continue
        inside = _to_closing(plain, found.end())
        if inside is not None:
            declared = [_declared(part) for part in _split(inside) if part.strip()]
            return None if None in declared else tuple(one for one in declared if one is not None)
    return None


def _declared(text: str) -> Declared | None:
    words = " ".join(text.split("=")[0].split())
    found = _NAME.search(words)
    return (
        None
        if found is None or not words[: found.start()].strip()
        else Declared(words[: found.start()].strip(), found[1])
    )


def _to_closing(text: str, start: int) -> str | None:
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return text[start:at]
    return None


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<[") - (letter in ")>]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
