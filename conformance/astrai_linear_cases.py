"""Which cases the linear layer runs: every program, recipe and family, on small extents with ragged tails.

Smoke has each program, recipe, family and number of dimensions at least once. Full takes products, residues, windows
and sequences that go round the window.
"""

from collections.abc import Callable, Iterator
from itertools import cycle, product

from tileproof.conformance.astrai_linear_families import FAMILIES, STRANDS
from tileproof.conformance.astrai_linear_setting import (
    BACKWARD,
    DIMENSIONS,
    KERNEL,
    PROGRAMS,
    QUANTISED,
    RESTORED_AT,
    TOKENS,
    WITHOUT_GRADIENTS,
)
from tileproof.conformance.case import Case, Dimension, Shape, View
from tileproof.conformance.contract import Tier
from tileproof.conformance.space import Extent, Space

WINDOWS = (1, 2, 3, 16)
HYBRID = TOKENS[0]

WIDE_WINDOW = 40
"""More than a warp has lanes: seeding it takes a second turn."""

_IN_TURN = tuple(family for family in FAMILIES if family not in ("roundings", "small"))

SPACE = Space(
    {
        "P": Extent(only=tuple(range(len(PROGRAMS)))),
        "S": Extent(6, (2, RESTORED_AT), least=1),
        "B": Extent(2, (1,)),
        "M": Extent(40, (8, 16, 32)),
        "N": Extent(40, (8, 16, 32)),
        "K": Extent(72, (8, 16, 32, 64)),
        "W": Extent(5, (2,)),
    },
    offsets={"x": 8, "w": 8, "g": 8, "bias": 3, "out": 8, "dx": 8, "dw": 8, "dbias": 3, "codes": 16, "rings": 2},
    any_bits=("x", "w", "g", "bias", "codes", "scale"),
    work=1 << 14,
    volume=("S", "M", "N", "K"),
)
"""Programs of a few steps on tensors of about a tile: what is passed from step to step is what counts."""

Routes = Callable[[Shape], tuple[str, ...]]
Extents = tuple[int, int, int, int]


def cases(contract: str, routes: Routes, tier: Tier) -> tuple[Case, ...]:
    """The cases of a tier, in a fixed order."""
    found = [*_smoke(contract), *(_full(contract) if tier is not Tier.SMOKE else ())]
    made = (Case(contract, KERNEL, routes(shape)[0], shape, family, seed) for shape, family, seed in found)
    return tuple(dict.fromkeys(made))


def shape_of(program: int, steps: int, extents: Extents, window: int, token: str, *views: View) -> Shape:
    """A shape of these contracts; extents are B, M, N, K."""
    sizes = (program, steps, *extents, window)
    dimensions = tuple(Dimension(name, size) for name, size in zip(DIMENSIONS, sizes, strict=True))
    return Shape(dimensions, token, views)


def _programs(contract: str) -> list[tuple[int, str]]:
    """By number; gradients are asked for where every step has them."""
    return [one for one in enumerate(PROGRAMS) if contract != BACKWARD or one[1] != WITHOUT_GRADIENTS]


def _token(contract: str, program: int, token: str) -> str:
    """Codes of a weight meet gradients of one format alone."""
    mixed = token.startswith(HYBRID)
    return token.replace(HYBRID, "e4m3e4m3") if program == QUANTISED and mixed and contract == BACKWARD else token


def _smoke(contract: str) -> Iterator[tuple[Shape, str, int]]:
    families = cycle(("rising", "ordinary", "falling"))
    for number, name in _programs(contract):
        token = _token(contract, number, HYBRID + "b16" if number % 2 else HYBRID)
        steps = {"restored": RESTORED_AT + 2, "reset": 4}.get(name, 3)
        family = "falling" if name == "restored" else next(families)
        yield shape_of(number, steps, (0, 5, 9, 17), 2, token), family, 0
    for number, family in enumerate(_IN_TURN):
        token, window = TOKENS[number % len(TOKENS)], WINDOWS[number % len(WINDOWS)]
        yield shape_of(0, 2, (2, 9, 8, 33), window, token), family, 0
    yield shape_of(0, 2, (0, 1, 1, 1), 1, HYBRID + "b16"), "ordinary", 0
    yield shape_of(0, 1, (0, 16, 70, 65), 2, HYBRID + "b16", View("x", offset=1)), "outlier", 0
    yield shape_of(0, 1, (0, 65, 16, 8), 2, HYBRID), "cancellation", 0
    for extents in ((0, 0, 4, 4), (0, 4, 0, 4), (0, 4, 4, 0)):
        yield shape_of(0, 1, extents, 2, HYBRID), "zeros", 0
    yield shape_of(0, 1, (0, 4, 4, 4), 0, HYBRID), "zeros", 0
    yield shape_of(QUANTISED, 1, (0, 4, 4, 4), 2, HYBRID), "ordinary", 0
    yield shape_of(0, 2, (0, 2 * STRANDS, 20, 9), 2, HYBRID + "b16"), "roundings", 0
    yield shape_of(0, 2, (0, 9, 8, 17), WIDE_WINDOW, HYBRID), "small", 0


def _full(contract: str) -> Iterator[tuple[Shape, str, int]]:
    families, windows, extents = cycle(_IN_TURN), cycle(WINDOWS), cycle(((0, 5, 9, 17), (3, 4, 16, 8), (0, 33, 7, 40)))
    programs = [number for number, _ in _programs(contract)]
    for program, token in product(programs, TOKENS):
        one = _token(contract, program, token)
        yield shape_of(program, 6, next(extents), next(windows), one), next(families), 0
    for program, family in product(programs, _IN_TURN):
        one = _token(contract, program, HYBRID)
        yield shape_of(program, 6 if program == len(PROGRAMS) - 1 else 4, (0, 6, 5, 7), 2, one), family, 1
    for edge in (1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129):
        for sizes in ((0, edge, 12, 20), (0, 12, edge, 20), (0, 12, 20, edge)):
            yield shape_of(0, 1, sizes, 2, HYBRID + "b16"), "ordinary", 0
    for window in WINDOWS:
        yield shape_of(0, window + 5, (0, 4, 4, 4), window, HYBRID), "ordinary", window
    for offset, tensor in product(range(1, 9), "xwg" if contract == BACKWARD else "xw"):
        yield shape_of(0, 1, (0, 8, 16, 24), 2, HYBRID, View(tensor, offset=offset)), "ordinary", 0
