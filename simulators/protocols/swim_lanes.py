"""A trace as a drawing: a lane for each process, time downwards, a box for each step; what breaks a rule is red."""

from collections.abc import Iterator, Sequence
from html import escape

from tileproof.simulators.protocols.trace import TraceStep

# In pixels. A letter of the font at its size is at most this wide.
_LETTER, _ROW, _BOX, _HEAD, _MARGIN = 7, 34, 26, 30, 12
_STYLE = (
    "text{font:12px monospace;dominant-baseline:middle;text-anchor:middle}"
    ".lane{stroke:#bbb}.box{fill:#eef4ff;stroke:#456}.hardware{fill:#f4f4f4;stroke:#999;stroke-dasharray:4 3}"
    ".broken{fill:#ffe3e3;stroke:#c00;stroke-width:2}.name{font-weight:bold}"
)


def swim_lanes(title: str, names: Sequence[str], steps: Sequence[TraceStep]) -> str:
    """The drawing as SVG.

    Args:
        title: under which it stands.
        names: of all processes; those that take no step get no lane.
        steps: of the trace.
    """
    taking = sorted({step.process for step in steps})
    lanes = {process: _width(names[process], [step for step in steps if step.process == process]) for process in taking}
    centres = dict(zip(taking, _centres(list(lanes.values())), strict=True))
    width = max(_MARGIN + sum(lanes.values()), len(title) * _LETTER + 2 * _MARGIN)
    height = 2 * _HEAD + _ROW * len(steps) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        f'<text class="name" x="{width // 2}" y="{_HEAD // 2}">{escape(title)}</text>',
    ]
    for process in taking:
        x = centres[process]
        parts.append(f'<line class="lane" x1="{x}" y1="{2 * _HEAD}" x2="{x}" y2="{height - _MARGIN}"/>')
        parts.append(f'<text class="name" x="{x}" y="{_HEAD * 3 // 2}">{escape(names[process])}</text>')
    for number, step in enumerate(steps):
        parts += _box(number, step, centres[step.process], lanes[step.process])
    return "\n".join([*parts, "</svg>", ""])


def _width(name: str, steps: Sequence[TraceStep]) -> int:
    longest = max(len(name), *(len(_words(step)) for step in steps))
    return longest * _LETTER + 3 * _MARGIN


def _words(step: TraceStep) -> str:
    return f"000 {step.words}"


def _centres(widths: Sequence[int]) -> Iterator[int]:
    left = _MARGIN
    for width in widths:
        yield left + (width - _MARGIN) // 2
        left += width


def _box(number: int, step: TraceStep, x: int, width: int) -> Iterator[str]:
    y = 2 * _HEAD + _ROW * number + _ROW // 2
    kind = "broken" if step.broken else "box" if step.source else "hardware"
    wide = width - 2 * _MARGIN
    yield "<g>"
    yield f"<title>{escape(', '.join(step.changes))}</title>"
    yield f'<rect class="{kind}" x="{x - wide // 2}" y="{y - _BOX // 2}" width="{wide}" height="{_BOX}" rx="4"/>'
    yield f'<text x="{x}" y="{y}">{number + 1} {escape(step.words)}</text>'
    yield "</g>"
