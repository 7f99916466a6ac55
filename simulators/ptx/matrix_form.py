"""What a matrix instruction multiplies, and where its operands are: the decoded form of `mma` and `wgmma`."""

from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.wgmma_tile import Major
from tileproof.oracle.units.instruction import Instruction


@dataclass(frozen=True)
class RegisterMatrix:
    """A matrix in the registers of a warp or warpgroup.

    Attributes:
        fragment: who holds which element.
        slots: one for each register of a lane.
        narrow: for each slot, the operand type's bits where the register is wider, else 0.
    """

    fragment: FragmentMap
    slots: tuple[int, ...]
    narrow: tuple[int, ...]


@dataclass(frozen=True)
class SharedMatrix:
    """An operand of `wgmma` in shared memory.

    Attributes:
        descriptor: slot of the matrix descriptor.
        rows: M or N.
        element_bits: 8, 16 or 32.
        major: which axis is contiguous.
    """

    descriptor: int
    rows: int
    element_bits: int
    major: Major


@dataclass(frozen=True)
class Product:
    """D = A·Bᵀ + C, one instruction.

    Attributes:
        instruction: decides the arithmetic.
        a: M × K.
        b: N × K.
        c: M × N.
        d: M × N.
        negates_a: `imm-scale-a` is -1.
        negates_b: `imm-scale-b` is -1.
        adds_c: slot of the predicate `scale-d`: where it is false, C counts as zero. NONE: C is always added.
        adds_c_negated: that predicate is read inverted.
    """

    instruction: Instruction
    a: RegisterMatrix | SharedMatrix
    b: RegisterMatrix | SharedMatrix
    c: RegisterMatrix
    d: RegisterMatrix
    negates_a: bool = False
    negates_b: bool = False
    adds_c: int = -1
    adds_c_negated: bool = False


class ProductOrder(Enum):
    """What `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group` do."""

    FENCE = "fence"
    COMMIT = "commit_group"
    WAIT = "wait_group"


@dataclass(frozen=True)
class ProductOrderForm:
    """An instruction that orders `wgmma`.

    Attributes:
        action: what it does.
        pending: of WAIT, how many of the last groups may stay open.
    """

    action: ProductOrder
    pending: int = 0
