"""AMD's matrix instructions (`v_mfma`) of CDNA1, CDNA2 and CDNA3, as far as models are published.

Everything here is one publication's reading (Xie et al., "MMA-Sim", arXiv 2511.10909v2, package mmasim 2.1.1), for
CDNA1 and CDNA2 in part also Li et al., "FTTN", arXiv 2403.00232. No recording from AMD hardware is public, so every
floating entry is inferred. The code of a NaN and the sign of an exact zero are not published: see `mfma` for ours.

Not here, so refused: CDNA4 (gfx950) and sparse forms. Nobody has published them. Forms that compute several blocks at
once (_2b, _4b, _16b) are named by the shape of one block.
"""

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import FLOAT32, FLOAT64
from tileproof.oracle.units.instruction import Family, Shape
from tileproof.oracle.units.unit import ExactSum, FlooredSum, FlushedPairs, FmaChain, IntegerSum, Unit
from tileproof.oracle.units.unit_entry import Entry, Pairs, mixed, same, shapes

CDNA1 = ("gfx908",)
CDNA2 = ("gfx90a",)
CDNA3 = ("gfx942",)

AMD_ARCHITECTURES = (*CDNA1, *CDNA2, *CDNA3)

_MMA_SIM = "MMA-Sim alone"
_FTTN = "MMA-Sim and FTTN"

_F32_SHAPES = shapes("32x32x2", "32x32x1", "16x16x4", "16x16x1", "4x4x1")
_F16_SHAPES = shapes("32x32x8", "32x32x4", "16x16x16", "16x16x4", "4x4x4")
_BF16_SHAPES = shapes("32x32x4", "32x32x2", "16x16x8", "16x16x2", "4x4x2")


def _entry(
    architectures: tuple[str, ...],
    shape: tuple[Shape, ...],
    operands: Pairs,
    unit: Unit,
    source: str = _MMA_SIM,
    accumulator: str = "f32",
    one_k: bool = False,
) -> Entry:
    return Entry(
        architectures=architectures,
        family=Family.MFMA,
        shapes=shape,
        operands=operands,
        units={accumulator: unit},
        evidence=Evidence.INFERRED,
        source=source,
        one_k=one_k,
    )


_INTEGER_ENTRIES = tuple(
    Entry(
        architectures=architectures,
        family=Family.MFMA,
        shapes=shape,
        operands=same("s8"),
        units={"s32": IntegerSum(saturates=False)},
        evidence=Evidence.DOCUMENTED,
        source="AMD CDNA instruction set guides, V_MFMA_I32_*_I8: 32-bit sums; that they wrap is our reading",
    )
    for architectures, shape in (
        ((*CDNA1, *CDNA2), shapes("32x32x8", "32x32x4", "16x16x16", "16x16x4", "4x4x4")),
        (CDNA3, shapes("32x32x16", "32x32x4", "16x16x32", "16x16x4", "4x4x4")),
    )
)

AMD_ENTRIES = (
    _entry((*CDNA1, *CDNA2, *CDNA3), _F32_SHAPES, same("f32"), FmaChain(FLOAT32)),
    _entry((*CDNA2, *CDNA3), shapes("16x16x4", "4x4x4"), same("f64"), FmaChain(FLOAT64), accumulator="f64"),
    _entry(CDNA1, _F16_SHAPES, same("f16"), ExactSum(4), _FTTN),
    _entry(CDNA1, _BF16_SHAPES, same("bf16"), ExactSum(2), _FTTN),
    _entry(CDNA2, _F16_SHAPES, same("f16"), FlushedPairs(4)),
    _entry(CDNA2, _BF16_SHAPES, same("bf16"), FlushedPairs(2)),
    _entry(CDNA2, _F16_SHAPES, same("bf16"), FlushedPairs(4), one_k=True),
    _entry(CDNA3, _F16_SHAPES, same("f16", "bf16"), FlooredSum(8)),
    _entry(CDNA3, shapes("32x32x4", "16x16x8"), same("tf32"), FlooredSum(4)),
    _entry(
        CDNA3,
        shapes("32x32x16", "16x16x32"),
        mixed("e4m3fnuz", "e5m2fnuz"),
        FlooredSum(16, interleaved=True),
    ),
    *_INTEGER_ENTRIES,
)
