"""quantize_rows gives the bits of the exact definition, and the definition gives the bits of ninfer's formula."""

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import E4M3FN, FLOAT32, source_format
from tileproof.oracle.quantize import MAX_NORM, quantize_row, quantize_rows
from tileproof.oracle.refusal import Refusal

Rows = npt.NDArray[Any]
Float32s = npt.NDArray[np.float32]
Result = tuple[npt.NDArray[np.uint8], Float32s]

DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)

NAN, INF = float("nan"), float("inf")
SMALLEST = 2.0**-149


def cast(values: npt.ArrayLike, dtype: Any) -> Rows:
    with np.errstate(all="ignore"):
        return np.asarray(values, np.float64).astype(np.float32).astype(dtype)


def special_rows(dtype: Any) -> Rows:
    """[T, 8]: zeros, infinities, NaN, tiny rows on both sides of each edge, one giant among tiny, the type's ends."""
    tail = [1.0, -1.0, 0.0, -0.0]
    edges = [SMALLEST, 2.0**-133, 2.0**-24, 2.0**-14, 2.0**-126, 65504.0, 3.38e38, 3.4028234663852886e38]
    edges += [n * SMALLEST for n in (2, 224, 225, 447, 448, 449, 672)]  # where amax / 448 becomes 0, 1 and 2 units
    edges += [448 * 2.0**-128 * (1 + step * 2.0**-23) for step in (-8, -1, 0, 1, 8)]  # where 1 / scale becomes Inf
    edges += [448 * 2.0**-126 * (1 + step * 2.0**-23) for step in (-1, 0, 1)]
    rows = [[0.0] * 8, [-0.0] * 8, [NAN] * 8, [NAN, 0.0, -0.0, *tail[2:], NAN, 0.0, 0.0]]
    rows += [[INF, -INF, NAN, 3.0, *tail], [-INF, 2.0**-20, -3.0, 448.0, *tail], [NAN, 5.0, -7.0, 2.0, *tail]]
    for edge in edges:
        rows.append([edge, -edge, edge / 2, -edge / 3, 0.0, -0.0, edge / 1000, NAN])
        rows.append([-edge, edge / 448, edge / 449, edge / 2**9, -edge / 2**18, edge, SMALLEST, -SMALLEST])
    return cast(rows, dtype)


def nan_rows(dtype: Any) -> Rows:
    """Quiet, signalling and negative NaN, with payloads; a 2 beside them."""
    bits = {2: [0x7FC0, 0xFFC1, 0x7F81, 0xFFFF], 4: [0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF]}
    half = [0x7E00, 0xFE01, 0x7C01, 0xFFFF]
    size = np.dtype(dtype).itemsize
    nans = np.array(half if dtype is np.float16 else bits[size], f"u{size}").view(dtype)
    return np.stack([np.concatenate([nans, cast([2.0, -1.0, 0.0, -0.0], dtype)]), np.tile(nans, 2)])


def tie_rows(dtype: Any) -> Rows:
    """[16, 762]: all values and midpoints of E4M3FN and the source's next values around them, in rows whose amax sets
    the scale to 1, to powers of two, and to numbers whose inverse rounds. amax = 49 and 105 (scales 7/64 and 15/64) are
    there because exact ties x / scale become x · inverse beside the tie, in float16 and bfloat16 too."""
    values = E4M3FN.decode(np.arange(0x7F))
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    unsigned = f"u{np.dtype(dtype).itemsize}"
    rows = []
    for amax in (448.0, 3.5, 1792.0, 449.0, 3.0, 1.0, 49.0, 105.0):
        scaled = cast(points * (amax / 448.0), dtype).view(unsigned)
        near = np.concatenate([scaled, scaled + 1, np.where(scaled > 0, scaled - 1, 0)]).astype(unsigned).view(dtype)
        row = np.concatenate([cast([amax], dtype), near[np.abs(near.astype(np.float32)) <= np.float32(amax)]])
        rows.append(np.resize(row, 762))
        rows.append(np.resize(-row, 762))
    return np.stack(rows)


def random_rows(dtype: Any) -> Rows:
    """[40, 33]: random bit patterns, and normal values at random scales."""
    rng = np.random.default_rng(1)
    size = np.dtype(dtype).itemsize
    bits = rng.integers(0, 2 ** (8 * size), (20, 33), np.uint64).astype(f"u{size}").view(dtype)
    return np.concatenate([bits, cast(rng.standard_normal((20, 33)) * 2.0 ** rng.integers(-150, 120, (20, 1)), dtype)])


ROWS: dict[str, Callable[[Any], Rows]] = {
    "specials": special_rows,
    "nans": nan_rows,
    "ties": tie_rows,
    "random": random_rows,
}


def by_definition(x: Rows) -> Result:
    source = source_format(x.dtype)
    rows = [quantize_row([source.number(bits) for bits in row]) for row in x.view(source.code_dtype).tolist()]
    codes = np.array([codes for codes, _ in rows], np.uint8).reshape(x.shape)
    return codes, np.array([scale for _, scale in rows], np.uint32).view(np.float32)


@pytest.mark.parametrize("family", ROWS)
@each_dtype
def test_the_array_twin_gives_the_bits_of_the_definition(dtype: Any, family: str) -> None:
    x = ROWS[family](dtype)
    codes, scales = by_definition(x)
    result = quantize_rows(x)
    assert result.codes.dtype == np.uint8
    assert result.scales.dtype == np.float32
    assert (result.scales.view(np.uint32) == scales.view(np.uint32)).all()
    wrong = np.argwhere(result.codes != codes)
    assert not wrong.size, [(x[t, k], hex(result.codes[t, k]), hex(codes[t, k])) for t, k in wrong[:5]]


@pytest.mark.parametrize(
    ("row", "scale", "codes"),
    [
        ([1.0, 3.0], float.fromhex("0x1.b6db6ep-8"), [0x71, 0x7E]),
        ([448.0, -448.0, 17.0, 19.0, -0.0], 1.0, [0x7E, 0xFE, 0x58, 0x5A, 0x80]),
        ([0.0, -0.0, 0.0], 0.0, [0x00, 0x80, 0x00]),
        ([NAN, NAN], 0.0, [0x7F, 0x7F]),
        ([NAN, 448.0, 0.0], 1.0, [0x7F, 0x7E, 0x00]),
        ([INF, 1.0, -1.0, -INF, NAN, -0.0], INF, [0x7F, 0x00, 0x80, 0x7F, 0x7F, 0x80]),
        ([SMALLEST, -SMALLEST, 0.0], 0.0, [0x00, 0x80, 0x00]),
        ([224 * SMALLEST, -SMALLEST, NAN], 0.0, [0x00, 0x80, 0x7F]),  # a tie, to the even float: 0
        ([225 * SMALLEST, -SMALLEST, 0.0, -0.0], SMALLEST, [0x7E, 0xFE, 0x7F, 0x7F]),  # 1 / scale is Inf
        ([448 * 2.0**-128, -SMALLEST, 0.0], 2.0**-128, [0x7E, 0xFE, 0x7F]),
        ([448 * 2.0**-127, -SMALLEST, 0.0], 2.0**-127, [0x7E, 0x80, 0x00]),
    ],
)
def test_known_rows(row: list[float], scale: float, codes: list[int]) -> None:
    result = quantize_rows(np.array([row], np.float32))
    assert result.scales.tolist() == [scale]
    assert result.codes[0].tolist() == codes
    assert by_definition(np.array([row], np.float32))[0][0].tolist() == codes


def test_the_finite_codes_are_all_reached() -> None:
    reached = set(quantize_rows(tie_rows(np.float32)).codes.ravel().tolist())
    assert reached == set(range(256)) - {0x7F, 0xFF}


@each_dtype
def test_codes_are_those_of_ml_dtypes_on_a_large_matrix(dtype: Any) -> None:
    """An independent route: ml_dtypes' cast after a clip; the products stay numpy's."""
    x = cast(np.random.default_rng(2).standard_normal((128, 1000)), dtype)
    wide = x.astype(np.float32)
    scales = np.abs(wide).max(axis=1) / np.float32(448)
    products = wide * (np.float32(1) / scales)[:, None]
    result = quantize_rows(x)
    assert (result.scales == scales).all()
    assert (result.codes == np.clip(products, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)).all()


# numpy's float32 operations, which quantize_rows relies on.


def float32_patterns(count: int, seed: int) -> Float32s:
    return np.random.default_rng(seed).integers(0, 2**32, count, np.uint64).astype(np.uint32).view(np.float32)


def same_float32(one: Float32s, other: npt.NDArray[Any]) -> bool:
    nan = np.isnan(one)
    return bool(((one.view(np.uint32) == other) | nan).all() and (nan == np.isnan(other.view(np.float32))).all())


def test_numpy_multiplies_float32_with_one_rounding() -> None:
    """The product of two float32 is exact in float64 (48 bits, exponents in range), so one encode rounds it once."""
    a, b = float32_patterns(100_000, 3), float32_patterns(100_000, 4)
    with np.errstate(all="ignore"):
        assert same_float32(a * b, FLOAT32.encode(a.astype(np.float64) * b.astype(np.float64), overflow="inf"))


def test_numpy_divides_float32_with_one_rounding() -> None:
    """A float64 quotient of two float32 rounds to the float32 that the exact one rounds to.

    A float32 midpoint m has at most 25 bits. If a / b is not m itself, then |a - m·b| is at least one unit of the last
    place of m·b (49 bits), so a / b is at least 2^-49 of its size away from m: float64's error, 2^-53, cannot reach m.
    """
    a, b = float32_patterns(100_000, 5), float32_patterns(100_000, 6)
    small = np.arange(1, 50_000, dtype=np.uint32).view(np.float32)
    one, norm = np.ones(1, np.float32), np.full(1, MAX_NORM, np.float32)
    with np.errstate(all="ignore"):
        for top, bottom in ((a, b), (a, norm), (small, norm), (one, a), (one, small)):
            exact = top.astype(np.float64) / bottom.astype(np.float64)
            assert same_float32(top / bottom, FLOAT32.encode(exact, overflow="inf"))


@contextmanager
def subnormals_flushed() -> Iterator[None]:
    """Sets FTZ and DAZ in this thread's MXCSR, as a library built with -ffast-math does when it is loaded."""
    libm = ctypes.CDLL("libm.so.6")
    saved, changed = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    libm.fegetenv(saved)
    mxcsr = int.from_bytes(saved.raw[28:32], "little") | 0x8040
    changed.raw = saved.raw[:28] + mxcsr.to_bytes(4, "little")
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(saved)


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the switch is set through glibc on x86-64"
)
def test_a_process_that_flushes_subnormals_is_refused() -> None:
    x = np.ones((1, 1), np.float32)
    with subnormals_flushed(), pytest.raises(Refusal, match="flushes subnormal floats"):
        quantize_rows(x)
    assert quantize_rows(x).codes.tolist() == [[0x7E]]


# Shapes and refusals.


@each_dtype
def test_no_rows_give_empty_arrays(dtype: Any) -> None:
    result = quantize_rows(np.zeros((0, 5), dtype))
    assert result.codes.shape == (0, 5)
    assert result.codes.dtype == np.uint8
    assert result.scales.shape == (0,)
    assert result.scales.dtype == np.float32


@each_dtype
def test_strides_and_byte_order_do_not_matter_and_the_input_stays(dtype: Any) -> None:
    x = cast(np.random.default_rng(8).standard_normal((6, 10)), dtype)
    before = x.tobytes()
    expected = quantize_rows(np.ascontiguousarray(x[::-2, 1::3]))
    views = [x[::-2, 1::3], np.asfortranarray(x)[::-2, 1::3]]
    if dtype is not ml_dtypes.bfloat16:
        views.append(x.astype(np.dtype(dtype).newbyteorder(">"))[::-2, 1::3])
    for view in views:
        result = quantize_rows(view)
        assert (result.codes == expected.codes).all()
        assert (result.scales == expected.scales).all()
    assert x.tobytes() == before


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 3), np.float64), "x has type float64"),
        (np.zeros((2, 3), np.int32), "x has type int32"),
        (np.zeros((2, 3), np.bool_), "x has type bool"),
        (np.zeros((2, 3), ml_dtypes.float8_e4m3fn), "x has type float8_e4m3fn"),
        (np.zeros((2, 3), object), "x has type object"),
        (np.zeros(3, np.float32), r"x has shape \(3,\); quantize_rows takes rank 2"),
        (np.float32(1), r"x has shape \(\)"),
        (np.zeros((1, 2, 3), np.float32), r"x has shape \(1, 2, 3\)"),
        (np.zeros((2, 0), np.float32), "x has K = 0 columns"),
        (np.zeros((0, 0), np.float16), "x has K = 0 columns"),
    ],
)
def test_what_is_no_matrix_of_rows_is_refused(x: Rows, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        quantize_rows(x)


# Faulty quantisers.


@dataclass(frozen=True)
class Model:
    """ninfer's formula step by step, each step replaceable. A fault replaces one."""

    amax: Callable[[Float32s], Float32s] = lambda x: np.fmax.reduce(np.abs(x), axis=1, initial=0, keepdims=True)
    scale: Callable[[Float32s], Float32s] = lambda amax: amax / np.float32(MAX_NORM)
    inverse: Callable[[Float32s, Float32s], Float32s] = lambda scale, amax: np.float32(1) / scale
    product: Callable[[Float32s, Float32s, Float32s], Float32s] = lambda x, inverse, scale: x * inverse
    encode: Callable[[Float32s], npt.NDArray[np.uint8]] = E4M3FN.encode

    def __call__(self, x: Rows) -> Result:
        with np.errstate(all="ignore"):
            wide = x.astype(np.float32)
            amax = self.amax(wide)
            scale = np.where(amax > 0, self.scale(amax), np.float32(0))
            inverse = np.where(scale > 0, self.inverse(scale, amax), np.float32(0))
            return self.encode(self.product(wide, inverse, scale)), scale[:, 0]


def flush(x: Float32s) -> Float32s:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def divide(x: Float32s, inverse: Float32s, scale: Float32s) -> Float32s:
    divisor: Float32s = np.where(scale > 0, scale, np.float32(np.inf)).astype(np.float32)
    return np.divide(x, divisor, dtype=np.float32)


def keep_nan_sign(products: Float32s) -> npt.NDArray[np.uint8]:
    return np.where(np.isnan(products) & np.signbit(products), np.uint8(0xFF), E4M3FN.encode(products))


def half_away(products: Float32s) -> npt.NDArray[np.uint8]:
    up = np.nextafter(products, np.copysign(np.float32(np.inf), products))
    return np.where(np.isfinite(products), E4M3FN.encode(up), E4M3FN.encode(products))


def nan_is_largest(products: Float32s) -> npt.NDArray[np.uint8]:
    return E4M3FN.encode(np.where(np.isnan(products), np.float32(448), products))


FAULTS: dict[str, Model] = {
    "amax with NaN kept": Model(amax=lambda x: np.max(np.abs(x), axis=1, initial=0, keepdims=True)),
    "amax without the sign cleared": Model(amax=lambda x: np.fmax.reduce(x, axis=1, initial=0, keepdims=True)),
    "amax of the first elements only": Model(
        amax=lambda x: np.fmax.reduce(np.abs(x[:, : x.shape[1] // 4 * 4 - 4]), axis=1, initial=0, keepdims=True)
    ),
    "amax of the whole matrix": Model(
        amax=lambda x: np.full((len(x), 1), np.fmax.reduce(np.abs(x), axis=None, initial=0))
    ),
    "scale by a rounded reciprocal of 448": Model(scale=lambda amax: amax * (np.float32(1) / np.float32(448))),
    "scale for 240": Model(scale=lambda amax: amax / np.float32(240)),
    "scale flushed": Model(scale=lambda amax: flush(amax / np.float32(448))),
    "inverse as 448 / amax": Model(inverse=lambda scale, amax: np.float32(448) / amax),
    "inverse one unit off": Model(inverse=lambda scale, amax: np.nextafter(1 / scale, np.float32(np.inf))),
    "inverse clamped to finite": Model(inverse=lambda scale, amax: np.minimum(1 / scale, np.float32(3.4028235e38))),
    "divide instead of reciprocal": Model(product=divide),
    "inputs flushed": Model(product=lambda x, inverse, scale: flush(x) * inverse),
    "float16 in between": Model(encode=lambda products: E4M3FN.encode(np.clip(products, -448, 448).astype(np.float16))),
    "bfloat16 in between": Model(encode=lambda products: E4M3FN.encode(products.astype(ml_dtypes.bfloat16))),
    "truncation": Model(encode=lambda products: E4M3FN.encode(products, rounding="toward-zero")),
    "half away from zero": Model(encode=half_away),
    "no saturation": Model(encode=lambda products: E4M3FN.encode(products, overflow="nan")),
    "sign of NaN kept": Model(encode=keep_nan_sign),
    "NaN as the largest code": Model(encode=nan_is_largest),
}


def right_and_model_differ(model: Model, dtype: Any) -> bool:
    for rows in ROWS.values():
        x = rows(dtype)
        right = quantize_rows(x)
        codes, scales = model(x)
        if (codes != right.codes).any() or not np.array_equal(scales.view(np.uint32), right.scales.view(np.uint32)):
            return True
    return False


@each_dtype
def test_the_model_without_a_fault_agrees(dtype: Any) -> None:
    assert not right_and_model_differ(Model(), dtype)


#: float16 rows have scales of at least 2^-33, far from where these faults show.
OUT_OF_REACH_OF_FLOAT16 = {"scale flushed", "inverse clamped to finite", "inputs flushed", "no saturation"}


@pytest.mark.parametrize(
    ("fault", "dtype"),
    [
        (fault, dtype)
        for fault in FAULTS
        for dtype in DTYPES.values()
        if not (dtype is np.float16 and fault in OUT_OF_REACH_OF_FLOAT16)
    ],
)
def test_no_faulty_quantiser_survives(fault: str, dtype: Any) -> None:
    assert right_and_model_differ(FAULTS[fault], dtype)
