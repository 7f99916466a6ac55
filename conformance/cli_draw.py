"""The drawings of `tileproof show`: swizzle, fragment, pack, banks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.drawings.picture import Picture
from tileproof.conformance.saying import say_lines, write_file
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Drawing:
    """What is asked for.

    Args:
        operand: of a fragment.
        k: of a pack.
        n: of a pack.
        width: bytes a lane of an access moves.
        store: whether it stores.
        lds: whether it is a wave's, on LDS.
    """

    operand: str = "c"
    k: int | None = None
    n: int | None = None
    width: int = 4
    store: bool = False
    lds: bool = False


def _swizzle(name: str, drawing: Drawing) -> Picture:
    from tileproof.conformance.drawings.swizzle import draw_swizzle

    return draw_swizzle(name)


def _fragment(name: str, drawing: Drawing) -> Picture:
    from tileproof.conformance.drawings.fragment import draw_fragment_map

    return draw_fragment_map(name, drawing.operand)


def _pack(name: str, drawing: Drawing) -> Picture:
    from tileproof.conformance.drawings.pack import draw_pack

    return draw_pack(name, drawing.k, drawing.n)


def _banks(name: str, drawing: Drawing) -> Picture:
    from tileproof.conformance.drawings.banks import draw_banks

    return draw_banks(name, drawing.width, store=drawing.store, lds=drawing.lds)


DRAWINGS: Mapping[str, Callable[[str, Drawing], Picture]] = {
    "swizzle": _swizzle,
    "fragment": _fragment,
    "pack": _pack,
    "banks": _banks,
}
_OF = {
    "swizzle": "a span, 0, 32, 64 or 128, or CuTe's numbers, such as 3,4,3",
    "fragment": "an instruction, such as mma.m16n8k32.f32.e4m3.e4m3",
    "pack": "a layout, such as fragment",
    "banks": "addresses by lane, such as 'lane * 32'",
}


def draw(kind: str, name: str | None, drawing: Drawing, svg_file: Path | None) -> None:
    """Print a drawing, or write it as SVG.

    Raises:
        Refusal: nothing of that name, or a file that cannot be written.
    """
    if name is None:
        raise Refusal(f"show {kind} of what?", hint=f"give {_OF[kind]}")
    picture = DRAWINGS[kind](name, drawing)
    if svg_file is None:
        from tileproof.conformance.drawings.terminal import lines

        say_lines(lines(picture))
        return
    from tileproof.conformance.drawings.svg import svg

    write_file(svg_file, svg(picture), hint="give another --svg FILE")
