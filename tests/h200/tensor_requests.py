"""Tensor maps to ask for: legal ones, and ones that differ from a legal one in up to three arguments, near every limit.

Drawn with Python's own generator, whose numbers are the same in every version, so that a digest of the answers can be
held to the simulator without the driver.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random

from tileproof.oracle.addresses.tensor_map import (
    MAX_RANK,
    Interleave,
    Promotion,
    SwizzleMode,
    TensorMapRequest,
    TensorType,
)
from tileproof.oracle.addresses.tma_tile import Fill

BASE = 0x7F00_0000_0000
_POWERS = (1 << 36, 1 << 40, 1 << 41, 1 << 63)
ADDRESSES = [BASE + n for n in (0, 1, 2, 4, 8, 15, 16, 17, 24, 32, 48, 64, 96, 128)]
ADDRESSES += [
    0,
    16,
    1 << 32,
    1 << 47,
    1 << 48,
    1 << 56,
    (1 << 57) - 32,
    (1 << 57) - 16,
    1 << 57,
    1 << 63,
    (1 << 64) - 32,
]
EXTENTS = [0, 1, 2, 3, 15, 16, 17, 64, 100, 127, 128, 129, 255, 256, 257, 1000, 1 << 16, 1 << 31]
EXTENTS += [(1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 33, 1 << 40]
STRIDES = [0, 1, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 128, 4096, 1 << 32]
STRIDES += [power + step for power in _POWERS for step in (-32, -16, -1, 0, 16)]
BOXES = [
    *range(9),
    12,
    15,
    16,
    17,
    24,
    31,
    32,
    33,
    48,
    64,
    65,
    80,
    96,
    127,
    128,
    129,
    144,
    192,
    255,
    256,
    257,
    512,
    1 << 31,
]
STEPS = [*range(11), 16, (1 << 32) - 1]
_SHAPES = (1, 2, 7, 16, 33, 64, 100, 128, 256, 1000)
_OUTER_BOXES = (1, 2, 8, 9, 16, 64)
_BIG_BOXES = (64, 100, 128, 200, 255, 256)


def requests(count: int, seed: int = 20261130) -> Iterator[TensorMapRequest]:
    """The first `count` requests of a seed."""
    random = Random(seed)
    for _ in range(count):
        request = legal(random)
        for _ in range(random.choices((0, 1, 2, 3), (12, 43, 28, 17))[0]):
            request = random.choice(_CHANGES)(random, request)
        yield request


def digest(answers: Iterable[bool]) -> str:
    """SHA-256 over which requests were taken."""
    return hashlib.sha256(bytes(answers)).hexdigest()


def legal(random: Random) -> TensorMapRequest:
    """A request by the letter of the manual; packed types and newer swizzles are legal on sm_100 alone."""
    kind = random.choice(list(TensorType))
    interleave = random.choice([Interleave.NONE] * 4 + list(Interleave))
    rank = random.randint(3 if interleave else 1, MAX_RANK)
    swizzle = random.choice(list(SwizzleMode)[:4] * 4 + list(SwizzleMode)[4:])
    shape = [random.choice(_SHAPES) for _ in range(rank)]
    if kind.packed:
        shape[0] = 128 * random.randint(1, 3)
    granule = 32 if interleave is Interleave.BYTES_32 or kind.packed else 16
    strides, extent = [], -(-shape[0] * kind.bits // 8)
    for outer in shape[1:]:
        extent = -(-extent // granule) * granule + granule * random.randint(0, 1)
        strides.append(extent)
        extent *= outer
    span = swizzle.span_bytes if swizzle.span_bytes and not interleave else 256 * kind.bits // 8
    rows = [n for n in range(1, 257) if n * kind.bits % 128 == 0 and n * kind.bits // 8 <= span] or [128]
    outer_boxes = random.choices(_BIG_BOXES if random.random() < 0.1 else _OUTER_BOXES, k=rank - 1)
    return TensorMapRequest(
        data_type=kind,
        address=BASE + 128 * random.randint(0, 3),
        shape=tuple(shape),
        strides_bytes=tuple(strides),
        box=(128 if kind.packed else random.choice(rows), *outer_boxes),
        element_strides=(1,) * rank,
        interleave=interleave,
        swizzle=swizzle,
        promotion=random.choice(list(Promotion)),
        fill=random.choice(list(Fill)) if kind.is_float else Fill.ZERO,
    )


def _one(random: Random, numbers: tuple[int, ...], choices: list[int], inner: float = 0.3) -> tuple[int, ...]:
    """The numbers with one of them chosen anew, the innermost one more often."""
    if not numbers:
        return numbers
    place = 0 if random.random() < inner else random.randrange(len(numbers))
    return (*numbers[:place], random.choice(choices), *numbers[place + 1 :])


def _strides(random: Random, request: TensorMapRequest) -> TensorMapRequest:
    near = [max(0, n + step) for n in request.strides_bytes for step in (-64, -32, -16, -8, -1, 1, 8, 16, 32)]
    return replace(request, strides_bytes=_one(random, request.strides_bytes, random.choice((near, STRIDES)), 0))


_CHANGES: list[Callable[[Random, TensorMapRequest], TensorMapRequest]] = [
    lambda random, r: replace(r, data_type=random.choice(list(TensorType))),
    lambda random, r: replace(r, address=random.choice(ADDRESSES)),
    lambda random, r: replace(r, shape=_one(random, r.shape, EXTENTS)),
    lambda random, r: replace(r, box=_one(random, r.box, BOXES, 0.5)),
    lambda random, r: replace(r, box=_one(random, r.box, BOXES)),
    lambda random, r: replace(r, element_strides=_one(random, r.element_strides, STEPS)),
    lambda random, r: replace(r, element_strides=tuple(random.randint(1, 8) for _ in r.box)),
    lambda random, r: replace(r, box=tuple(random.choice(_BIG_BOXES) for _ in r.box)),
    lambda random, r: replace(r, interleave=random.choice(list(Interleave))),
    lambda random, r: replace(r, swizzle=random.choice(list(SwizzleMode))),
    lambda random, r: replace(r, fill=random.choice(list(Fill))),
    _strides,
    _strides,
]
