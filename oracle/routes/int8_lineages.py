"""The families of tuned INT8 W8A8 kernels of metainfer, as records: guards, packed weights, generic arms.

A guard is the condition under which a tuned kernel is launched; `int8_routing` asks them. Example, `kv_b` of the GLM
family: K = 512, N = 3,584, M at least 64 and a multiple of 64.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.evidence import Evidence

_SKILLS = "HuangPuStar/MetaInfer metainfer/tasks/dcu_kernel_auto_opt/skills"
_FOUNDATIONS = f"{_SKILLS}/int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad"
_PREFILL = f"{_SKILLS}/int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad"
_DECODE = f"{_SKILLS}/int8-w8a8-gemm-decode/SKILL.md @08ddbe41"


class Phase(Enum):
    """Which family of kernels a call belongs to."""

    DECODE = "decode: split K, small tiles"
    PREFILL = "prefill: tiles of M, no split of K"


@dataclass(frozen=True, kw_only=True)
class Extent:
    """What a guard asks of one extent; nothing by default."""

    exactly: int | None = None
    at_least: int = 1
    multiple_of: int = 1

    def accepts(self, value: int) -> bool:
        """Whether a value passes."""
        fits = value >= self.at_least and value % self.multiple_of == 0
        return fits and self.exactly in (None, value)

    def __str__(self) -> str:
        if self.exactly is not None:
            return f"= {self.exactly}"
        parts = [f">= {self.at_least}"] if self.at_least > 1 else []
        parts += [f"a multiple of {self.multiple_of}"] if self.multiple_of > 1 else []
        return " and ".join(parts) or "any"


@dataclass(frozen=True)
class Guard:
    """The condition of one tuned kernel."""

    name: str
    m: Extent
    n: Extent
    k: Extent
    #: The layout of its weight, a name of `layouts.PACKS`.
    pack: str = "contiguous"

    def accepts(self, m: int, n: int, k: int) -> bool:
        """Whether a call reaches the kernel."""
        return self.m.accepts(m) and self.n.accepts(n) and self.k.accepts(k)

    def __str__(self) -> str:
        return f"{self.name}: m {self.m}, n {self.n}, k {self.k}"


@dataclass(frozen=True)
class PackedWeight:
    """A weight that the lineage stores packed: its exact (K, N) and layout, which the scalar fallback decodes."""

    k: int
    n: int
    pack: str


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """One family of tuned kernels."""

    name: str
    phase: Phase
    guards: tuple[Guard, ...]
    packed: tuple[PackedWeight, ...]
    #: Generic arms (rows, columns, K stage), in the order in which they are tried.
    arms: tuple[tuple[int, int, int], ...]
    source: str
    evidence: Evidence


def _exact(name: str, m: int, n: int, k: int, pack: str) -> Guard:
    return Guard(name, Extent(exactly=m), Extent(exactly=n), Extent(exactly=k), pack)


def _packed(guards: Iterable[Guard], *more: PackedWeight) -> tuple[PackedWeight, ...]:
    """The weights of guards with exact K and N, and `more`."""
    exact = [(guard.k.exactly, guard.n.exactly, guard.pack) for guard in guards]
    return (*(PackedWeight(k, n, pack) for k, n, pack in exact if k is not None and n is not None), *more)


#: The generic arms; source: prefill skill, sections 2 and 4.1.
GENERIC_ARMS = ((64, 128, 128), (128, 64, 128), (64, 64, 128))

_TP4_M4096 = (
    _exact("qkv", 4096, 2560, 4096, "n-major"),
    _exact("o_proj", 4096, 4096, 2048, "panel-64"),
    _exact("gate_up", 4096, 768, 4096, "n-major"),
    _exact("down", 4096, 4096, 384, "n-major"),
)
_TP8_M4096 = (
    Guard("qkv", Extent(at_least=128), Extent(exactly=1280), Extent(exactly=4096), "n-major"),
    _exact("o_proj", 4096, 4096, 1024, "n-major"),
    _exact("gate_up", 4096, 384, 4096, "n-major"),
    Guard("down", Extent(at_least=128), Extent(multiple_of=128), Extent(exactly=192), "n-major"),
)
_GLM_M4096 = (
    Guard("fused_qkv_a", Extent(at_least=128), Extent(exactly=2624), Extent(exactly=6144), "panel-64-k16"),
    Guard("kv_b", Extent(at_least=64, multiple_of=64), Extent(exactly=3584), Extent(exactly=512), "stage-64-n128-k8"),
    Guard("q_b", Extent(), Extent(exactly=2048), Extent(exactly=2048), "stage-64-k8"),
    _exact("o_proj", 4096, 6144, 2048, "n-major"),
    _exact("shared_down", 4096, 6144, 256, "tile-128x64"),
    _exact("shared_gate_up", 4096, 512, 6144, "n-major"),
)
_TP4_M16 = (
    _exact("qkv", 16, 2560, 4096, "contiguous"),
    _exact("o_proj", 16, 4096, 2048, "fragment"),
    _exact("gate_up", 16, 768, 4096, "n-major"),
    _exact("down", 16, 4096, 384, "n-major"),
)

TP4_M4096 = Lineage(
    name="TP4 M4096",
    phase=Phase.PREFILL,
    guards=_TP4_M4096,
    packed=_packed(_TP4_M4096),
    arms=GENERIC_ARMS,
    source=f"{_PREFILL} section 2; packs {_FOUNDATIONS} section 2",
    evidence=Evidence.DOCUMENTED,
)
TP8_M4096 = Lineage(
    name="TP8 M4096",
    phase=Phase.PREFILL,
    guards=_TP8_M4096,
    packed=_packed(_TP8_M4096, PackedWeight(192, 4096, "n-major")),
    arms=GENERIC_ARMS,
    source=f"{_PREFILL} section 3.2",
    evidence=Evidence.DOCUMENTED,
)
GLM_TP8_M4096 = Lineage(
    name="GLM TP8 M4096",
    phase=Phase.PREFILL,
    guards=_GLM_M4096,
    packed=_packed(_GLM_M4096),
    arms=GENERIC_ARMS,
    source=f"{_PREFILL} sections 4.1, 4.2",
    evidence=Evidence.DOCUMENTED,
)
TP4_M16 = Lineage(
    name="TP4 M16",
    phase=Phase.DECODE,
    guards=_TP4_M16,
    packed=_packed(_TP4_M16),
    arms=(),
    source=f"{_DECODE} sections 1.1, 1.2",
    evidence=Evidence.DOCUMENTED,
)
TP4_M3072 = Lineage(
    name="TP4 M3072",
    phase=Phase.PREFILL,
    guards=(Guard("wqkv_a", Extent(at_least=33), Extent(multiple_of=64), Extent(multiple_of=64)),),
    packed=(),
    arms=(),
    source=f"{_PREFILL} section 1",
    evidence=Evidence.DOCUMENTED,
)

#: The lineages by name.
LINEAGES = {record.name: record for record in (TP4_M4096, TP8_M4096, GLM_TP8_M4096, TP4_M16, TP4_M3072)}
