"""Launcher of fp8_quantize_tensor: a tensor by one scale to codes, transposed codes or both, its amax into a ring.

The rule is written at the head of fp8_quantize_tensor.cu, that of the ring at the head of fp8_scale_ring.cuh. Routes
give the same bits. Rows alone: "vector" needs x and the codes at 16-byte boundaries, "scalar" takes what is legal for
the types. With transposed codes: "tile-vector" needs an even number of columns, x and the codes aligned to pairs, and
whole 8-byte chunks of rows at 8-byte boundaries; "tile-scalar" takes the rest.

An empty tensor is a launch too, of one block: it publishes.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Device, Extent3
from tileproof.kernels.fp8_architecture import check_fp8
from tileproof.kernels.fp8_scale_ring import F32, ScaleRing, no_fold
from tileproof.kernels.launcher import Dimension, Kernel, Launch, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.arguments import whole
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.refusal import Refusal

NAME = "fp8_quantize_tensor"
SOURCE = kernel_text(NAME)

VECTOR, SCALAR = "vector", "scalar"
TILE_VECTOR, TILE_SCALAR = "tile-vector", "tile-scalar"

# Constants of the source, which a test compares.
THREADS = 256
VECTOR_ELEMENTS = 8
TILE_ROWS = 32
TILE_COLUMNS = 64
CHUNK_ROWS = 8

LOAD_BYTES = 16
"""AstrAI's rule for the vector route: x and codes both begin at such a boundary."""

MAX_BLOCKS = 132 * 8
"""As many blocks of 256 threads as an H200 holds at a time; they step over what is more."""

BF16 = np.dtype(ml_dtypes.bfloat16)
ELEMENTS = {BF16: "bf16", np.dtype(np.float16): "f16", F32: "f32"}
"""Element types of x, and how entry names spell them."""

POLICIES = {E4M3FN.name: "E4m3", E5M2.name: "E5m2"}
"""Formats, and the structures of the source that make them."""

_ROWS, _COLUMNS, _ONE = Dimension("R"), Dimension("C"), Dimension("one", minimum=1, maximum=1)
_CODES = (np.dtype(np.uint8),)

_CAST = np.dtype(
    [
        ("x", np.uint64),
        ("rows", np.int64),
        ("columns", np.int64),
        ("scale", np.uint64),
        ("codes", np.uint64),
        ("transposed", np.uint64),
        ("is_step", np.int32),
    ],
    align=True,
)


@dataclass(frozen=True)
class Output:
    """Codes that are written.

    Args:
        codes: uint8, contiguous; [R, C], or [C, R] where they are transposed.
        format: E4M3FN or E5M2.
    """

    codes: Tensor
    format: FloatFormat = E4M3FN


class QuantizeTensor:
    """The kernel on one device; each pair of formats is compiled when it is first asked for.

    Args:
        device: where all tensors live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.

    Raises:
        Refusal: the device's architecture has no FP8.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        check_fp8(device.arch, "conversions")
        self._device = device
        self._source = source
        self._kernels: dict[tuple[str, str], Kernel] = {}

    def __call__(
        self,
        x: Tensor,
        *,
        rows: Output | None = None,
        transposed: Output | None = None,
        scale: Tensor | None = None,
        ring: ScaleRing | None = None,
        amax: Tensor | None = None,
        max_blocks: int = MAX_BLOCKS,
    ) -> Launch:
        """Cast x, and fold its largest magnitude into the ring.

        Args:
            x: [R, C] bfloat16, float16 or float32, contiguous; leading dimensions are flattened by the caller.
            rows: codes [R, C].
            transposed: codes [C, R].
            scale: float32 [1], the multiplier, outside the ring (a snapshot); None for the ring's own current one:
                its reciprocal, or where it keeps none its scale, as a step, which takes bfloat16 only.
            ring: where the maximum goes; None for a cast that folds nothing.
            amax: float32 [1], where the maximum is collected without a ring, or with one of the seed stage. It is
                raised, so the caller zeroes it before each launch.
            max_blocks: the most blocks of the launch; a smaller number changes no bit.

        Raises:
            Refusal: an argument is not as described, or an output overlaps another argument.
            DeviceError: the device failed.
        """
        if not 1 <= whole("max_blocks", max_blocks) <= MAX_BLOCKS:
            raise Refusal(f"max_blocks is {max_blocks}; it must lie in 1..{MAX_BLOCKS}")
        extents = self._check(x, rows, transposed, scale, ring, amax)
        route = select_route(x, rows, transposed)
        shape = (extents["R"], extents["C"])
        kernel = self._kernel(rows, transposed)
        vector = "vector" if route in (VECTOR, TILE_VECTOR) else "scalar"
        return kernel.launch(
            entry=f"{NAME}_{ELEMENTS[x.dtype]}_{vector}",
            route=route,
            grid=grid_of(shape, is_tiled=transposed is not None, max_blocks=max_blocks),
            block=(THREADS, 1, 1),
            args=(
                _cast(x, shape, rows, transposed, *_multiplier(scale, ring)),
                no_fold(amax) if ring is None else ring.fold(amax),
            ),
        )

    def _kernel(self, rows: Output | None, transposed: Output | None) -> Kernel:
        variant = (_policy(rows), _policy(transposed))
        if variant not in self._kernels:
            defines = tuple(f"FP8_{part}={name}" for part, name in zip(("ROWS", "TRANSPOSED"), variant, strict=True))
            self._kernels[variant] = Kernel(self._device, name=NAME, source=self._source, defines=defines)
        return self._kernels[variant]

    def _check(
        self,
        x: Tensor,
        rows: Output | None,
        transposed: Output | None,
        scale: Tensor | None,
        ring: ScaleRing | None,
        amax: Tensor | None,
    ) -> dict[str, int]:
        if rows is None and transposed is None:
            raise Refusal("nothing to write: neither rows nor transposed codes are given")
        for name, output in (("rows", rows), ("transposed", transposed)):
            if output is not None and output.format.name not in POLICIES:
                raise Refusal(f"{name} have format {output.format.name}; it must be E4M3FN or E5M2")
        _check_scale(x, scale, ring)
        _check_amax(ring, amax)
        if ring is not None:
            ring.check(self._device)
        listed = [(TensorRule("x", tuple(ELEMENTS), (_ROWS, _COLUMNS), Layout.CONTIGUOUS, Role.INPUT), x)]
        if rows is not None:
            rule = TensorRule("rows", _CODES, (_ROWS, _COLUMNS), Layout.CONTIGUOUS, Role.OUTPUT)
            listed.append((rule, rows.codes))
        if transposed is not None:
            rule = TensorRule("transposed", _CODES, (_COLUMNS, _ROWS), Layout.CONTIGUOUS, Role.OUTPUT)
            listed.append((rule, transposed.codes))
        if scale is not None:
            listed.append((TensorRule("scale", (F32,), (_ONE,), Layout.CONTIGUOUS, Role.INPUT), scale))
        if amax is not None:
            listed.append((TensorRule("amax", (F32,), (_ONE,), Layout.CONTIGUOUS, Role.IN_PLACE), amax))
        if ring is not None:
            listed.append((ring.rule, ring.words))
        return dict(check_tensors(self._device, [rule for rule, _ in listed], [tensor for _, tensor in listed]))


def select_route(x: Tensor, rows: Output | None, transposed: Output | None) -> str:
    """See the module docstring."""
    if transposed is None:
        aligned = is_at(x, LOAD_BYTES) and (rows is None or is_at(rows.codes, LOAD_BYTES))
        return VECTOR if aligned else SCALAR
    tensor_rows, columns = x.shape
    pairs = columns % 2 == 0 and is_at(x, 2 * x.dtype.itemsize) and (rows is None or is_at(rows.codes, 2))
    chunks = tensor_rows % CHUNK_ROWS == 0 and is_at(transposed.codes, CHUNK_ROWS)
    return TILE_VECTOR if pairs and chunks else TILE_SCALAR


def is_at(tensor: Tensor, boundary_bytes: int) -> bool:
    """Whether the first element lies at such a boundary."""
    return tensor.address % boundary_bytes == 0


def grid_of(shape: tuple[int, int], *, is_tiled: bool, max_blocks: int) -> Extent3:
    """At least one block, at most `max_blocks`: in two dimensions where there are tiles, columns first."""
    rows, columns = shape
    if not is_tiled:
        return (_blocks(rows * columns, THREADS * VECTOR_ELEMENTS, max_blocks), 1, 1)
    across = _blocks(columns, TILE_COLUMNS, max_blocks)
    return (across, _blocks(rows, TILE_ROWS, max_blocks // across), 1)


def _blocks(extent: int, step: int, most: int) -> int:
    return min(max(1, -(-extent // step)), most)


def _multiplier(scale: Tensor | None, ring: ScaleRing | None) -> tuple[Tensor, bool]:
    """The scale that a launch reads, and whether it is a step."""
    if scale is not None:
        return scale, False
    assert ring is not None
    return (ring.multiplier, False) if ring.keeps_reciprocals else (ring.scale, True)


def _cast(
    x: Tensor, shape: tuple[int, int], rows: Output | None, transposed: Output | None, scale: Tensor, is_step: bool
) -> np.void:
    outputs = (0 if output is None else output.codes.address for output in (rows, transposed))
    made = np.zeros((), _CAST)  # its padding, too, so that equal casts are equal bytes
    made[()] = (x.address, *shape, scale.address, *outputs, is_step)
    return np.void(made.tobytes())


def _policy(output: Output | None) -> str:
    return "Nothing" if output is None else POLICIES[output.format.name]


def _check_scale(x: Tensor, scale: Tensor | None, ring: ScaleRing | None) -> None:
    if scale is not None:
        return
    if ring is None:
        raise Refusal("there is neither a scale nor a ring to take it from", hint="give scale, a float32 tensor of one")
    if not ring.keeps_reciprocals and x.dtype != BF16:
        raise Refusal(
            f"x has element type {x.dtype.name}; by the step of a {ring.stage.name} ring it must be bfloat16",
            hint="give its reciprocal as scale",
        )


def _check_amax(ring: ScaleRing | None, amax: Tensor | None) -> None:
    if ring is None:
        return
    if ring.collects and amax is not None:
        raise Refusal(f"amax is given, but a {ring.stage.name} ring collects the maximum itself")
    if not ring.collects and amax is None:
        raise Refusal(
            f"a {ring.stage.name} ring has no place where blocks collect their maxima", hint="give amax, zeroed"
        )
