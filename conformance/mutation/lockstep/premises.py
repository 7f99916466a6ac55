"""What launchers promise of every launch, as numbers that a solver can take and a launch can be held to.

A legal launch keeps to all of them. `tests/conformance/test_mutation_premises.py` holds every launch of every case of
the smoke tier to them, and launchers over shapes that they take and refuse; a kernel that is not named here is given
nothing but the shape of its block.
"""

from collections.abc import Callable, Iterator, Mapping

from tileproof.conformance.mutation.lockstep.fact import Fact
from tileproof.conformance.mutation.variant import Variant
from tileproof.kernels.fp8_a8_selector import MAX_COORDINATE
from tileproof.kernels.fp8_quantize_rows import THREADS as ROW_THREADS
from tileproof.kernels.fp8_ring_seed import THREADS as SEED_THREADS
from tileproof.kernels.fp8_scale_products import MOST as MOST_SCALARS
from tileproof.kernels.fp8_scale_ring import MARGIN_LIMIT
from tileproof.kernels.int8_arms import COMBINE_THREADS, DECODE, DECODE_COLUMNS, DECODE_DEPTH, SCALAR_THREADS
from tileproof.kernels.int8_gemm import MAX_DEPTH
from tileproof.kernels.int8_layouts import WEIGHT_LAYOUTS, WeightLayout
from tileproof.kernels.int8_pack import EDGE, MAX_EXTENT, PATCH_THREADS
from tileproof.kernels.int8_pack import SCALAR_THREADS as PACK_THREADS

MOST = 2**47
"""Of elements of a tensor: no device has memory for more."""
_MOST_BLOCKS, _MOST_LINES = 2**31 - 1, 65535


def premises(variant: Variant, entry: str) -> tuple[Fact, ...]:
    """Of an entry of a variant; none where nothing is promised here."""
    promise = _PROMISES.get(variant.kernel)
    return () if promise is None else tuple(promise(variant, entry))


def _define(variant: Variant, name: str) -> str:
    return next(define.partition("=")[2] for define in variant.defines if define.startswith(f"{name}="))


def _layout(variant: Variant) -> WeightLayout:
    symbol = _define(variant, "INT8_LAYOUT")
    return next(one for one in WEIGHT_LAYOUTS.values() if one.symbol == symbol)


def _block(threads: int, blocks: int = _MOST_BLOCKS, lines: int = 1) -> Iterator[Fact]:
    for axis, extent, grid in (("x", threads, blocks), ("y", 1, lines), ("z", 1, 1)):
        yield Fact("threads of a block", extent, extent, special=f"%ntid.{axis}")
        yield Fact("blocks", 1, grid, special=f"%nctaid.{axis}")


def _blocks(extent: int, each: int) -> int:
    return -(-extent // each)


def _pack(variant: Variant, entry: str) -> Iterator[Fact]:
    layout = _layout(variant)
    vectors = entry.endswith("vector")
    deep = 1 if layout.along_n or not vectors else EDGE
    wide = EDGE if vectors else 1
    yield Fact("K", 1, MAX_EXTENT, max(layout.record.k_multiple, deep), parameter=2)
    yield Fact("N", 1, MAX_EXTENT, max(layout.record.n_multiple, wide), parameter=3)
    yield from _block(PATCH_THREADS if vectors else PACK_THREADS)


_ROWS_AT, _COLUMNS_AT, _DEPTH_AT, _SPLITS_AT = 56, 60, 64, 68
"""Of the fields of Problem in int8_problem.cuh."""


def _problem(
    layout: WeightLayout | None, rows: tuple[int, int], columns: int, depth: int, splits: tuple[int, int]
) -> Iterator[Fact]:
    """M; N and K in multiples; splits."""
    wide, deep = (layout.record.n_multiple, layout.record.k_multiple) if layout is not None else (1, 1)
    yield Fact("M", *rows, offset=_ROWS_AT)
    yield Fact("N", 1, MAX_EXTENT, max(columns, wide), offset=_COLUMNS_AT)
    yield Fact("K", 1, MAX_DEPTH, max(depth, deep), offset=_DEPTH_AT)
    yield Fact("splits", *splits, offset=_SPLITS_AT)


def _scalar(variant: Variant, entry: str) -> Iterator[Fact]:
    yield from _problem(_layout(variant), (1, _MOST_LINES), 1, 1, (0, 2**31 - 1))
    yield from _block(SCALAR_THREADS, _blocks(MAX_EXTENT, SCALAR_THREADS), _MOST_LINES)


_MOST_SPLITS = MAX_DEPTH // DECODE_DEPTH


def _decode(variant: Variant, entry: str) -> Iterator[Fact]:
    arm = next(one for one in DECODE if one.combine == _define(variant, "INT8_COMBINE"))
    rows = (1, 16) if _define(variant, "INT8_ROWS") == "16" else (17, 32)
    splits = (1, _MOST_SPLITS) if arm.takes_planes else (0, 2**31 - 1)
    yield from _problem(_layout(variant), rows, DECODE_COLUMNS, DECODE_DEPTH, splits)
    yield from _block(arm.threads, _blocks(MAX_EXTENT, DECODE_COLUMNS), splits[1] if arm.takes_planes else 1)


def _combine(variant: Variant, entry: str) -> Iterator[Fact]:
    yield from _problem(None, (1, 32), DECODE_COLUMNS, DECODE_DEPTH, (1, _MOST_SPLITS))
    yield from _block(COMBINE_THREADS, _blocks(MAX_EXTENT, 2 * COMBINE_THREADS), 32)


def _rows(variant: Variant, entry: str) -> Iterator[Fact]:
    """fp8_quantize_rows: x, its stride, codes, their stride, scales, K."""
    yield Fact("K", 1, MOST, parameter=5, bits=64)
    yield from _block(ROW_THREADS)


def _bias_gradient(variant: Variant, entry: str) -> Iterator[Fact]:
    yield Fact("R", 0, MOST, parameter=1, bits=64)
    yield Fact("C", 1, MOST, parameter=2, bits=64)


_ADDRESS = 2**62
"""No address of device memory is as high."""


def _ring_seed(variant: Variant, entry: str) -> Iterator[Fact]:
    """x, its elements, Seed."""
    yield Fact("elements of x", 1, MOST, parameter=1, bits=64)
    yield Fact("margin", -MARGIN_LIMIT, MARGIN_LIMIT, parameter=2, offset=28)
    yield Fact("window", 1, 2**31 - 1, parameter=2, offset=32)
    yield from _block(SEED_THREADS, 1)


def _scale_products(variant: Variant, entry: str) -> Iterator[Fact]:
    """Scalars: there is a first one, whose output is a float32 on its own alignment."""
    yield Fact("output of the first scalar", 4, _ADDRESS, 4, offset=8 * 2 * MOST_SCALARS, bits=64)
    yield from _block(1, 1)


def _fp8_a8(parameter: int, deepest: int = MOST) -> Callable[[Variant, str], Iterator[Fact]]:
    """Product of fp8_a8_product.cuh, a parameter of its number; the most that K may be."""

    def promise(variant: Variant, entry: str) -> Iterator[Fact]:
        paired = _define(variant, "FP8_A8_OUTPUT") == "SwiGlu"
        for words, offset, most, multiple in (
            ("T", 48, MOST, 1),
            ("N", 56, MOST, 2 if paired else 1),
            ("K", 64, deepest, 1),
        ):
            yield Fact(words, multiple, most, multiple, parameter=parameter, offset=offset, bits=64)

    return promise


def _mm_fp8(variant: Variant, entry: str) -> Iterator[Fact]:
    """Problem of mm_fp8_problem.cuh."""
    for words, offset in (("M", 48), ("N", 56), ("K", 64)):
        yield Fact(words, 1, MOST, offset=offset, bits=64)


_PROMISES: Mapping[str, Callable[[Variant, str], Iterator[Fact]]] = {
    "int8_pack": _pack,
    "int8_gemm_scalar": _scalar,
    "int8_gemm_decode": _decode,
    "int8_combine": _combine,
    "fp8_quantize_rows": _rows,
    "fp8_bias_gradient": _bias_gradient,
    "fp8_a8_gemm_fallback": _fp8_a8(0),
    "fp8_a8_gemm_cp_async": _fp8_a8(0),
    "fp8_a8_gemm_tma": _fp8_a8(1, MAX_COORDINATE),
    "fp8_ring_seed": _ring_seed,
    "fp8_scale_products": _scale_products,
    "mm_fp8": _mm_fp8,
}
