"""The bound for an undeclared order: no unit passes it in any order, it is near what can happen, and not too small."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.formats import E4M3FN, FLOAT16, FloatFormat
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products import error_bound as module
from tileproof.oracle.products.accumulation_order import AccumulationOrder, KOrder, Partition, RaggedK, SplitK
from tileproof.oracle.products.error_bound import ErrorBound, UndeclaredOrder, error_bound
from tileproof.oracle.products.exact_product import exact_product
from tileproof.oracle.products.unit_losses import Loss, unit_losses
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import OPERAND_TYPES
from tileproof.oracle.units.unit import ExactSum, FusedSum, LateSum, Unit
from tileproof.oracle.units.unit_table import ENTRIES

Codes = NDArray[Any]
DEPTH = 96

WGMMA = "wgmma.m64n8k32.f32.e4m3.e4m3"
MMA = "mma.m16n8k32.f32.e4m3.e4m3"


@dataclass(frozen=True)
class Route:
    """An instruction somewhere."""

    instruction: str
    arch: str
    assembler: str
    unit: Unit

    def __str__(self) -> str:
        return f"{self.instruction}/{self.arch}/{self.assembler}"

    def declared(self, **choices: Any) -> AccumulationOrder:
        return AccumulationOrder(
            instruction=self.instruction,
            arch=self.arch,
            assembler=self.assembler,
            ragged_k=RaggedK.ZERO_FILL,
            **choices,
        )

    def undeclared(self, **choices: Any) -> UndeclaredOrder:
        return UndeclaredOrder(instruction=self.instruction, arch=self.arch, assembler=self.assembler, **choices)


def routes() -> Iterator[Route]:
    """Every float unit of the table that has exact products here, with its types, once each."""
    seen = set()
    for entry in ENTRIES:
        for accumulator, shared in entry.units.items():
            for a, b in entry.operands:
                exact = not {a, b} & {"bf16", "tf32", "f32", "f64"}
                if not isinstance(shared, FusedSum | LateSum | ExactSum) or entry.scales or not exact:
                    continue
                kind = f"kind::{entry.kinds[-1]}" if entry.kinds[-1] else ""
                words = (entry.family, str(entry.shapes[-1]), kind, accumulator, a, b)
                assembler = entry.assemblers[0] if entry.assemblers else "13.0"
                key = (shared, a, b)
                if key not in seen:
                    seen.add(key)
                    yield Route(".".join(filter(None, words)), entry.architectures[-1], assembler, shared)


ROUTES = list(routes())


def route(instruction: str, arch: str = "sm_90", assembler: str = "13.0") -> Route:
    return Route(instruction, arch, assembler, HOPPER_UNIT)


HOPPER_UNIT = next(r.unit for r in ROUTES if r.instruction.startswith("wgmma") and ".f32.e4m3.e4m3" in r.instruction)


def record_of(name: str) -> FloatFormat:
    record = OPERAND_TYPES[name].record
    assert isinstance(record, FloatFormat)
    return record


def families(a: str, b: str, largest: float, rows: int) -> Iterator[tuple[Codes, Codes]]:
    """Rows [rows, DEPTH] of A and B whose values are at most `largest`: each family asks for another kind of loss."""
    rng = np.random.default_rng(99)
    shape = (rows, DEPTH)

    def encoded(*values: NDArray[np.float64]) -> tuple[Codes, Codes]:
        x, y = (np.clip(v, -largest, largest) for v in values)
        return record_of(a).encode(x), record_of(b).encode(y)

    def exponents(low: int, high: int) -> NDArray[np.float64]:
        return np.ldexp(rng.choice([-1.0, 1.0], shape) * rng.uniform(1, 2, shape), rng.integers(low, high, shape))

    yield encoded(rng.standard_normal(shape), rng.standard_normal(shape))
    yield encoded(exponents(-20, 9), exponents(-20, 9))
    yield encoded(exponents(-16, -5), exponents(-16, 9))  # subnormals of the narrow types
    giant = exponents(-8, 0)
    giant[:, 0] = largest
    yield encoded(giant, giant)
    positive = np.abs(exponents(-7, 3))
    positive[:, 0] = largest
    yield encoded(positive, positive[::-1])
    cancelling = exponents(-4, 4)
    cancelling[:, 1::2] = -cancelling[:, 0::2]
    yield encoded(cancelling, np.repeat(exponents(-4, 4)[:, ::2], 2, axis=1))


def largest_value(r: Route) -> float:
    """So that a float16 accumulator cannot overflow, subnormals counted as the smallest normal value."""
    words = r.instruction.split(".")
    limits = [float(record_of(name).number(record_of(name).max_code).magnitude) for name in words[-2:]]
    return min([*limits, 24.0]) if words[-3] == "f16" else min(limits)


@pytest.mark.parametrize("r", ROUTES, ids=str)
def test_no_unit_passes_the_bound_in_any_order(r: Route) -> None:
    k = r.declared().parsed.shape.k
    orders = [
        (r.declared(), r.undeclared()),
        (r.declared(k_order=KOrder.DESCENDING), r.undeclared()),
        (r.declared(promotion=2 * k), r.undeclared(chains=-(-DEPTH // (2 * k)), longest_chain=2 * k)),
        (
            r.declared(split_k=SplitK(parts=3, tile=k, partition=Partition.INTERLEAVED)),
            r.undeclared(chains=3),
        ),
    ]
    shuffled = np.random.default_rng(5).permutation(DEPTH)
    types = r.declared().parsed.operands
    rows = 2 if isinstance(r.unit, ExactSum) else 4  # AMD's units have no compiled twin
    for a, b in families(*types, largest_value(r), rows):
        for declared, undeclared in orders:
            for x, y in ((a, b), (a[:, shuffled], b[:, shuffled])):
                bound = error_bound(undeclared, x, y)
                assert bound.contains(gemm(declared, x, y)).all(), (declared, x, y)


@pytest.mark.parametrize("r", [r for r in ROUTES if not isinstance(r.unit, ExactSum)], ids=str)
def test_the_term_with_the_largest_exponent_is_never_cut(r: Route) -> None:
    """Step 1 of the proof counts on it: L losses a group, not L + 1."""
    unit = r.unit.unit if isinstance(r.unit, LateSum) else r.unit
    assert isinstance(unit, FusedSum)
    parsed = r.declared().parsed
    product = 20 if isinstance(r.unit, LateSum) else parsed.a.fraction_bits + parsed.b.fraction_bits
    assert unit.fraction_bits >= max(product, unit.conversion.kept_bits)


def relative_error(order: AccumulationOrder, undeclared: UndeclaredOrder, a: Codes, b: Codes) -> NDArray[np.float64]:
    """|result - exact| / bound for pairs of rows, a and b [pairs, K]."""
    bound = error_bound(undeclared, a[:, np.newaxis], b[:, np.newaxis])
    result = gemm(order, a[:, np.newaxis], b[:, np.newaxis])
    assert bound.contains(result).all()
    lost = np.abs(result.astype(np.float64) - bound.product.values())
    return np.divide(lost, bound.values(), out=np.zeros_like(lost), where=lost > 0)[:, 0, 0]


def pair(depth: int, first: float, rest: tuple[float, float]) -> tuple[Codes, Codes]:
    """One product first · first, then rest[0] · rest[1] in all other places."""
    values = np.full((2, 1, depth), 0.0)
    values[0, 0], values[1, 0] = rest
    values[:, 0, 0] = first
    return E4M3FN.encode(values[0]), E4M3FN.encode(values[1])


def late_pair(depth: int) -> tuple[Codes, Codes]:
    """2^16, then 2^-8 once an instruction: half of the last place of 2^16, a tie that goes to even, so it is lost."""
    a, b = pair(depth, 256.0, (0.0, 0.0))
    a[0, 32::32], b[0, 32::32] = E4M3FN.encode(np.array([2.0**-4, 2.0**-4]))
    return a, b


# 63/64 of the unit that the large term is cut to: 7·9/8 beside 2^16 with 13 bits, 7/128 · 9/256 with 25.
NARROW, WIDE = (7.0, 1.125), (7 / 128, 9 / 256)


@pytest.mark.parametrize(
    ("r", "operands", "factor"),
    [
        (route(WGMMA), pair(32, 256.0, NARROW), 1.09),
        (route(WGMMA), pair(256, 256.0, NARROW), 1.07),
        (route(WGMMA), pair(4096, 256.0, NARROW), 1.23),
        (route(WGMMA), pair(17408, 256.0, NARROW), 1.32),
        (route(MMA, "sm_89"), pair(32, 256.0, NARROW), 1.12),
        (route(MMA, "sm_89"), pair(17408, 256.0, NARROW), 1.33),
        (route(MMA, "sm_120"), pair(32, 256.0, WIDE), 1.19),
        (route(MMA, "sm_120"), pair(17408, 256.0, WIDE), 1.15),
        (route(MMA), pair(32, 256.0, WIDE), 1.38),
        (route(MMA), late_pair(4096), 1.18),
        (route(MMA), late_pair(17408), 1.05),
        (route(MMA, assembler="12.6"), late_pair(17408), 1.05),
    ],
    ids=lambda value: str(value) if isinstance(value, Route) else "",
)
def test_the_bound_is_close_to_a_constructed_worst_case(r: Route, operands: tuple[Codes, Codes], factor: float) -> None:
    assert relative_error(r.declared(), r.undeclared(), *operands).item() > 1 / factor


def climb(r: Route, a: Codes, b: Codes, rounds: int) -> float:
    """The largest |error| / bound that random changes of codes reach from one pair of rows."""
    rng = np.random.default_rng(0)
    best = relative_error(r.declared(), r.undeclared(), a, b).item()
    for _ in range(rounds):
        rows = [np.repeat(codes, 64, axis=0) for codes in (a, b)]
        for codes in rows:
            changed = rng.random(codes.shape) < 1.5 / codes.shape[1]
            near, anywhere = codes + rng.integers(-2, 3, codes.shape), rng.integers(0, 256, codes.shape)
            new = np.where(rng.random(codes.shape) < 0.3, anywhere, near) & 0xFF
            codes[changed] = new[changed]
            codes[codes & 0x7F == 0x7F] ^= 1
        reached = relative_error(r.declared(), r.undeclared(), *rows)
        top = int(reached.argmax())
        if reached[top] > best:
            best, a, b = reached[top], rows[0][top : top + 1], rows[1][top : top + 1]
    return best


@pytest.mark.parametrize("rounds", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("r", "start"), [(route(WGMMA), NARROW), (route(MMA), WIDE)], ids=str)
def test_a_search_comes_close_to_the_bound_and_never_passes_it(
    r: Route, start: tuple[float, float], rounds: int
) -> None:
    reached = climb(r, *pair(32, 256.0, start), rounds)
    assert 1 / 1.38 < reached <= 1


# Bounds that are too small: each forgets one thing that the proof counts, and a probe must pass it.


def without(index: int) -> Callable[..., tuple[Loss, ...]]:
    return lambda *arguments: tuple(loss for i, loss in enumerate(unit_losses(*arguments)) if i != index)


def subnormal_leads() -> tuple[Codes, Codes]:
    """2^-9 · 448 has exponent 2 but is 0.875; beside it 126 · 2^-18 is cut to 0."""
    a, b = pair(32, 1.0, (7 * 2.0**-9, 9 * 2.0**-8))
    a[0, 0], b[0, 0] = 0x01, 0x7E
    return a, b


def two_products() -> tuple[Codes, Codes]:
    """1 + 1.5 · 2^-24: 25 fraction bits hold it, 23 do not."""
    values = FLOAT16.encode(np.array([[[1.0, 1.5 * 2.0**-12]], [[1.0, 2.0**-12]]]))
    return values[0], values[1]


def cancelling() -> tuple[Codes, Codes]:
    a, b = pair(64, 256.0, NARROW)
    a[0, 63], b[0, 63] = a[0, 0] ^ 0x80, b[0, 0]
    return a, b


F16 = "mma.m16n8k16.f32.f16.f16"
TOO_SMALL: dict[str, tuple[Route, dict[str, int], tuple[Codes, Codes], dict[str, Any]]] = {
    "the cuts forgotten": (route(WGMMA), {}, pair(32, 256.0, NARROW), {"unit_losses": without(0)}),
    "the conversion forgotten": (route(F16), {}, two_products(), {"unit_losses": without(1)}),
    "the late additions forgotten": (route(MMA), {}, late_pair(4096), {"unit_losses": without(3)}),
    "the additions outside forgotten": (
        route(MMA),
        {"chains": 128, "longest_chain": 32},
        late_pair(4096),
        {"unit_losses": without(4)},
    ),
    "subnormals not raised": (route(WGMMA), {}, subnormal_leads(), {"_raised": lambda x: np.abs(x.integers)}),
}


@pytest.mark.parametrize("name", TOO_SMALL)
def test_a_bound_that_forgets_a_loss_is_passed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r, choices, operands, replaced = TOO_SMALL[name]
    promotion = choices.get("longest_chain")
    result = gemm(r.declared(promotion=promotion), *operands)
    assert error_bound(r.undeclared(**choices), *operands).contains(result).all()
    for attribute, value in replaced.items():
        monkeypatch.setattr(module, attribute, value)
    module._total.cache_clear()
    assert not error_bound(r.undeclared(**choices), *operands).contains(result).any()


@pytest.mark.parametrize(
    ("order", "operands"),
    [
        (route(WGMMA).undeclared(longest_chain=32), pair(256, 256.0, NARROW)),
        (route(MMA, "sm_120").undeclared(), pair(256, 256.0, NARROW)),
        (route(MMA).undeclared(), pair(256, 256.0, NARROW)),
    ],
    ids=["a chain declared too short", "a unit of 25 bits", "the emulated form"],
)
def test_a_bound_for_something_else_is_passed(order: UndeclaredOrder, operands: tuple[Codes, Codes]) -> None:
    result = gemm(route(WGMMA).declared(), *operands)
    assert not error_bound(order, *operands).contains(result).any()


def test_the_magnitude_of_the_sum_is_no_substitute_for_the_sum_of_magnitudes() -> None:
    operands = cancelling()
    bound = error_bound(route(WGMMA).undeclared(), *operands)
    result = gemm(route(WGMMA).declared(), *operands)
    assert bound.contains(result).all()
    share = bound.error / float(error_bound(route(WGMMA).undeclared(), *pair(64, 256.0, NARROW)).product.units.item())
    of_the_sum = np.floor(np.abs(bound.product.units) * share).astype(np.int64)
    assert not ErrorBound(bound.product, of_the_sum).contains(result).any()


def test_sums_that_no_wgmma_makes_are_outside() -> None:
    """P24 at K = 128: scaled, negated, zero and a tile short."""
    rng = np.random.default_rng(2)
    a, b = (E4M3FN.encode(np.abs(rng.standard_normal((8, 128)))) for _ in range(2))
    bound = error_bound(route(WGMMA).undeclared(), a, b)
    exact = bound.product.values()
    assert bound.contains(exact.astype(np.float32)).all()
    dropped = exact_product("e4m3", "e4m3", a[:, :-32], b[:, :-32]).values()
    for wrong in (exact * 1.05, exact * 0.72, -exact, np.zeros_like(exact), dropped):
        assert not bound.contains(wrong.astype(np.float32)).any()


def test_an_interval_ends_at_float32_values_within_the_bound() -> None:
    a, b = pair(32, 256.0, NARROW)
    bound = error_bound(route(WGMMA).undeclared(), a, b)
    low, high = bound.interval()
    exact, error = bound.product.values(), bound.values()
    assert low >= exact - error > np.nextafter(low, np.float32(-np.inf))
    assert high <= exact + error < np.nextafter(high, np.float32(np.inf))
    assert bound.contains(low)
    assert bound.contains(high)
    assert not bound.contains(np.nextafter(low, np.float32(-np.inf)))
    assert not bound.contains(np.nextafter(high, np.float32(np.inf)))


def test_the_example_of_the_documentation() -> None:
    a, b = pair(32, 256.0, NARROW)
    bound = error_bound(route(WGMMA).undeclared(), a, b)
    assert bound.product.values().item() - gemm(route(WGMMA).declared(), a, b).item() == 244.125
    assert round(bound.values().item(), 1) == 264.5


def test_specials_must_be_the_exact_products() -> None:
    order = route("wgmma.m64n8k32.f32.e5m2.e5m2").undeclared()
    a, b = np.full((3, 32), 0x3C, np.uint8), np.full((1, 32), 0x3C, np.uint8)
    a[0, 3], a[1, 4] = 0x7C, 0x7E
    bound = error_bound(order, a, b)
    right = np.array([[np.inf], [np.nan], [32.0]], np.float32)
    assert bound.contains(right).all()
    assert not bound.contains(right[[1, 0, 0]]).any()
    assert not bound.contains(-right).any(where=[[True], [False], [True]])


def test_no_products_leave_only_zero() -> None:
    empty = np.zeros((1, 0), np.uint8)
    bound = error_bound(route(WGMMA).undeclared(), empty, empty)
    assert bound.contains(np.zeros((1, 1), np.float32))
    assert not bound.contains(np.full((1, 1), 2.0**-149, np.float32))


def test_sums_past_64_bits_are_bounded_alike() -> None:
    a = np.full((1, 64), 0x7B, np.uint8)
    order = route("wgmma.m64n8k32.f32.e5m2.e5m2")
    bound = error_bound(order.undeclared(), a, a)
    assert bound.error.dtype == object
    result = gemm(order.declared(), a, a)
    assert bound.contains(result)
    assert not bound.contains(result * np.float32(1.01))


ZEROS = np.zeros((1, 32), np.uint8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: route(WGMMA).undeclared(chains=0), "chains is 0; the least is 1"),
        (lambda: route(WGMMA).undeclared(longest_chain=0), "longest_chain is 0"),
        (lambda: route("wgmma.m64n8k31.f32.e4m3.e4m3").undeclared(), "no modelled"),
        (
            lambda: error_bound(route("mma.m16n8k32.s32.s8.s8").undeclared(), ZEROS.view(np.int8), ZEROS.view(np.int8)),
            "no bound is proved for the unit of mma.m16n8k32: IntegerSum",
        ),
        (
            lambda: error_bound(
                route("wgmma.m64n8k32.f16.e4m3.e4m3").undeclared(), ZEROS + np.uint8(0x7E), ZEROS + np.uint8(0x7E)
            ),
            "a float16 accumulator may overflow above 65504",
        ),
        (
            lambda: error_bound(route(WGMMA).undeclared(), ZEROS, ZEROS).contains(np.zeros((1, 1))),
            "results are float64",
        ),
        (
            lambda: error_bound(route(WGMMA).undeclared(), ZEROS, ZEROS).contains(np.zeros((2, 1), np.float32)),
            r"results are float32 \(2, 1\)",
        ),
    ],
)
def test_what_is_not_legal_is_refused_by_name(build: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        build()
