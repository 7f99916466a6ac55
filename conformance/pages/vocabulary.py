"""What a contract page is written in: a few records. `docs/own_kernels.md` shows whole pages.

    KERNEL = Cuda("rows.cu", entry="scale_rows<float, 256>")
    SIZES = {"T": (1, 3), "K": around(256)}

    def tensors(T, K):
        return Input("x", "f32", (T, K)), Output("y", "f32", (T, K))

    def launch(x, y, T, K):
        return Launch(grid=T, block=256, args=(x, y, K, 0.5))

    def expected(x):
        return x * np.float32(0.5)

    PAGE = Page("scale_rows", KERNEL, SIZES, tensors=tensors, launch=launch, expected=expected)

Functions name what they want: sizes by their names, tensors by theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tileproof.conformance.contract import Allowed, Role
from tileproof.conformance.pages.types import element_type
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Cuda:
    """A .cu file, compiled by NVRTC as it stands.

    Args:
        file: path, from the page's folder.
        entry: the kernel, as the source names it, of a template with its arguments; a tuple of them where the page
            launches several; empty where the file has one only.
        include: folders of headers, from the page's folder. Headers beside the file are found by themselves.
        define: macros, NAME or NAME=VALUE.
        options: further options of the compiler, such as "--use_fast_math".
    """

    file: str
    entry: str | tuple[str, ...] = ""
    include: Sequence[str] = ()
    define: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True)
class Ptx:
    """A PTX file, run as it stands.

    Args:
        file: path, from the page's folder.
        entry: the kernel; a tuple of them where the page launches several; empty where the file has one only.
    """

    file: str
    entry: str | tuple[str, ...] = ""


class Arrays(StrEnum):
    """Which library's arrays a Python callable takes."""

    NUMPY = "numpy"
    TORCH = "torch"
    JAX = "jax"
    CUPY = "cupy"


@dataclass(frozen=True)
class Python:
    """A Python function, judged as it is called: a library's operator, or one that launches kernels itself.

    Args:
        function: its parameters are tensors and sizes of the page, by name. An output that it names is given to it,
            poisoned, to be written; the others are what it returns: one array, a tuple in the order of the page, or a
            mapping by name. What it raises is a refusal of the call.
        arrays: the library whose arrays it takes: "numpy" and "torch" and "jax" on the host, "cupy", "torch" and "jax"
            on a GPU. CuPy's arrays speak DLPack and `__cuda_array_interface__`.
    """

    function: Callable[..., Any]
    arrays: str = "numpy"


@dataclass(frozen=True)
class TensorDeclaration:
    """A tensor of a page: name, element type (see `types.TYPES`) and extents; `Input`, `Output` and others make it."""

    name: str
    type: str
    shape: tuple[int, ...]
    role: Role | None
    zero: bool = False


def Input(name: str, type: str, shape: Sequence[int]) -> TensorDeclaration:
    """What the kernel reads: it must be as it was afterwards."""
    return TensorDeclaration(name, type, tuple(shape), Role.INPUT)


def Output(name: str, type: str, shape: Sequence[int]) -> TensorDeclaration:
    """What the kernel writes, every element of it: it begins poisoned."""
    return TensorDeclaration(name, type, tuple(shape), Role.OUTPUT)


def InOut(name: str, type: str, shape: Sequence[int]) -> TensorDeclaration:
    """What the kernel reads and writes; `expected` says what it must hold afterwards."""
    return TensorDeclaration(name, type, tuple(shape), Role.IN_PLACE)


def Scratch(name: str, type: str, shape: Sequence[int], *, zero: bool = False) -> TensorDeclaration:
    """Working memory: fresh for each run, nobody looks at it afterwards; unwritten, or zeros where `zero` is set."""
    return TensorDeclaration(name, type, tuple(shape), None, zero)


@dataclass(frozen=True)
class Placed:
    """A tensor as `launch` sees it; as an argument it is the address of its first element.

    Args:
        name: of the tensor.
        shape: extents.
        strides: elements from one index to the next, per dimension.
        offset: elements between an aligned address and the first element.
        begin: elements from the first to the one whose address is passed.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    begin: int = 0

    def at(self, elements: int) -> "Placed":
        """The same tensor from an element on, as `x + elements` is in C++."""
        return replace(self, begin=self.begin + elements)


@dataclass(frozen=True)
class TensorMap:
    """A tensor map (TMA descriptor) by value, as `cuTensorMapEncodeTiled` makes it.

    Args:
        tensor: what it describes.
        arguments: `dtype`, `shape`, `strides_bytes`, `box`, `swizzle`, `fill`: innermost dimension first.
    """

    tensor: Placed
    arguments: Mapping[str, Any]


def tensor_map(tensor: Placed, **arguments: Any) -> TensorMap:
    """A tensor map of a tensor, to be an argument of a launch."""
    return TensorMap(tensor, arguments)


Extent = int | Sequence[int]


@dataclass(frozen=True)
class Launch:
    """One launch, as `kernel<<<grid, block, shared_bytes>>>(args...)` is.

    Args:
        grid: blocks along x, or along x, y, z.
        block: threads along x, or along x, y, z.
        args: in the kernel's order: a tensor is its address; a number takes the type that the kernel declares; numpy
            scalars, and bytes for a structure, pass as they are.
        entry: the kernel, where the page has several.
        shared_bytes: dynamic shared memory of a block.
        cluster: blocks of a cluster along x, y, z; (1, 1, 1) leaves it to the kernel.
    """

    grid: Extent
    block: Extent
    args: Sequence[Any]
    entry: str = ""
    shared_bytes: int = 0
    cluster: Extent = (1, 1, 1)


class Around(tuple[int, ...]):
    """Sizes on both sides of a tile's edges; the tile is known to the report."""

    tile: int

    def __new__(cls, values: Sequence[int], tile: int) -> "Around":
        """The sizes, ascending, each once."""
        made = super().__new__(cls, values)
        made.tile = tile
        return made


def around(tile: int, *, multiple: int = 1) -> Around:
    """Sizes where a kernel with tiles of `tile` elements goes another way.

    The least, one step below, at and above one tile and two tiles; steps are of `multiple`, the finest that the kernel
    takes. `around(256)` is 1, 255, 256, 257, 511, 512, 513.
    """
    edges = (edge + step * multiple for edge in (tile, 2 * tile) for step in (-1, 0, 1))
    return Around(sorted({multiple, *(size for size in edges if size > 0 and size % multiple == 0)}), tile)


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def between(lower: NDArray[Any], upper: NDArray[Any]) -> Allowed:
    """Every value from `lower` to `upper` is right; both have the output's shape and type."""
    return Allowed(np.asarray(lower), np.asarray(upper))


def within(values: ArrayLike, error: ArrayLike, type: str) -> Allowed:
    """What a number no further than `error` from `values` becomes when it is rounded to `type`, to nearest.

    Rounding keeps order, so these are the values between the two rounded ends.

    Args:
        values: float64, of the output's shape.
        error: the most that a result may be away before its last rounding; a proven bound, not a guess.
        type: of the output, such as "f16".
    """
    kind = element_type(type)
    centre, reach = np.asarray(values, np.float64), np.asarray(error, np.float64)
    if kind.record is None:
        raise Refusal(f"within: {type} holds whole numbers, which are right or wrong", hint="give the array itself")
    ends = (np.nextafter(centre - reach, -np.inf), np.nextafter(centre + reach, np.inf))
    overflow = "saturate" if kind.is_code else "inf"
    lower, upper = (kind.record.encode(end, overflow=overflow) for end in ends)
    return Allowed(lower.view(kind.dtype), upper.view(kind.dtype))


@dataclass(frozen=True)
class Tiles:
    """How the kernel divides an output, so that failures are told by tile, warp and lane.

    Args:
        tile: rows and columns of the output that a block makes.
        warp: rows and columns of the tile that a warp makes, a warpgroup with `wgmma`; warps are counted row by row.
        fragment: the matrix instruction whose accumulators fill that part, such as "mma.m16n8k16.f32.f16.f16" or
            "wgmma.m64n128k16.f32.bf16.bf16".
        first_warp: the number of the first warp that makes outputs, where a producer's come before.
    """

    tile: tuple[int, int]
    warp: tuple[int, int] | None = None
    fragment: str = ""
    first_warp: int = 0


@dataclass(frozen=True, eq=False)
class Page:
    """What one kernel must do.

    Args:
        name: the first part of its case ids: lower-case letters, digits, _ and -.
        kernel: where it is.
        sizes: values by size; every combination is a case of the full tier.
        tensors: sizes to the tensors.
        launch: tensors and sizes to a `Launch`, or several in order; nothing where there is nothing to do.
        expected: inputs and sizes to the right outputs: one array, a tuple in order, or a mapping by name, each of the
            output's own shape and type; `between(lower, upper)` where several values are right. Without it outputs are
            held to nothing but a second run.
        like: a contract of tileproof's that gives tensors, inputs and right outputs instead, and which of its kernels
            and routes where it has several: "ninfer_quantize", "astrai_mm_fp8/mm_fp8/full".
        dtype: with `like`: the element type of its shapes, such as "f32".
        compare: "bits" (every byte), "set" or "bound" (`expected` gives intervals).
        families: kinds of input data; see `families.FAMILIES`.
        inputs: random generator and sizes to inputs by name, instead of a family's: indices, offsets, ...
        only: sizes to whether a combination is one that the kernel takes; all where it is left out.
        views: how tensors lie in memory, each further case of the first sizes: "xpad3" (rows 3 elements further apart),
            "xoff1" (begins 1 element after an aligned address); "" is contiguous and aligned.
        rules: name and words of each choice that a failure should print: ("rounding", "to nearest, ties to even").
        nan: where a NaN is expected, any is right "floats" (of 16 and 32 bits), "any" (of eight-bit codes too), or none
            but the expected one, "bits".
        seeds: data seeds from 0 on.
        tiles: by output, how the kernel divides it; failures then say which tile, warp and lane.
    """

    name: str
    kernel: Cuda | Ptx | Python
    sizes: Mapping[str, Sequence[int]]
    tensors: Callable[..., Sequence[TensorDeclaration]] | None = None
    launch: Callable[..., Any] | None = None
    expected: Callable[..., Any] | None = None
    like: str = ""
    dtype: str = ""
    compare: str = "bits"
    families: Sequence[str] = ()
    inputs: Callable[..., Mapping[str, NDArray[Any]]] | None = None
    only: Callable[..., bool] | None = None
    views: Sequence[str] = ()
    rules: Sequence[tuple[str, str]] = ()
    nan: str = "floats"
    seeds: int = 1
    tiles: Mapping[str, Tiles] = field(default_factory=dict)
