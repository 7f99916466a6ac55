"""Which target an instruction needs: what ptxas refuses in a module for an older one.

A row says: this mnemonic with these qualifiers needs at least this target, or one of these architecture-specific ones.
Targets below sm_80 are not modelled, so that what sm_80 and older have needs no row. Source: the Target ISA Notes of
each instruction's section in the PTX ISA 9.0; the rows that tests/simulators/test_launch_targets.py names were checked
against ptxas 13.0.88.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.requirement import BLACKWELL_FAMILIES, Requirement
from tileproof.simulators.ptx.decoding.instruction_text import opcode, where
from tileproof.simulators.ptx.text.syntax import Instruction, Special


@dataclass(frozen=True)
class Need:
    """What a form of an instruction needs.

    Attributes:
        section: of the PTX ISA.
        target: that has it.
        words: qualifiers that the form has; "a|b" is either of the two.
    """

    section: str
    target: Requirement
    words: tuple[str, ...] = ()

    def concerns(self, instruction: Instruction) -> bool:
        """Whether the instruction has the form."""
        have = instruction.qualifiers
        return all(any(choice in have for choice in word.split("|")) for word in self.words)


_ADA, _HOPPER = Requirement(89), Requirement(90)
_WARPGROUPS = Requirement(90, (90,))
_SPECIFIC = Requirement(90, (90, *BLACKWELL_FAMILIES.families))
_FP8 = "e4m3|e5m2|e4m3x2|e5m2x2"
_BF16 = "bf16|bf16x2"
_CLUSTER_SPACE = Need("State Spaces: shared", _HOPPER, ("shared::cluster",))
_CLUSTER_SCOPE = Need("Memory Consistency Model: scope", _HOPPER, ("cluster",))
_MEMORY = (_CLUSTER_SPACE, _CLUSTER_SCOPE)

NEEDS: Mapping[str, tuple[Need, ...]] = {
    "wgmma": (Need("wgmma.mma_async", _WARPGROUPS),),
    "setmaxnreg": (Need("setmaxnreg", _SPECIFIC),),
    "elect": (Need("elect.sync", _HOPPER),),
    "mapa": (Need("mapa", _HOPPER),),
    "getctarank": (Need("getctarank", _HOPPER),),
    "griddepcontrol": (Need("griddepcontrol", _HOPPER),),
    "stmatrix": (
        Need("stmatrix", _HOPPER),
        Need("stmatrix", BLACKWELL_FAMILIES, ("m16n8",)),
    ),
    "ldmatrix": (Need("ldmatrix", BLACKWELL_FAMILIES, ("m16n16|m8n16",)),),
    "barrier": (Need("barrier.cluster", _HOPPER, ("cluster",)),),
    "fence": (
        Need(
            "membar, fence: .proxy.async", _HOPPER, ("proxy", "async|async.global|async.shared::cta|tensormap::generic")
        ),
        Need("membar, fence: .mbarrier_init", _HOPPER, ("mbarrier_init",)),
        Need("membar, fence: .sync_restrict", _HOPPER, ("sync_restrict::shared::cta|sync_restrict::shared::cluster",)),
        _CLUSTER_SCOPE,
    ),
    "mbarrier": (
        Need("mbarrier.try_wait", _HOPPER, ("try_wait",)),
        Need("mbarrier: transactions", _HOPPER, ("expect_tx|complete_tx",)),
        *_MEMORY,
    ),
    "cp": (
        Need("cp.async.bulk", _HOPPER, ("bulk",)),
        Need("cp.reduce.async.bulk", _HOPPER, ("reduce",)),
    ),
    "st": (Need("st.async", _HOPPER, ("async",)), *_MEMORY),
    "red": (
        Need("red.async", _HOPPER, ("async",)),
        *_MEMORY,
    ),
    "atom": _MEMORY,
    "ld": _MEMORY,
    "cvta": (_CLUSTER_SPACE,),
    "isspacep": (_CLUSTER_SPACE,),
    "prefetch": (Need("prefetch.tensormap", _HOPPER, ("tensormap",)),),
    "tensormap": (
        Need("tensormap.replace", _SPECIFIC, ("replace",)),
        Need("tensormap.cp_fenceproxy", _HOPPER, ("cp_fenceproxy",)),
    ),
    "redux": (Need("redux.sync: .f32", Requirement(100, (100, 103)), ("f32",)),),
    "mma": (
        Need("mma: .e4m3 and .e5m2", _ADA, (_FP8,)),
        Need("mma: .kind", Requirement(120, (120, 121)), ("kind::f8f6f4|kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4",)),
    ),
    "cvt": (
        Need("cvt: .e4m3x2 and .e5m2x2", _ADA, (_FP8,)),
        Need("cvt: .bf16 from integers", _HOPPER, ("bf16", "u8|s8|u16|s16|u32|s32|u64|s64")),
        Need("cvt: .rs", Requirement(100, (100, 103)), ("rs",)),
    ),
    **{name: (Need(f"{name}: .bf16", _HOPPER, (_BF16,)),) for name in ("add", "sub", "mul", "setp", "set")},
}


def check(instruction: Instruction, target: str) -> None:
    """Whether a module for `target` may use the instruction.

    Raises:
        Refusal: the target does not have it.
    """
    for need in NEEDS.get(instruction.mnemonic, ()):
        if need.concerns(instruction) and not need.target.met_by(target):
            raise _refused(instruction, target, need)
    for operand in instruction.operands:
        late = isinstance(operand, Special) and ("cluster" in operand.name or operand.name == "%aggr_smem_size")
        if late and not _HOPPER.met_by(target):
            raise _refused(instruction, target, Need("Special Registers", _HOPPER))


def _refused(instruction: Instruction, target: str, need: Need) -> Refusal:
    return Refusal(
        f'{opcode(instruction)} at {where(instruction)} needs {need.target} (PTX ISA, "{need.section}"): the module is '
        f"for {target}",
        hint="compile for that target",
    )
