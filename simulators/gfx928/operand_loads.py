"""How a wave brings the operands of m16n16k32 from memory into fragments, and the proof that each way is right.

A lane needs 8 bytes of A and of B. Whether they are neighbours depends on how the matrix lies in memory, `pitch` bytes
from one line to the next:

    A_ROW_MAJOR      A [M][K]   byte i of lane (r, q):  r · pitch + 8q + i      8 neighbouring bytes
    B_COLUMN_MAJOR   B [N][K]                           r · pitch + 8q + i      8 neighbouring bytes
    B_ROW_MAJOR      B [K][N]                           (8q + i) · pitch + r    8 bytes, a pitch apart

Example, pitch 80, lane 17 (r = 1, q = 1): A from byte 88 on; B row-major from bytes 641, 721, 801, ...

Where the bytes are neighbours, `load_fragment8` takes them in one read of 8 bytes. The fragment is the same as by
single bytes, so the product is too.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad section 3, and load_frag8 of the kernels
(variant/int8w8a8-gemm/hy3/TP8/M4096 @08ddbe41).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.bijection import Bijection, NotABijection, prove_enumeration
from tileproof.oracle.arguments import whole
from tileproof.oracle.fragments import prove_fragment
from tileproof.oracle.maps.dumma_fragments import DUMMA_A, DUMMA_B, LANES
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.wave import QUARTER, ROW

#: Bytes of an operand that a lane holds.
FRAGMENT_BYTES = 8
_BYTE = np.arange(FRAGMENT_BYTES, dtype=np.int64)

Addresses = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, kw_only=True)
class OperandLoad:
    """One way of loading a fragment."""

    name: str
    fragment: FragmentMap
    #: Whether a line of memory runs along K; otherwise along the rows of the fragment (N of B).
    along_k: bool

    @property
    def lines(self) -> int:
        """Lines of memory that a fragment touches."""
        return self.fragment.rows if self.along_k else self.fragment.columns

    @property
    def line_bytes(self) -> int:
        """Bytes of each line that a fragment takes."""
        return self.fragment.columns if self.along_k else self.fragment.rows

    def addresses(self, pitch: int) -> Addresses:
        """Byte offsets from the tile's corner, [64 lanes, 8 bytes].

        Raises:
            Refusal: lines that would overlap, or a pitch that is no whole number.
        """
        pitch = whole("pitch", pitch)
        if pitch < self.line_bytes:
            raise Refusal(f"{self.name}: a pitch of {pitch} bytes", hint=f"a line has {self.line_bytes} bytes")
        along = 8 * QUARTER[:, np.newaxis] + _BYTE
        across = np.broadcast_to(ROW[:, np.newaxis], along.shape)
        return across * pitch + along if self.along_k else along * pitch + across

    def load(self, memory: Bytes, pitch: int) -> Words:
        """The fragment, byte by byte: uint32 [64, 2].

        Args:
            memory: uint8 [bytes], the tile's corner first.
            pitch: bytes from line to line.

        Raises:
            Refusal: lines that would overlap, or memory of another type or that ends before the tile.
        """
        addresses = self.addresses(pitch)
        self.require_inside(memory, addresses)
        return _words(memory[addresses])

    def require_inside(self, memory: Bytes, addresses: Addresses) -> None:
        """Raises: Refusal for memory that is not uint8 [bytes] up to the last of these addresses."""
        if memory.dtype != np.uint8 or memory.ndim != 1 or memory.size <= addresses.max():
            raise Refusal(
                f"{self.name}: memory of {memory.dtype} {memory.shape}",
                hint=f"uint8 [{int(addresses.max()) + 1} or more]",
            )


A_ROW_MAJOR = OperandLoad(name="A row-major", fragment=DUMMA_A, along_k=True)
B_COLUMN_MAJOR = OperandLoad(name="B column-major", fragment=DUMMA_B, along_k=True)
B_ROW_MAJOR = OperandLoad(name="B row-major", fragment=DUMMA_B, along_k=False)
LOADS = (A_ROW_MAJOR, B_COLUMN_MAJOR, B_ROW_MAJOR)


def load_fragment8(load: OperandLoad, memory: Bytes, pitch: int) -> Words:
    """The same fragment by one read of 8 bytes a lane: uint32 [64, 2].

    Raises:
        Refusal: the bytes of a lane are no neighbours, their address is no multiple of 8, or as `OperandLoad.load`.
    """
    if not load.along_k:
        raise Refusal(f"{load.name}: the 8 bytes of a lane are {pitch} bytes apart", hint="load them one by one")
    addresses = load.addresses(pitch)
    load.require_inside(memory, addresses)
    first = addresses[:, 0]
    if np.any(first % FRAGMENT_BYTES):
        raise Refusal(f"{load.name}: pitch {pitch} is no multiple of 8", hint="read two words of 4 bytes instead")
    eights = np.ascontiguousarray(memory[: memory.size // FRAGMENT_BYTES * FRAGMENT_BYTES]).view("<u8")
    return eights[first // FRAGMENT_BYTES].view(np.uint32).reshape(LANES, 2)


def prove_load(load: OperandLoad, pitch: int) -> Bijection:
    """Proves that a load brings every element of the operand once, and to the place where the unit wants it.

    The map of the unit is proved first; then every byte of the fragment is followed from its address back to its
    element of the matrix, and that element's place is compared with where the byte went.

    Raises:
        NotABijection: an element twice, missing or elsewhere.
    """
    prove_fragment(load.fragment)
    line, byte = np.divmod(load.addresses(pitch), pitch)
    row, column = (line, byte) if load.along_k else (byte, line)
    element = (row * load.fragment.columns + column).reshape(-1)
    place = np.asarray(load.fragment.place_number(element))
    if np.any(place != np.arange(place.size)):
        lost = int(np.flatnonzero(place != np.arange(place.size))[0])
        raise NotABijection(f"{load.name}: byte {lost} of the fragment holds the element of byte {place[lost]}")
    return prove_enumeration([element], load.fragment.rows * load.fragment.columns)


def _words(loaded: Bytes) -> Words:
    return np.ascontiguousarray(loaded).view("<u4").astype(np.uint32, copy=False)
