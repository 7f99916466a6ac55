"""Which of ninfer's two FP8 GEMM kernels runs: a comparison of two costs that are quantised differently.

The TMA kernel puts one CTA of 256 tokens on an SM, the cp.async kernel two of 64. With b row blocks of 128 rows

    TMA        waves = ceil(b · ceil(T / 256) / SMs)          cost = waves · 256 · 0.936
    cp.async   waves = ceil(b · ceil(T / 64) / (2 · SMs))     cost = waves · 128

and the TMA kernel is taken if its cost is below 0.98 of the other, both in float64 as the source has it. Example,
14,336 rows (b = 112) on 170 SMs, T = 1,024: 448 blocks are 3 waves, 718.8; 1,792 are 6 waves, 768; 718.8 < 752.6, so
TMA. T = 1,088: 560 blocks are 4 waves, 958.5; 1,904 are 6 waves, 768; so cp.async.

Before the costs come the conditions that `Decline` lists, in the source's order. Only ceil(T / 256), ceil(T / 64) and
the thresholds depend on T, so the verdict is constant between neighbouring multiples of 64.

float64 decides as exact arithmetic would: costs tie where the waves are 245 : 468, and then neither takes the route;
elsewhere they differ by more than 1 part in 10^12.

Source: Neroued/ninfer src/ops/linear/fp8/fp8_a8_schedule.cuh @1ba31703; the constants are in `routing_calibration`.
"""

from enum import Enum

from tileproof.oracle.arguments import whole, wholes
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes.coverage import Band, Interval, bands, reaching
from tileproof.oracle.routes.routing_calibration import (
    CP_ASYNC_SCHEDULE,
    TMA_SCHEDULE,
    VOCABULARY,
    Calibration,
    GemmSchedule,
    Geometry,
    find_calibration,
)

#: What a tensor map wants of a global address, in bytes.
ADDRESS_ALIGNMENT = 16

#: Token tiles stand on grid.y.
MAX_GRID_Y = 65535

_INT32_MAX = 2**31 - 1


class Decline(Enum):
    """Why the TMA kernel is not taken, in the order of the tests; the value says it in words.

    The port asks for the width first; that changes the reason told, never the verdict.
    """

    NO_ROUTE = "the geometry has no A8 route"
    NOT_TILED = "rows or K are no whole tiles of the TMA kernel"
    SHORT_K = "K does not fill the stages of the TMA kernel"
    ADDRESS = "an operand is null or not aligned to 16 bytes"
    SCALE_ADDRESS = "the weight scales are not aligned as the calibration wants"
    TOO_NARROW = "fewer tokens than the calibration's floor"
    TOO_WIDE = "more tokens than the calibration's ceiling for this geometry"
    PARTIAL_TILE = "the tokens are no whole tiles of the cp.async kernel"
    GRID = "more token tiles than grid.y can hold"
    UNKNOWN_DEVICE = "the number of SMs is not known"
    NOT_CHEAPER = "the modelled cost is not lower by the margin"


class LinearRoute(Enum):
    """What computes a linear layer with FP8 weights."""

    A16 = "bf16 activations"
    CP_ASYNC = "FP8 activations, cp.async kernel"
    TMA = "FP8 activations, TMA kernel"


def fp8_a8_tma_applies(
    out_features: int, in_features: int, tokens: int, sm_count: int, calibration: str = "rtx5090"
) -> bool:
    """Whether ninfer's TMA kernel is taken for operands at aligned addresses.

    Args:
        out_features: N, rows of the weight.
        in_features: K.
        tokens: T, 0 .. 2^31 - 1.
        sm_count: SMs of the device; 0 or less means unknown, which declines.
        calibration: a name of `routing_calibration.CALIBRATIONS`.

    Raises:
        Refusal: an argument that is no whole number, N or K below 1, T out of range, or an unknown calibration.
    """
    return decline(out_features, in_features, tokens, sm_count, calibration) is None


def decline(
    out_features: int,
    in_features: int,
    tokens: int,
    sm_count: int,
    calibration: str = "rtx5090",
    *,
    activation_address: int = ADDRESS_ALIGNMENT,
    weight_address: int = ADDRESS_ALIGNMENT,
    weight_scale_address: int = ADDRESS_ALIGNMENT,
) -> Decline | None:
    """Why the TMA kernel is not taken; None if it is.

    A geometry that ninfer does not have is a build error there; here it has no ceiling, and the rule is applied as it
    stands. The vocabulary projection, which always runs with bf16 activations, declines.

    Args:
        out_features: as `fp8_a8_tma_applies`, like the next four.
        in_features: K.
        tokens: T.
        sm_count: SMs of the device.
        calibration: a name.
        activation_address: of the activation codes; 0 is null.
        weight_address: of the weight codes.
        weight_scale_address: of the weight scales; one calibration asks.

    Raises:
        Refusal: as `fp8_a8_tma_applies`, or a negative address.
    """
    record = find_calibration(calibration)
    out_features, in_features, tokens, sm_count = wholes(
        out_features=out_features, in_features=in_features, tokens=tokens, sm_count=sm_count
    )
    activation_address, weight_address, weight_scale_address = wholes(
        activation_address=activation_address,
        weight_address=weight_address,
        weight_scale_address=weight_scale_address,
    )
    _require(out_features, in_features, tokens, activation_address, weight_address, weight_scale_address)
    if (out_features, in_features) == (VOCABULARY.out_features, VOCABULARY.in_features):
        return Decline.NO_ROUTE
    if out_features % TMA_SCHEDULE.block_rows or in_features % TMA_SCHEDULE.block_k:
        return Decline.NOT_TILED
    if record.fills_stages and in_features // TMA_SCHEDULE.block_k < TMA_SCHEDULE.stages:
        return Decline.SHORT_K
    if not all(address and address % ADDRESS_ALIGNMENT == 0 for address in (activation_address, weight_address)):
        return Decline.ADDRESS
    if weight_scale_address % record.scale_alignment:
        return Decline.SCALE_ADDRESS
    return _decline_width(record, out_features, in_features, tokens) or _decline_cost(
        record, out_features, tokens, sm_count
    )


def is_cheaper(calibration: Calibration, out_features: int, tokens: int, sm_count: int) -> bool:
    """Whether the model finds the TMA kernel cheaper by the margin, without regard to floor and ceiling."""
    tma = float(_work(TMA_SCHEDULE, out_features, tokens, sm_count)) * calibration.work_ratio
    return tma < float(_work(CP_ASYNC_SCHEDULE, out_features, tokens, sm_count)) * (1.0 - calibration.margin)


def waves(schedule: GemmSchedule, out_features: int, tokens: int, sm_count: int) -> int:
    """How often the device is filled with CTAs.

    Raises:
        Refusal: an argument that is no whole number, or fewer than one SM.
    """
    out_features, tokens, sm_count = wholes(out_features=out_features, tokens=tokens, sm_count=sm_count)
    if sm_count < 1:
        raise Refusal(f"{sm_count} SMs cannot be filled", hint="an unknown device has no waves; `decline` says so")
    blocks = out_features // schedule.block_rows * _ceil_div(tokens, schedule.block_tokens)
    return _ceil_div(blocks, schedule.blocks_per_sm * sm_count)


def tma_coverage(
    out_features: int,
    in_features: int,
    sm_count: int,
    widths: Interval,
    calibration: str = "rtx5090",
) -> tuple[Band[bool], ...]:
    """Which widths take the TMA kernel."""
    record = find_calibration(calibration)
    out_features, in_features = wholes(out_features=out_features, in_features=in_features)
    ceiling = record.ceiling(out_features, in_features)
    thresholds = [record.min_tokens, record.always_from, ceiling + 1 if ceiling else None, _grid_limit() + 1]
    return bands(
        lambda tokens: fp8_a8_tma_applies(out_features, in_features, tokens, sm_count, calibration),
        widths,
        tiles=(CP_ASYNC_SCHEDULE.block_tokens, TMA_SCHEDULE.block_tokens),
        thresholds=[threshold for threshold in thresholds if threshold is not None],
    )


def tma_widths(
    out_features: int, in_features: int, sm_count: int, widths: Interval, calibration: str = "rtx5090"
) -> tuple[Interval, ...]:
    """The widths that take the TMA kernel."""
    return reaching(tma_coverage(out_features, in_features, sm_count, widths, calibration), True)


def linear_route(
    geometry: Geometry, tokens: int, sm_count: int, *, adds_residual: bool = False, calibration: str = "rtx5090"
) -> LinearRoute:
    """The kernel of one of ninfer's projections.

    Args:
        geometry: which projection.
        tokens: T, at least 1.
        sm_count: SMs of the device.
        adds_residual: `linear_add` instead of `linear`.
        calibration: a name.

    Raises:
        Refusal: T below 1, or a projection that `linear_add` does not have.
    """
    tokens = whole("tokens", tokens)
    if tokens < 1:
        raise Refusal(f"{tokens} tokens need no route", hint="T is at least 1")
    first = geometry.a8_add_from if adds_residual else geometry.a8_from
    if adds_residual and first is None:
        raise Refusal(f"linear_add has no projection {geometry.name}", hint="it has residual_6144 and residual_17408")
    also = frozenset() if adds_residual else geometry.a8_also
    if first is None or (tokens < first and tokens not in also):
        return LinearRoute.A16
    taken = fp8_a8_tma_applies(geometry.out_features, geometry.in_features, tokens, sm_count, calibration)
    return LinearRoute.TMA if taken else LinearRoute.CP_ASYNC


def linear_coverage(
    geometry: Geometry,
    sm_count: int,
    widths: Interval,
    *,
    adds_residual: bool = False,
    calibration: str = "rtx5090",
) -> tuple[Band[LinearRoute], ...]:
    """Which widths of a projection reach which kernel."""
    tma = tma_coverage(geometry.out_features, geometry.in_features, sm_count, widths, calibration)
    firsts = [geometry.a8_from, geometry.a8_add_from, *geometry.a8_also, *(width + 1 for width in geometry.a8_also)]
    return bands(
        lambda tokens: linear_route(geometry, tokens, sm_count, adds_residual=adds_residual, calibration=calibration),
        widths,
        thresholds=[*(first for first in firsts if first is not None), *(band.widths.first for band in tma)],
    )


def _decline_width(record: Calibration, out_features: int, in_features: int, tokens: int) -> Decline | None:
    if tokens < record.min_tokens:
        return Decline.TOO_NARROW
    ceiling = record.ceiling(out_features, in_features)
    if ceiling is not None and tokens > ceiling:
        return Decline.TOO_WIDE
    if record.whole_tiles and tokens % CP_ASYNC_SCHEDULE.block_tokens:
        return Decline.PARTIAL_TILE
    return Decline.GRID if tokens > _grid_limit() else None


def _decline_cost(record: Calibration, out_features: int, tokens: int, sm_count: int) -> Decline | None:
    if record.always_from is not None and tokens >= record.always_from:
        return None
    if sm_count <= 0:
        return Decline.UNKNOWN_DEVICE
    return None if is_cheaper(record, out_features, tokens, sm_count) else Decline.NOT_CHEAPER


def _work(schedule: GemmSchedule, out_features: int, tokens: int, sm_count: int) -> int:
    """Tokens that one SM carries through all waves."""
    return waves(schedule, out_features, tokens, sm_count) * schedule.blocks_per_sm * schedule.block_tokens


def _grid_limit() -> int:
    """The widest width whose token tiles fit grid.y."""
    return MAX_GRID_Y * TMA_SCHEDULE.block_tokens


def _require(out_features: int, in_features: int, tokens: int, *addresses: int) -> None:
    if out_features < 1 or in_features < 1:
        raise Refusal(f"a weight of {out_features} x {in_features} is empty", hint="N and K are at least 1")
    if not 0 <= tokens <= _INT32_MAX:
        raise Refusal(f"{tokens} tokens are outside 0..{_INT32_MAX}, an int32", hint="split the batch")
    if min(addresses) < 0:
        raise Refusal(f"address {min(addresses)} is negative", hint="pass the device pointer as an unsigned number")


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
