"""Which target an instruction needs: what ptxas refuses in a module for an older one.

A row says: this mnemonic with these qualifiers needs at least this target, or one of these architecture-specific ones.
Targets below sm_80 are not modelled, so that what sm_80 and older have needs no row. Source: the Target ISA Notes of
each instruction's section in the PTX ISA 9.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.decoding.instruction_text import opcode, where
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.text.syntax import Instruction, Special


@dataclass(frozen=True)
class Need:
    """What a form of an instruction needs.

    Attributes:
        section: of the PTX ISA.
        least: the oldest target, as compute capability times ten.
        words: qualifiers that the form has; "a|b" is either of the two.
        specific: the targets that have it with the letter "a" alone; empty where any target from `least` on has it.
    """

    section: str
    least: int
    words: tuple[str, ...] = ()
    specific: tuple[int, ...] = ()

    def concerns(self, instruction: Instruction) -> bool:
        """Whether the instruction has the form."""
        have = instruction.qualifiers
        return all(any(choice in have for choice in word.split("|")) for word in self.words)

    def met_by(self, target: Limits) -> bool:
        """Whether a module for this target may use it."""
        if not self.specific:
            return target.number >= self.least
        return target.number in self.specific and target.suffix in ("a", "f")

    @property
    def targets(self) -> str:
        """The targets, in words."""
        return " or ".join(f"sm_{number}a" for number in self.specific) or f"sm_{self.least} or later"


_BLACKWELL = (100, 103, 110, 120, 121)
_FP8 = "e4m3|e5m2|e4m3x2|e5m2x2"
_BF16 = "bf16|bf16x2"
_SMALL = "e2m1x2|e2m3x2|e3m2x2|ue8m0x2"
_CLUSTER_SPACE = Need("State Spaces: shared", 90, ("shared::cluster",))
_CLUSTER_SCOPE = Need("Memory Consistency Model: scope", 90, ("cluster",))
_MEMORY = (_CLUSTER_SPACE, _CLUSTER_SCOPE)

NEEDS: Mapping[str, tuple[Need, ...]] = {
    "wgmma": (Need("wgmma.mma_async", 90, specific=(90,)),),
    "setmaxnreg": (Need("setmaxnreg", 90, specific=(90, *_BLACKWELL)),),
    "elect": (Need("elect.sync", 90),),
    "mapa": (Need("mapa", 90),),
    "getctarank": (Need("getctarank", 90),),
    "griddepcontrol": (Need("griddepcontrol", 90),),
    "stmatrix": (
        Need("stmatrix", 90),
        Need("stmatrix", 100, ("m16n8",), specific=_BLACKWELL),
    ),
    "ldmatrix": (Need("ldmatrix", 100, ("m16n16|m8n16",), specific=_BLACKWELL),),
    "barrier": (Need("barrier.cluster", 90, ("cluster",)),),
    "fence": (
        Need("membar, fence: .proxy.async", 90, ("proxy", "async|async.global|async.shared::cta|tensormap::generic")),
        Need("membar, fence: .mbarrier_init", 90, ("mbarrier_init",)),
        Need("membar, fence: .acquire and .release", 90, ("acquire|release",)),
        _CLUSTER_SCOPE,
    ),
    "mbarrier": (
        Need("mbarrier.try_wait", 90, ("try_wait",)),
        Need("mbarrier: transactions", 90, ("expect_tx|complete_tx",)),
        *_MEMORY,
    ),
    "cp": (
        Need("cp.async.bulk", 90, ("bulk",)),
        Need("cp.reduce.async.bulk", 90, ("reduce",)),
    ),
    "st": (Need("st.async", 90, ("async",)), *_MEMORY),
    "red": (
        Need("red.async", 90, ("async",)),
        Need("red: vectors", 90, ("v2|v4|v8",)),
        Need("red: .bf16", 90, (_BF16,)),
        *_MEMORY,
    ),
    "atom": (
        Need("atom: vectors", 90, ("v2|v4|v8",)),
        Need("atom: .bf16", 90, (_BF16,)),
        Need("atom: .b128", 90, ("b128",)),
        *_MEMORY,
    ),
    "ld": _MEMORY,
    "cvta": (_CLUSTER_SPACE,),
    "isspacep": (_CLUSTER_SPACE,),
    "prefetch": (Need("prefetch.tensormap", 90, ("tensormap",)),),
    "tensormap": (Need("tensormap.replace", 90, specific=(90, *_BLACKWELL)),),
    "redux": (Need("redux.sync: .f32", 100, ("f32",), specific=(100, 103)),),
    "mma": (
        Need("mma: .e4m3 and .e5m2", 89, (_FP8,)),
        Need("mma: .kind", 120, ("kind::f8f6f4|kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4",), specific=(120, 121)),
    ),
    "cvt": (
        Need("cvt: .e4m3x2 and .e5m2x2", 89, (_FP8,)),
        Need("cvt: types of 6 and 4 bits, .ue8m0x2", 100, (_SMALL,), specific=_BLACKWELL),
        Need("cvt: .rs", 100, ("rs",), specific=(100, 103)),
    ),
    **{name: (Need(f"{name}: .bf16", 90, (_BF16,)),) for name in ("add", "sub", "mul", "setp", "set")},
}


def check(instruction: Instruction, target: Limits) -> None:
    """Whether a module for `target` may use the instruction.

    Raises:
        Refusal: the target does not have it.
    """
    for need in NEEDS.get(instruction.mnemonic, ()):
        if need.concerns(instruction) and not need.met_by(target):
            raise _refused(instruction, target, need.targets, need.section)
    for operand in instruction.operands:
        if isinstance(operand, Special) and "cluster" in operand.name and target.number < 90:
            raise _refused(instruction, target, "sm_90 or later", f"Special Registers: {operand.name}")


def _refused(instruction: Instruction, target: Limits, needed: str, section: str) -> Refusal:
    return Refusal(
        f'{opcode(instruction)} at {where(instruction)} needs {needed} (PTX ISA, "{section}"): the module is for '
        f"{target.arch}",
        hint="compile for that target",
    )
