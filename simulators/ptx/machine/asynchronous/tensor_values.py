"""What tensor copies do to values: the fill, the rounding of TF32, and what reductions compute, by element type.

All measured on an H200 (tests/golden, h200_tensor_copies); the PTX ISA names the reductions and no rules for them:

* A load of TFLOAT32 rounds to the ten stored bits of TF32, ties to even, subnormals kept; every NaN becomes
  0x7FFFE000. The NaN fill is not rounded, and stores and reductions round nothing.
* `_ftz` types flush nothing on loads and stores. Only `.add` of FLOAT32_FTZ and TFLOAT32_FTZ flushes; that of FLOAT32
  and TFLOAT32 does not.
* `.add` of FLOAT64 returns a NaN operand as it is, also a signalling one; of two, the one in shared memory.
* Any other pair of operation and type is an illegal instruction, among them all of 8- and 16-bit integers, `.add` of
  INT64 and `.min` and `.max` of 32- and 64-bit floats.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from tileproof.oracle.addresses.tensor_map import TensorType
from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Operation, resolve
from tileproof.simulators.ptx.decoding.decode_memory import WRAPPING_OPERATIONS
from tileproof.simulators.ptx.machine.memory import Bits, Bytes

_WORDS = {TensorType.UINT32: "u32", TensorType.INT32: "s32", TensorType.UINT64: "u64", TensorType.INT64: "s64"}
_HALVES = {TensorType.FLOAT16: "f16", TensorType.BFLOAT16: "bf16"}
_SINGLES = (TensorType.FLOAT32, TensorType.TFLOAT32)
_FLUSHED = (TensorType.FLOAT32_FTZ, TensorType.TFLOAT32_FTZ)
_BITWISE = (TensorType.UINT32, TensorType.INT32, TensorType.UINT64)
_TF32 = (TensorType.TFLOAT32, TensorType.TFLOAT32_FTZ)
_TF32_NAN = np.uint32(0x7FFF_E000)


def rounded(data: Bytes, kind: TensorType) -> Bytes:
    """The bytes of elements as a load of their type writes them."""
    if kind not in _TF32:
        return data
    bits = data.view("<u4")
    with np.errstate(over="ignore"):
        kept = (bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFF_E000)
    kept[bits & np.uint32(0x7FFF_FFFF) > np.uint32(0x7F80_0000)] = _TF32_NAN
    return kept.view(np.uint8)


@cache
def reduction(name: str, kind: TensorType) -> Operation | None:
    """What a reduction computes of the element in the tensor and the one that comes; None where it is illegal."""
    if name in WRAPPING_OPERATIONS:
        return WRAPPING_OPERATIONS[name] if kind is TensorType.UINT32 else None
    if name in ("and", "or", "xor"):
        return resolve(name, (f"b{kind.bits}",)) if kind in _BITWISE else None
    types = {**_WORDS, **_HALVES}
    if name != "add":
        return resolve(name, (types[kind],)) if kind in types else None
    if kind is TensorType.FLOAT64:
        return _add_f64()
    if kind in _SINGLES:
        return resolve("add", ("f32",))
    if kind in _FLUSHED:
        return resolve("add", ("ftz", "f32"))
    return resolve("add", (types[kind],)) if kind in types and kind is not TensorType.INT64 else None


def _add_f64() -> Operation:
    plain = resolve("add", ("f64",))
    assert plain is not None
    compute = plain.compute

    def add(values: Sequence[Bits]) -> tuple[Bits, ...]:
        present, comes = values
        result = np.where(_is_nan(present), present, compute(values)[0])
        return (np.where(_is_nan(comes), comes, result),)

    return Operation("add.f64", ("f64",), ("f64", "f64"), add, whole(64))


def _is_nan(bits: Bits) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return (bits & np.uint64(0x7FFF_FFFF_FFFF_FFFF)) > np.uint64(0x7FF0_0000_0000_0000)
