"""What ninfer's choice between its two FP8 GEMM kernels was calibrated with: schedules, geometries, measured constants.

Nothing here decides; the predicate is `routing`. A calibration holds for one device: the ratio says how long the TMA
kernel takes for a token of work relative to the cp.async kernel, and was solved on that device at and above its floor.
"""

from dataclasses import dataclass

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True, kw_only=True)
class GemmSchedule:
    """The tile of one kernel."""

    block_tokens: int
    block_rows: int
    block_k: int
    stages: int
    #: CTAs that share an SM, as the cost model takes it.
    blocks_per_sm: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A projection of the model: out_features N, in_features K, and from which widths on it is quantised (A8)."""

    name: str
    out_features: int
    in_features: int
    #: First width of A8 in `linear`; None: always bf16 activations (A16).
    a8_from: int | None
    #: Widths below `a8_from` that are A8 as well.
    a8_also: frozenset[int] = frozenset()
    #: First width of A8 in `linear_add`, where that differs.
    a8_add_from: int | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The constants of one revision of the predicate on one device."""

    name: str
    device: str
    arch: str
    #: SMs of the device.
    sm_count: int
    #: When it was measured, as far as published.
    date: str
    #: Time of the TMA kernel for a token of work, relative to the cp.async kernel.
    work_ratio: float
    #: By how much the modelled cost must be lower.
    margin: float
    #: Narrowest width.
    min_tokens: int
    #: Widest width of a geometry (out_features, in_features); others have none.
    max_tokens: tuple[tuple[tuple[int, int], int], ...] = ()
    #: Whether the width must be whole tiles of the cp.async kernel.
    whole_tiles: bool = False
    #: From this width on the route is taken without asking the model; None: never.
    always_from: int | None = None
    #: Whether K must fill the TMA kernel's stages.
    fills_stages: bool = False
    #: Bytes that the address of the weight scales is a multiple of.
    scale_alignment: int = 1
    source: str
    evidence: Evidence

    def ceiling(self, out_features: int, in_features: int) -> int | None:
        """The widest width of a geometry; None without one."""
        return dict(self.max_tokens).get((out_features, in_features))


_TMA_FILE = "Neroued/ninfer src/ops/linear/fp8/fp8_a8_tma.cuh @1ba31703"
_SCHEDULE_FILE = "Neroued/ninfer src/ops/linear/fp8/fp8_a8_schedule.cuh @1ba31703"
_PORT_FILE = "Hundsbuah/ninfer src/ops/linear/fp8/fp8_a8_tma.cuh @64a4e4f4"
_DOC = "Neroued/ninfer docs/maintainer/fp8-a8-tma-route.md @01591621"

TMA_SCHEDULE = GemmSchedule(
    block_tokens=256, block_rows=128, block_k=64, stages=4, blocks_per_sm=1, source=f"{_TMA_FILE}, {_SCHEDULE_FILE}"
)
CP_ASYNC_SCHEDULE = GemmSchedule(
    block_tokens=64, block_rows=128, block_k=128, stages=2, blocks_per_sm=2, source=_SCHEDULE_FILE
)

ATTENTION = Geometry(name="attn_input", out_features=14336, in_features=5120, a8_from=12)
GDN = Geometry(name="gdn_input", out_features=16384, in_features=5120, a8_from=11)
MLP = Geometry(name="mlp_gate_up", out_features=34816, in_features=5120, a8_from=5, a8_also=frozenset({1}))
RESIDUAL_6144 = Geometry(name="residual_6144", out_features=5120, in_features=6144, a8_from=25, a8_add_from=22)
RESIDUAL_17408 = Geometry(name="residual_17408", out_features=5120, in_features=17408, a8_from=25, a8_add_from=25)
VOCABULARY = Geometry(name="vocabulary", out_features=248320, in_features=5120, a8_from=None)

#: The geometries of ninfer; source: src/ops/linear/fp8/{fp8_config.h, fp8_dispatch.cpp}, Neroued/ninfer @71eb3565.
GEOMETRIES = (ATTENTION, GDN, MLP, RESIDUAL_6144, RESIDUAL_17408, VOCABULARY)

_CEILINGS = (((RESIDUAL_6144.out_features, RESIDUAL_6144.in_features), 4096),)

RTX_5090 = Calibration(
    name="rtx5090",
    device="NVIDIA GeForce RTX 5090",
    arch="sm_120a",
    sm_count=170,
    date="2026-09, Neroued/ninfer pull request 167, opened 2026-09-03",
    work_ratio=0.936,
    margin=0.02,
    min_tokens=1024,
    max_tokens=_CEILINGS,
    source=f"{_SCHEDULE_FILE}; {_DOC}",
    evidence=Evidence.DOCUMENTED,
)
RTX_5090_WHOLE_TILES = Calibration(
    name="rtx5090-whole-tiles",
    device="NVIDIA GeForce RTX 5090",
    arch="sm_120a",
    sm_count=170,
    date="2026-09, the revision that pull request 167 was reviewed with",
    work_ratio=0.936,
    margin=0.02,
    min_tokens=1024,
    max_tokens=_CEILINGS,
    whole_tiles=True,
    source="Neroued/ninfer src/ops/linear/fp8/fp8_a8_schedule.cuh, revision 1 of pull request 167",
    evidence=Evidence.DOCUMENTED,
)
#: A port to another branch. Its ceiling belongs to a call site (5120 x 6144, linear_add), not to the geometry.
RTX_5090_PORT = Calibration(
    name="rtx5090-port",
    device="NVIDIA GeForce RTX 5090",
    arch="sm_120a",
    sm_count=170,
    date="not published",
    work_ratio=0.936,
    margin=0.02,
    min_tokens=1024,
    max_tokens=_CEILINGS,
    always_from=2048,
    fills_stages=True,
    scale_alignment=4,
    source=_PORT_FILE,
    evidence=Evidence.DOCUMENTED,
)

#: The calibrations by name.
CALIBRATIONS = {record.name: record for record in (RTX_5090, RTX_5090_WHOLE_TILES, RTX_5090_PORT)}


def find_calibration(name: str) -> Calibration:
    """The calibration of a name.

    Raises:
        Refusal: there is none.
    """
    if not isinstance(name, str) or name not in CALIBRATIONS:
        raise Refusal(f"no calibration is called {name!r}", hint=f"known: {', '.join(CALIBRATIONS)}")
    return CALIBRATIONS[name]


def find_geometry(out_features: int, in_features: int) -> Geometry | None:
    """The geometry of that shape, if ninfer has it."""
    shapes = {(geometry.out_features, geometry.in_features): geometry for geometry in GEOMETRIES}
    return shapes.get((out_features, in_features))
