"""Tensor copies to make: random ones that the GPU takes, and the ones that it answers with an error.

Data come from raw bytes of a seed, the same in every version of numpy: a quarter of the elements are special patterns
of their type.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.device import EncodesTensorMaps, Report
from tileproof.kernels.tensor_probe import MEMORY_BYTES, REDUCTIONS, TensorProbe
from tileproof.oracle.addresses.tensor_map import TensorType
from tileproof.simulators.ptx.machine.asynchronous.tensor_values import reduction

Bytes = NDArray[np.uint8]
TYPES = [kind for kind in TensorType if not kind.packed]
PAIRS = [(name, kind) for name in REDUCTIONS for kind in TYPES if reduction(name, kind) is not None]
#: Bytes behind the tensor: a store writes whole chunks.
SLACK = 64

_F32 = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x3F801000]
_F32 += [0x3F801001, 0x3F803000, 0x1000, 0x3000, 0x7FF000, 0x7F7FF000, 0x7F7FEFFF, 0x33800000, 0x4B800000]
_F16 = [0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x7E00, 0x7C01, 0x7FFF, 0x1000, 0x6800, 0x0C00]
_BF16 = [0, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0x7FC0, 0x7F81, 0x7FFF, 0x3B80, 0x4380]
_F64 = [0, 1, (1 << 52) - 1, 1 << 52, 0x3FF << 52, (0x7FF << 52) - 1, 0x7FF << 52, (0x7FF << 52) + 1, 0xFFF << 51]
_INTEGERS = [0, 1, 2, 3, -1, -2]
_FLOATS = {16: _F16, 32: _F32, 64: _F64}


@dataclass(frozen=True)
class Copy:
    """One copy, innermost dimension first; `kind` is load, multicast, store or a reduction."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    corner: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zero"
    element_strides: tuple[int, ...] | None = None
    offset: int = 0
    #: Mask of the blocks that a multicast goes to.
    mask: int = 0
    seed: int = 0

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "Copy":
        """From JSON, where tuples are lists."""
        fields: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
        return cls(**fields)

    @property
    def type(self) -> TensorType:
        """Element type."""
        return TensorType.named(self.dtype)

    @property
    def transfer_bytes(self) -> int:
        """What a load's barrier waits for."""
        steps = self.element_strides or (1,) * len(self.box)
        outer = zip(self.box[1:], steps[1:], strict=True)
        return self.box[0] * self.type.nbytes * prod(-(-extent // step) for extent, step in outer)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the tensor's buffer, a multiple of 16."""
        outer = zip(self.shape[1:], self.strides_bytes, strict=True)
        last = self.shape[0] * self.type.nbytes + sum((extent - 1) * stride for extent, stride in outer)
        return -(-last // 16) * 16 + SLACK

    def tensor(self) -> Bytes:
        """The tensor before the copy."""
        return elements(self.type, self.tensor_bytes, 2 * self.seed)

    def memory(self) -> Bytes:
        """Shared memory before a store or a reduction."""
        return elements(self.type, MEMORY_BYTES, 2 * self.seed + 1)


def elements(kind: TensorType, nbytes: int, seed: int) -> Bytes:
    """Bytes of elements; a quarter are special values with either sign."""
    rng = np.random.Generator(np.random.PCG64(seed))
    data = np.frombuffer(rng.bytes(nbytes), np.uint8).copy()
    word = np.dtype(f"<u{kind.nbytes}")
    table = _INTEGERS if not kind.is_float else _BF16 if kind is TensorType.BFLOAT16 else _FLOATS[kind.bits]
    special = np.array([value & (1 << kind.bits) - 1 for value in table], np.uint64).astype(word)
    special = np.concatenate([special, special ^ word.type(1 << kind.bits - 1)])
    choices = np.frombuffer(rng.bytes(2 * (nbytes // kind.nbytes)), np.uint8).reshape(2, -1)
    chosen = choices[0] % 4 == 0
    data.view(word)[chosen] = special[choices[1][chosen] % special.size]
    return data


def run(
    device: EncodesTensorMaps, probe: TensorProbe, copy: Copy, *, zeros: bool = False
) -> tuple[Bytes, bool, Report]:
    """What a copy leaves behind, shared memory after a load and the tensor's buffer else; whether a load completed.

    `zeros` puts 128 zeros in the map's place.
    """
    buffer = device.upload(copy.tensor())
    try:
        made = device.tensor_map(
            buffer,
            dtype=copy.dtype,
            shape=copy.shape,
            strides_bytes=copy.strides_bytes,
            box=copy.box,
            swizzle=copy.swizzle,
            fill=copy.fill,
            element_strides=copy.element_strides,
        )
        if zeros:
            made = np.void(bytes(128))
        if copy.kind == "load":
            return probe.load(made, copy.corner, offset=copy.offset, expected_bytes=copy.transfer_bytes)
        if copy.kind == "multicast":
            return probe.multicast(
                made, copy.corner, offset=copy.offset, expected_bytes=copy.transfer_bytes, mask=copy.mask
            )
        name = None if copy.kind == "store" else copy.kind
        report = probe.store(made, copy.corner, offset=copy.offset, memory=copy.memory(), reduction=name)
        return buffer.download(), True, report
    finally:
        device.free(buffer)


_KINDS = ("load", "store", "reduce", "load", "multicast")


def legal(count: int, seed: int = 20261130) -> Iterator[Copy]:
    """The first `count` random copies of a seed: ranks, swizzles, kinds, types and reductions in turn."""
    random = Random(seed)
    for number in range(count):
        rank, swizzle = number % 5 + 1, (0, 32, 64, 128)[number // 5 % 4]
        kind, element = _KINDS[number // 20 % len(_KINDS)], TYPES[number % len(TYPES)]
        if kind == "reduce":
            kind, element = PAIRS[number % len(PAIRS)]
        yield _drawn(random, kind, element, rank, swizzle, number)


def _drawn(random: Random, kind: str, element: TensorType, rank: int, swizzle: int, seed: int) -> Copy:
    size, loads = element.nbytes, kind in ("load", "multicast")
    row = random.choice(range(16, (swizzle or min(256 * size, 320)) + 1, 16)) // size
    counts = [random.randint(1, (40, 7, 3, 2)[rank - 2]) for _ in range(rank - 1)]
    strided = random.random() < 0.4
    steps = [random.choice((1, 1, 2, 3, 6)) if strided else 1 for _ in counts]
    outer = [n * step - random.randrange(step) for n, step in zip(counts, steps, strict=True)]
    shape = [random.randint(1, 3 * row), *(random.randint(1, 5 + n) for n in outer)]
    strides, extent = [], shape[0] * size
    for length in shape[1:]:
        extent = -(-extent // 16) * 16 + 16 * random.choice((0, 0, 1))
        strides.append(extent)
        extent *= length
    chunk = 16 // size
    corner = [chunk * random.randint(-(row // chunk) if loads else 0, shape[0] // chunk)]
    corner += [random.randint(-n if loads else 0, n) for n in shape[1:]]
    footprint = prod(counts) * max(row * size, swizzle)
    return Copy(
        kind=kind,
        dtype=element.label,
        shape=tuple(shape),
        strides_bytes=tuple(strides),
        box=(row, *outer),
        corner=tuple(corner),
        swizzle=swizzle,
        fill=random.choice(("zero", "nan")) if element.is_float and loads else "zero",
        element_strides=(random.choice((1, 2)) if strided else 1, *steps),
        offset=128 * random.randint(0, (MEMORY_BYTES - footprint) // 128),
        mask=random.randint(1, 3) if kind == "multicast" else 0,
        seed=seed,
    )


@dataclass(frozen=True)
class Illegal:
    """A copy that the GPU answers with an error, and the kind of finding that the simulator makes of it."""

    name: str
    copy: Copy
    finding: str
    garbage: bool = False


def illegal() -> list[Illegal]:
    """One or more copies for each rule."""
    load = Copy("load", "uint8", (256, 11), (256,), (64, 8), (0, 0), swizzle=64)
    store, add = replace(load, kind="store"), replace(load, kind="add", dtype="int32", box=(16, 8), shape=(64, 11))
    found = [
        Illegal("load from byte 8 of a row", replace(load, corner=(8, 0)), "misaligned"),
        Illegal("store to byte 24 of a row", replace(store, corner=(24, 0)), "misaligned"),
        Illegal("reduction at byte 4 of a row", replace(add, corner=(1, 0)), "misaligned"),
        Illegal("load to an address by 64", replace(load, offset=64), "misaligned"),
        Illegal("store from an address by 16", replace(store, offset=16, swizzle=0), "misaligned"),
        Illegal("store at a negative row", replace(store, corner=(0, -1)), "out-of-bounds"),
        Illegal("store at a negative column", replace(store, corner=(-16, 0)), "out-of-bounds"),
        Illegal("reduction at a negative row", replace(add, corner=(0, -1)), "out-of-bounds"),
        Illegal("load beyond shared memory", replace(load, offset=MEMORY_BYTES + 1024), "out-of-bounds"),
        Illegal("load by an instruction of rank 3", replace(load, corner=(0, 0, 0)), "async"),
        Illegal("store by an instruction of rank 1", replace(store, corner=(0,)), "async"),
        Illegal("load with a map of zeros", load, "async", garbage=True),
        Illegal("store with a map of zeros", store, "async", garbage=True),
    ]
    for name, kind in _refused_pairs():
        copy = replace(add, kind=name, dtype=kind.label, shape=(256 // kind.nbytes, 11), box=(64 // kind.nbytes, 8))
        found.append(Illegal(f"{name} of {kind.label}", copy, "async"))
    return found


def _refused_pairs() -> list[tuple[str, TensorType]]:
    """Every pair of a reduction and a type that has none; of names that no float has, one float."""
    every = [(name, kind) for name in REDUCTIONS for kind in TYPES if (name, kind) not in PAIRS]
    return [pair for pair in every if not (pair[1].is_float and pair[0] in ("inc", "dec", "and", "or", "xor"))]
