"""The integer CUDA twin of the e4m3 product against the numpy definition, on the CPU device."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH, Launch
from tileproof.kernels.reference import e4m3_gemm as launcher
from tileproof.kernels.reference.e4m3_gemm import NAME, NOT_A_NUMBER, SOURCE, Arithmetic, E4m3Gemm, twin_of
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, KOrder, RaggedK, SplitK
from tileproof.oracle.products.exact_product import exact_product
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

Codes = NDArray[np.uint8]

WGMMA = AccumulationOrder(
    instruction="wgmma.m64n128k32.f32.e4m3.e4m3", arch="sm_90a", assembler="13.0", ragged_k=RaggedK.ZERO_FILL
)
MMA = replace(WGMMA, instruction="mma.m16n8k32.f32.e4m3.e4m3")
ORDERS = {
    Arithmetic.WGMMA_SM90: WGMMA,
    Arithmetic.MMA_SM90: MMA,
    Arithmetic.MMA_SM90_EARLY: replace(MMA, assembler="12.6"),
}


@pytest.fixture(scope="module")
def module() -> CompiledModule:
    return compile_source(SOURCE, name=f"{NAME}.cu")


def defined(arithmetic: Arithmetic, a: Codes, b: Codes) -> NDArray[Any]:
    if arithmetic is not Arithmetic.EXACT:
        return gemm(ORDERS[arithmetic], a, b)
    product = exact_product("e4m3", "e4m3", a, b)
    assert product.step == launcher.UNIT_EXPONENT
    return np.where(product.special == 0, product.units, NOT_A_NUMBER)


def padded(codes: Codes, pad: int) -> Codes:
    """Rows followed by `pad` NaN codes (P9: padding must change no bit)."""
    return np.pad(codes, ((0, 0), (0, pad)), constant_values=0x7F)


def multiply(
    device: Device, twin: E4m3Gemm, arithmetic: Arithmetic, a: Codes, b: Codes, pad: int = 3
) -> tuple[NDArray[Any], Launch]:
    """Run on padded rows; what lies beside the output must stay."""
    m, n, k = len(a), len(b), a.shape[1]
    poison = device.upload(np.full((m, n + pad), -77, arithmetic.result))
    launch = twin(
        arithmetic,
        Tensor(device.upload(padded(a, pad)), a.dtype, (m, k), (k + pad, 1)),
        Tensor(device.upload(padded(b, pad + 1)), b.dtype, (n, k), (k + pad + 1, 1)),
        Tensor(poison, arithmetic.result, (m, n), (n + pad, 1)),
    )
    written = poison.download()
    assert np.all(written[:, n:] == -77)
    return written[:, :n], launch


def bits(values: NDArray[Any]) -> NDArray[Any]:
    return values.view(f"u{values.dtype.itemsize}")


def wide(rows: int, depth: int, seed: int) -> Codes:
    """Finite codes of every exponent and sign."""
    codes = np.random.default_rng(seed).integers(0, 256, (rows, depth), np.uint8)
    return np.where(codes & 0x7F == 0x7F, codes ^ 0x40, codes).astype(np.uint8)


def narrow(rows: int, depth: int, seed: int) -> Codes:
    """Positive codes near each other: a sum outgrows its terms, so that its conversion cuts."""
    return (wide(rows, depth, seed) & np.uint8(0x0F)) | np.uint8(0x30)


def large_first(rows: int, depth: int, seed: int) -> Codes:
    """448 first and then small codes, subnormals among them."""
    codes = wide(rows, depth, seed) & np.uint8(0x9F)
    codes[:, 0] = 0x7E
    return codes


def gaps(rows: int, depth: int, seed: int) -> Codes:
    """Tiny codes; in every other place zeros, which meet 448 in the other operand."""
    codes = (wide(rows, depth, seed) & np.uint8(0x87)) | np.uint8(0x01)
    codes[:, ::2] = 0x00 if seed == 1 else 0x7E
    return codes


def with_nan(rows: int, depth: int, seed: int) -> Codes:
    codes = wide(rows, depth, seed)
    codes[rows // 2, depth // 2] = 0xFF
    return codes


def check(device: Device, arithmetic: Arithmetic, a: Codes, b: Codes) -> None:
    result, launch = multiply(device, E4m3Gemm(device), arithmetic, a, b)
    assert launch.report is not None
    assert list(launch.report.findings) == []
    assert np.array_equal(bits(result), bits(defined(arithmetic, a, b)))


@pytest.mark.parametrize(
    ("m", "n", "k", "family"),
    [
        (1, 1, 1, wide),
        (16, 16, 32, narrow),
        (15, 17, 31, large_first),
        (17, 15, 33, with_nan),
        (33, 1, 97, wide),
        (2, 31, 64, large_first),
        (3, 4, 64, gaps),
    ],
)
@pytest.mark.parametrize("arithmetic", list(Arithmetic))
def test_results_are_the_definitions_on_whole_and_ragged_tiles(
    arithmetic: Arithmetic, m: int, n: int, k: int, family: Callable[[int, int, int], Codes]
) -> None:
    check(Device(), arithmetic, family(m, k, 1), family(n, k, 2))


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
def test_an_adversarial_schedule_changes_nothing(arithmetic: Arithmetic) -> None:
    check(Device(schedule="adversarial"), arithmetic, wide(3, 33, 1), wide(5, 33, 2))


@pytest.mark.parametrize("arithmetic", [Arithmetic.EXACT, Arithmetic.MMA_SM90])  # the two ways to decode a code
def test_every_code_times_every_positive_one_is_right(arithmetic: Arithmetic) -> None:
    device = Device()
    codes = np.arange(256, dtype=np.uint8)[:, np.newaxis]
    positive = codes[:128]
    result, _ = multiply(device, E4m3Gemm(device), arithmetic, codes, positive)
    assert np.array_equal(bits(result), bits(defined(arithmetic, codes, positive)))


def test_the_largest_sums_of_a_group_fit_their_integers() -> None:
    """The emulated unit comes within 9 % of 2^31: sixteen times 1.875² with an accumulator of the same exponent."""
    device = Device()
    twin = E4m3Gemm(device)
    top = np.full((1, 64), 0x77, np.uint8)  # 240 = 1.875 · 2^7
    for arithmetic in Arithmetic:
        for a in (top, top ^ np.uint8(0x80)):
            result, _ = multiply(device, twin, arithmetic, a, top)
            assert np.array_equal(bits(result), bits(defined(arithmetic, a, top)))


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
def test_no_products_write_zeros_and_no_outputs_launch_nothing(arithmetic: Arithmetic) -> None:
    device = Device()
    twin = E4m3Gemm(device)
    result, _ = multiply(device, twin, arithmetic, np.zeros((3, 0), np.uint8), np.zeros((5, 0), np.uint8))
    assert not bits(result).any()
    for m, n in ((0, 4), (4, 0)):
        _, launch = multiply(device, twin, arithmetic, np.zeros((m, 8), np.uint8), np.zeros((n, 8), np.uint8))
        assert launch.route == NOTHING_TO_LAUNCH


def test_unaligned_views_are_taken() -> None:
    device = Device()
    a, b = wide(3, 40, 1), wide(4, 40, 2)
    store = device.upload(np.concatenate((np.full(5, 0x7F, np.uint8), a.ravel(), b.ravel())))
    out = device.allocate((3, 4), np.float32)
    E4m3Gemm(device)(
        Arithmetic.WGMMA_SM90,
        Tensor(store, a.dtype, a.shape, (40, 1), 5),
        Tensor(store, b.dtype, b.shape, (40, 1), 5 + a.size),
        Tensor.whole(out),
    )
    assert np.array_equal(bits(out.download()), bits(gemm(WGMMA, a, b)))


# Defects of the source that the comparison above must find: (old text, new text), and the arithmetic that shows it.
FAULTS: dict[str, tuple[Arithmetic, str, str]] = {
    "floor instead of a cut by magnitude": (
        Arithmetic.WGMMA_SM90,
        "return significand < 0 ? -static_cast<int>(moved) : static_cast<int>(moved);",
        "return places >= 0 ? significand << places : significand >> min(-places, kIntBits - 1);",
    ),
    "k from the end": (
        Arithmetic.WGMMA_SM90,
        "for (Index k = 0; k < depth; k += kDepth) {",
        "for (Index k = (depth - 1) / kDepth * kDepth; k >= 0; k -= kDepth) {",
    ),
    "the last k tile dropped": (Arithmetic.EXACT, "Index k = 0; k < depth;", "Index k = 0; k + kDepth < depth;"),
    "the tail of a row read past its end": (Arithmetic.EXACT, " && first + k < depth", ""),
    "a float32 register for the 13-bit unit": (
        Arithmetic.WGMMA_SM90,
        "static constexpr int kFractionBits = 13;\n    static constexpr int kKeptBits = 13;",
        "static constexpr int kFractionBits = 13;\n    static constexpr int kKeptBits = 23;",
    ),
    "one fraction bit more": (Arithmetic.WGMMA_SM90, "kFractionBits = 13;", "kFractionBits = 14;"),
    "one fraction bit less": (Arithmetic.MMA_SM90, "kFractionBits = 25;", "kFractionBits = 24;"),
    "the accumulator not aligned with": (
        Arithmetic.WGMMA_SM90,
        "int largest = c.significand != 0 ? c.exponent : kNone;",
        "int largest = kNone;",
    ),
    "zeros aligned with": (
        Arithmetic.WGMMA_SM90,
        "if (significand_of(x) * significand_of(y) != 0) largest",
        "largest",
    ),
    "products normalised": (
        Arithmetic.WGMMA_SM90,
        "largest = max(largest, exponent_of(x) + exponent_of(y));",
        "largest = max(largest, exponent_of(x) + exponent_of(y) + "
        "(abs(significand_of(x) * significand_of(y)) >> 7 ? 1 : 0));",
    ),
    "the halves exchanged": (Arithmetic.MMA_SM90, "+ 2 * kWhich", "+ 2 - 2 * kWhich"),
    "the other assembler's expansion": (
        Arithmetic.MMA_SM90,
        "E4M3_GEMM(mma_sm90, MmaSm90<true>)",
        "E4M3_GEMM(mma_sm90, MmaSm90<false>)",
    ),
    "a 32-bit sum": (
        Arithmetic.EXACT,
        "static_cast<long long>(integer_of(a[k])) * integer_of(b[k])",
        "integer_of(a[k]) * integer_of(b[k])",
    ),
    "NaN forgotten": (Arithmetic.EXACT, "arithmetic.result(seen & kNan)", "arithmetic.result(false)"),
    "rows of B taken for rows of A": (Arithmetic.EXACT, "b_row = b_tile[threadIdx.x]", "b_row = b_tile[threadIdx.y]"),
    "the row stride ignored": (Arithmetic.EXACT, "codes[(first_row + row) * stride", "codes[(first_row + row) * depth"),
}


def alone(source: str, arithmetic: Arithmetic) -> str:
    """The source with one entry, which compiles faster."""
    return re.sub(rf"^E4M3_GEMM\((?!{arithmetic.value},).*\n", "", source, flags=re.MULTILINE)


@pytest.mark.parametrize("name", FAULTS)
def test_a_defect_of_the_source_is_found(name: str) -> None:
    arithmetic, old, new = FAULTS[name]
    assert SOURCE.count(old) == 1
    device = Device()
    twin = E4m3Gemm(device, source=alone(SOURCE.replace(old, new), arithmetic))
    for family in (wide, narrow, large_first, gaps, with_nan):
        a, b = family(5, 60, 1), family(17, 60, 2)
        result, _ = multiply(device, twin, arithmetic, a, b)
        if not np.array_equal(bits(result), bits(defined(arithmetic, a, b))):
            return
    pytest.fail("no family of inputs shows it")


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_barrier_is_a_race(which: int) -> None:
    pieces = SOURCE.split("        __syncthreads();\n")
    assert len(pieces) == 3
    kept = "        __syncthreads();\n"
    source = pieces[0] + ("" if which == 0 else kept) + pieces[1] + ("" if which == 1 else kept) + pieces[2]
    device = Device()
    source = alone(source, Arithmetic.EXACT)
    _, launch = multiply(device, E4m3Gemm(device, source=source), Arithmetic.EXACT, wide(3, 70, 1), wide(3, 70, 2))
    assert launch.report is not None
    assert "race" in {finding.kind.value for finding in launch.report.findings}


def test_the_launchers_constants_are_the_sources() -> None:
    assert f"constexpr int kTile = {launcher.TILE};" in SOURCE
    assert f"constexpr int kDepth = {launcher.DEPTH};" in SOURCE


def test_each_arithmetic_is_an_entry_of_its_own(module: CompiledModule) -> None:
    assert list(module.entries) == [f"{NAME}_{arithmetic.value}" for arithmetic in Arithmetic]


def test_no_matrix_unit_no_contraction_and_no_other_float_arithmetic_is_used(module: CompiledModule) -> None:
    assert not re.search(r"\b(mma|wgmma|fma|mad\.\w+\.f\d+|mul\.\S*f\d+|cvt\.\S*f\d+|dp4a)\b", module.ptx)
    additions = re.findall(r"\badd\.\S*f\d+", module.ptx)
    assert set(additions) == {"add.rn.f32"}
    assert ".ftz" not in module.ptx


def test_row_offsets_are_64_bit_products(module: CompiledModule) -> None:
    assert "mul.lo.s64" in module.ptx or "mad.lo.s64" in module.ptx


@pytest.mark.parametrize(("arithmetic", "order"), ORDERS.items())
def test_a_declared_order_finds_its_twin(arithmetic: Arithmetic, order: AccumulationOrder) -> None:
    assert twin_of(order) is arithmetic
    assert twin_of(replace(order, ragged_k=RaggedK.REFUSED)) is arithmetic


@pytest.mark.parametrize(
    "order",
    [
        replace(WGMMA, k_order=KOrder.DESCENDING),
        replace(WGMMA, promotion=128),
        replace(WGMMA, split_k=SplitK(parts=2, tile=32)),
        replace(WGMMA, instruction="wgmma.m64n128k32.f16.e4m3.e4m3"),
        replace(WGMMA, instruction="wgmma.m64n128k32.f32.e4m3.e5m2"),
        replace(MMA, arch="sm_89"),
        replace(MMA, instruction="mma.m16n8k16.f32.e4m3.e4m3"),
    ],
    ids=lambda order: order.instruction,
)
def test_an_order_without_a_twin_is_refused(order: AccumulationOrder) -> None:
    with pytest.raises(Refusal, match="e4m3_gemm has no twin of"):
        twin_of(order)


Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {"a": replace(t["a"], dtype=np.dtype(np.int8))}, "a has element type int8; it must be uint8"),
        (lambda t: {"a": replace(t["a"], shape=(4, 7))}, "b has K = 8, but a has K = 7"),
        (lambda t: {"out": replace(t["out"], dtype=np.dtype(np.int32))}, "out has element type int32"),
        (lambda t: {"out": replace(t["out"], shape=(4, 6))}, "out has N = 6, but b has N = 5"),
        (lambda t: {"b": replace(t["b"], strides=(7, 1))}, "b has stride 7 in dimension 0"),
        (lambda t: {"b": replace(t["b"], shape=(8,), strides=(1,))}, "b has 1 dimensions"),
        (lambda t: {"a": replace(t["a"], buffer=t["out"].buffer)}, "overlaps a"),
    ],
)
def test_what_is_not_legal_is_refused_by_name(change: Change, message: str) -> None:
    device = Device()
    tensors = {
        "a": Tensor.whole(device.upload(np.zeros((4, 8), np.uint8))),
        "b": Tensor.whole(device.upload(np.zeros((5, 8), np.uint8))),
        "out": Tensor.whole(device.allocate((4, 5), np.float32)),
    }
    with pytest.raises(Refusal, match=message):
        E4m3Gemm(device)(Arithmetic.WGMMA_SM90, **(tensors | change(tensors)))
