"""The arguments of a tensor map: what `cuTensorMapEncodeTiled` is asked for, in words.

A tensor map describes a strided tensor in global memory and the box that one tensor copy moves. This record holds the
request alone: whether a map exists for it is for the driver to say on a GPU, and for the simulator's copy of the
driver's rules on a CPU. Dimensions stand innermost first. Example: rows of K bytes, boxes of 64 bytes × 256 rows:
shape (K, rows), strides_bytes (K,), box (64, 256).

Source of names and numbers: CUDA 13.0, cuda.h, CUtensorMapDataType and the enumerations after it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Required, TypedDict, TypeVar

from tileproof.oracle.addresses.tma_tile import Fill
from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal

MAX_RANK = 5

Choice = TypeVar("Choice")


class TensorType(Enum):
    """Element types: name, the driver's number, bits, and whether the driver calls it a floating-point type."""

    UINT8 = ("uint8", 0, 8, False)
    UINT16 = ("uint16", 1, 16, False)
    UINT32 = ("uint32", 2, 32, False)
    INT32 = ("int32", 3, 32, False)
    UINT64 = ("uint64", 4, 64, False)
    INT64 = ("int64", 5, 64, False)
    FLOAT16 = ("float16", 6, 16, True)
    FLOAT32 = ("float32", 7, 32, True)
    FLOAT64 = ("float64", 8, 64, True)
    BFLOAT16 = ("bfloat16", 9, 16, True)
    FLOAT32_FTZ = ("float32_ftz", 10, 32, True)
    TFLOAT32 = ("tfloat32", 11, 32, True)
    TFLOAT32_FTZ = ("tfloat32_ftz", 12, 32, True)
    #: Sixteen 4- or 6-bit elements packed into 8 or 12 bytes, for sm_100 and later.
    U4_ALIGN8 = ("16u4_align8", 13, 4, False)
    U4_ALIGN16 = ("16u4_align16", 14, 4, False)
    U6_ALIGN16 = ("16u6_align16", 15, 6, False)

    def __init__(self, label: str, number: int, bits: int, is_float: bool) -> None:
        self.label = label
        self.number = number
        self.bits = bits
        self.is_float = is_float

    @property
    def packed(self) -> bool:
        """Whether elements are narrower than a byte."""
        return self.bits < 8

    @property
    def nbytes(self) -> int:
        """Bytes of an element that is not packed."""
        return self.bits // 8

    @classmethod
    def named(cls, name: object) -> "TensorType":
        """The type of a name, or of a numpy element type.

        Raises:
            Refusal: the driver has no such type.
        """
        text = name if isinstance(name, str) else str(getattr(name, "name", getattr(name, "__name__", name)))
        for member in cls:
            if member.label == text:
                return member
        raise Refusal(
            f"a tensor map of {text!r} elements: the driver knows {', '.join(member.label for member in cls)}",
            hint="formats of one byte, FP8 among them, are copied as uint8",
        )


class SwizzleMode(Enum):
    """Swizzles as the caller names them, with the driver's number and the span in bytes."""

    NONE = (0, 0, 0)
    SPAN_32 = (32, 1, 32)
    SPAN_64 = (64, 2, 64)
    SPAN_128 = (128, 3, 128)
    #: Chunks of 32 or 64 bytes in place of 16, for sm_100 and later.
    SPAN_128_ATOM_32 = ("128-atom-32", 4, 128)
    SPAN_128_ATOM_32_FLIP_8 = ("128-atom-32-flip-8", 5, 128)
    SPAN_128_ATOM_64 = ("128-atom-64", 6, 128)

    def __init__(self, label: int | str, number: int, span_bytes: int) -> None:
        self.label = label
        self.number = number
        self.span_bytes = span_bytes

    @property
    def moves_chunks_of_16(self) -> bool:
        """Whether it is one of the modes of sm_90, or none."""
        return isinstance(self.label, int)


class Interleave(IntEnum):
    """Bytes of an interleaved channel slice; the value is the driver's number."""

    NONE = 0
    BYTES_16 = 1
    BYTES_32 = 2


class Promotion(IntEnum):
    """How much L2 fetches at once, which changes no value."""

    NONE = 0
    BYTES_64 = 1
    BYTES_128 = 2
    BYTES_256 = 3


_SWIZZLES = {mode.label: mode for mode in SwizzleMode}
_INTERLEAVES = {0: Interleave.NONE, 16: Interleave.BYTES_16, 32: Interleave.BYTES_32}
_PROMOTIONS = {0: Promotion.NONE, 64: Promotion.BYTES_64, 128: Promotion.BYTES_128, 256: Promotion.BYTES_256}


class TensorMapArguments(TypedDict, total=False):
    """The keywords of `Device.tensor_map`; dimensions innermost first.

    Attributes:
        dtype: name of a TensorType, or a numpy element type; "uint8" if left out.
        shape: elements of each dimension.
        strides_bytes: of dimensions 1 and up; one fewer than `shape`.
        box: elements of each dimension that one copy covers.
        swizzle: 0, 32, 64 or 128 bytes, or the name of a mode of sm_100.
        fill: what elements outside the tensor read as, "zero" or "nan".
        element_strides: of each dimension; ones if left out.
        interleave: 0, 16 or 32 bytes.
        l2_promotion: 0, 64, 128 or 256 bytes; changes no value.
    """

    dtype: object
    shape: Required[Sequence[int]]
    strides_bytes: Sequence[int]
    box: Required[Sequence[int]]
    swizzle: int | str
    fill: str
    element_strides: Sequence[int] | None
    interleave: int
    l2_promotion: int


@dataclass(frozen=True, kw_only=True)
class TensorMapRequest:
    """One request, innermost dimension first. Nothing is checked here but that the driver has words for it."""

    data_type: TensorType
    address: int
    shape: tuple[int, ...]
    #: From dimension 1 on.
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: Interleave = Interleave.NONE
    swizzle: SwizzleMode = SwizzleMode.NONE
    promotion: Promotion = Promotion.NONE
    fill: Fill = Fill.ZERO

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @classmethod
    def of(cls, address: int, arguments: TensorMapArguments) -> "TensorMapRequest":
        """A request for a tensor that begins at `address`, in the words of `Device.tensor_map`.

        Raises:
            Refusal: an unknown word, numbers that fit no argument of the driver, or lengths that differ.
        """
        for name in arguments.keys() - TensorMapArguments.__annotations__.keys():
            raise Refusal(f"a tensor map has no {name!r}", hint=", ".join(TensorMapArguments.__annotations__))
        extents = _numbers("shape", arguments.get("shape"), 64)
        steps = arguments.get("element_strides")
        fills = {member.value: member for member in Fill}
        request = cls(
            data_type=TensorType.named(arguments.get("dtype", "uint8")),
            address=address,
            shape=extents,
            strides_bytes=_numbers("strides_bytes", arguments.get("strides_bytes", ()), 64),
            box=_numbers("box", arguments.get("box"), 32),
            element_strides=(1,) * len(extents) if steps is None else _numbers("element_strides", steps, 32),
            interleave=_chosen("interleave", arguments.get("interleave", 0), _INTERLEAVES),
            swizzle=_chosen("swizzle", arguments.get("swizzle", 0), _SWIZZLES),
            promotion=_chosen("l2_promotion", arguments.get("l2_promotion", 0), _PROMOTIONS),
            fill=_chosen("fill", arguments.get("fill", "zero"), fills),
        )
        request._check_lengths()
        return request

    def _check_lengths(self) -> None:
        if not 1 <= self.rank <= MAX_RANK:
            raise Refusal(f"a tensor map of rank {self.rank}", hint=f"ranks are 1 to {MAX_RANK}")
        lengths = {"strides_bytes": (self.strides_bytes, self.rank - 1)}
        lengths |= {"box": (self.box, self.rank), "element_strides": (self.element_strides, self.rank)}
        for name, (numbers, wanted) in lengths.items():
            if len(numbers) != wanted:
                raise Refusal(
                    f"{name} {numbers} has {len(numbers)} numbers: a shape of rank {self.rank} takes {wanted}",
                    hint="dimensions stand innermost first, and the innermost one has no stride",
                )


def _numbers(name: str, values: Sequence[int] | None, bits: int) -> tuple[int, ...]:
    if not isinstance(values, Iterable):
        raise Refusal(f"{name} = {values!r}", hint="a sequence of whole numbers, innermost dimension first")
    numbers = tuple(whole(f"{name}[{index}]", value) for index, value in enumerate(values))
    for index, number in enumerate(numbers):
        if not 0 <= number < 1 << bits:
            raise Refusal(f"{name}[{index}] = {number} is no unsigned number of {bits} bits")
    return numbers


def _chosen(name: str, value: object, choices: Mapping[Any, Choice]) -> Choice:
    if isinstance(value, bool) or value not in choices:
        raise Refusal(f"{name} = {value!r}", hint=f"one of {', '.join(repr(choice) for choice in choices)}")
    return choices[value]
