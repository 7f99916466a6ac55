"""`tensormap.replace`: one field of a tensor map is set, whatever it was.

The bytes of a map are opaque, so that a kernel that builds one begins with 128 bytes of zeros, as Triton does: a map of
which nothing is set. Any number may be set; whether the fields make a map is asked where a copy uses it. Strides are
in bytes, as ptxas takes them from CUDA 12.5 on (before, in units of 16).

Source: PTX ISA, "tensormap.replace", and its tables of element types and modes.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from tileproof.oracle.addresses.tensor_map import TensorType
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.tensor_map import NBYTES, Fields

_BLANK = bytes(NBYTES)
#: The PTX number of each element type is its place.
ELEMENT_TYPES = (
    TensorType.UINT8,
    TensorType.UINT16,
    TensorType.UINT32,
    TensorType.INT32,
    TensorType.UINT64,
    TensorType.INT64,
    TensorType.FLOAT16,
    TensorType.FLOAT32,
    TensorType.FLOAT32_FTZ,
    TensorType.FLOAT64,
    TensorType.BFLOAT16,
    TensorType.TFLOAT32,
    TensorType.TFLOAT32_FTZ,
    TensorType.U4_ALIGN8,
    TensorType.U4_ALIGN16,
    TensorType.U6_ALIGN16,
)


class MapField(Enum):
    """Fields by their PTX names."""

    ADDRESS = "global_address"
    RANK = "rank"
    BOX = "box_dim"
    SHAPE = "global_dim"
    STRIDE = "global_stride"
    STEP = "element_stride"
    TYPE = "elemtype"
    INTERLEAVE = "interleave_layout"
    SWIZZLE = "swizzle_mode"
    ATOMICITY = "swizzle_atomicity"
    FILL = "fill_mode"


#: Fields of which each dimension has its own: their entries.
ENTRIES: Mapping[MapField, int] = {MapField.BOX: 5, MapField.SHAPE: 5, MapField.STRIDE: 4, MapField.STEP: 5}
#: Fields that take a constant.
CONSTANT = frozenset({MapField.TYPE, MapField.INTERLEAVE, MapField.SWIZZLE, MapField.ATOMICITY, MapField.FILL})
#: Fields of 64 bits.
WIDE = frozenset({MapField.ADDRESS, MapField.STRIDE})
_MODES = {MapField.INTERLEAVE: 2, MapField.SWIZZLE: 3, MapField.FILL: 1}


def edit(raw: bytes, field: MapField, entry: int, value: int, device_number: int) -> bytes:
    """The map with one field set.

    Args:
        raw: the map, or zeros.
        field: which field.
        entry: of a field that each dimension has.
        value: the new number, as PTX gives it.
        device_number: of the device that executes.

    Raises:
        NoTensorMap: the bytes are neither a map nor zeros.
        NotModelled: a mode that the device does not copy with.
    """
    fields = Fields(device_number) if raw == _BLANK else Fields.unpack(raw)
    return replace(_edited(fields, field, entry, value), edited=True).pack()


def check_constant(field: MapField, value: int) -> None:
    """Whether a constant is one that its field knows.

    Raises:
        NotModelled: it is not, or not modelled.
    """
    if field is MapField.ATOMICITY and value != 0:
        raise NotModelled(f".swizzle_atomicity {value} is not modelled", hint="chunks of 16 bytes, 0, are")
    most = len(ELEMENT_TYPES) - 1 if field is MapField.TYPE else _MODES.get(field, value)
    if value > most:
        raise NotModelled(f".{field.value} {value} is not modelled", hint=f"0 to {most} are")


def _edited(fields: Fields, field: MapField, entry: int, value: int) -> Fields:
    match field:
        case MapField.ADDRESS:
            return replace(fields, address=value)
        case MapField.RANK:
            return replace(fields, rank=min(value, 254) + 1)  # PTX counts from 0
        case MapField.BOX:
            return replace(fields, box=_with(fields.box, entry, min(value, 0xFFFF)))
        case MapField.SHAPE:
            return replace(fields, shape=_with(fields.shape, entry, value))
        case MapField.STRIDE:
            return replace(fields, strides=_with(fields.strides, entry, value))
        case MapField.STEP:
            return replace(fields, steps=_with(fields.steps, entry, min(value, 0xFF)))
        case MapField.TYPE:
            return replace(fields, kind=ELEMENT_TYPES[value].number)
        case MapField.INTERLEAVE:
            return replace(fields, interleave=value)
        case MapField.SWIZZLE:
            return replace(fields, swizzle=value)
        case MapField.FILL:
            return replace(fields, fill=value)
        case MapField.ATOMICITY:
            return fields  # only the usual one is modelled


def _with(numbers: tuple[int, ...], entry: int, value: int) -> tuple[int, ...]:
    return (*numbers[:entry], value, *numbers[entry + 1 :])
