"""NVIDIA's matrix instructions: one line an entry, Volta to Blackwell.

"Leeds" are the hardware vectors beside Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004
(5,000 a file, all reproduced); "MMA-Sim" is Xie et al., arXiv 2511.10909v2, package mmasim 2.1.1; "RTX 4060" are the
616,077 recordings inside the source distribution of mmaemu 0.1.0; "H200" is tests/golden/h200_matrix_unit.npz.

Not here, so refused: sm_103, sm_107, sm_110, sm_121, sparse forms, `.ws`, `cta_group::2`. Nobody has published them.
"""

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import FLOAT64
from tileproof.oracle.units.instruction import Family, Shape
from tileproof.oracle.units.unit import (
    CUT_TO_E8M13,
    CUT_TO_FLOAT32,
    ROUND_TO_FLOAT16,
    Conversion,
    FmaChain,
    FusedSum,
    GroupScaledSum,
    IntegerSum,
    LateSum,
    ScaledSum,
)
from tileproof.oracle.units.unit_entry import Entry, mixed, same, shapes

VOLTA = ("sm_70",)
TURING = ("sm_75",)
AMPERE = ("sm_80", "sm_86")
ADA = ("sm_89",)
HOPPER = ("sm_90",)
BLACKWELL = ("sm_100",)
RTX_BLACKWELL = ("sm_120",)

NVIDIA_ARCHITECTURES = (*VOLTA, *TURING, *AMPERE, *ADA, *HOPPER, *BLACKWELL, *RTX_BLACKWELL)

#: CUDA releases whose assembler was seen to expand the 8-bit `mma` in the early and in the present way.
EARLY_ASSEMBLERS = ("12.4", "12.6")
PRESENT_ASSEMBLERS = ("12.8", "12.9", "13.0")

_F8 = mixed("e4m3", "e5m2")
_F8F6F4 = mixed("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_I8 = mixed("s8", "u8")

_LEEDS, _MMA_SIM = "Leeds vectors", "MMA-Sim"
_H200 = "H200, docs/evidence/h200-2026-11-30/matrix_unit.json"
_SASS = "machine code of ptxas 12.4 to 13.0"
_TWO_MODELS = f"{_MMA_SIM}; Khattak and Mikaitis: two published models agree"
_PTX_INTEGER = "PTX ISA 9.1, mma, wgmma.mma_async, tcgen05.mma: exact, wrapped to 32 bits, or clamped by .satfinite"


def _fused(group: int, fraction_bits: int, least_exponent: int, conversion: Conversion = CUT_TO_FLOAT32) -> FusedSum:
    return FusedSum(group=group, fraction_bits=fraction_bits, least_exponent=least_exponent, conversion=conversion)


def _to_f16(group: int, fraction_bits: int, least_exponent: int) -> FusedSum:
    return _fused(group, fraction_bits, least_exponent, ROUND_TO_FLOAT16)


VOLTA_F32, VOLTA_F16 = _fused(4, 23, -131), _to_f16(4, 23, -19)
AMPERE_F32, AMPERE_F16 = _fused(8, 24, -132), _to_f16(8, 24, -20)
AMPERE_TF32, HOPPER_TF32 = _fused(4, 24, -132), _fused(8, 25, -133)
HOPPER_F32, HOPPER_F16 = _fused(16, 25, -133), _to_f16(16, 25, -21)
#: The 8-bit units: 13 fraction bits. The least exponent is never reached by a product of two 8-bit codes.
ADA_QMMA_F32, ADA_QMMA_F16 = _fused(16, 13, -132, CUT_TO_E8M13), _to_f16(16, 13, -20)
HOPPER_WGMMA_F32, HOPPER_WGMMA_F16 = _fused(32, 13, -133, CUT_TO_E8M13), _to_f16(32, 13, -21)
BLACKWELL_F32, BLACKWELL_F16 = _fused(32, 25, -133), _to_f16(32, 25, -21)
BLACKWELL_FP4 = GroupScaledSum(group=16, fraction_bits=35, least_exponent=-139, conversion=CUT_TO_FLOAT32)

_TENSOR_CORE = (*AMPERE, *ADA)
_HOPPER_AND_LATER = (*HOPPER, *BLACKWELL, *RTX_BLACKWELL)
_F16_SHAPES = shapes("16x8x8", "16x8x16")
_TF32_SHAPES = shapes("16x8x4", "16x8x8")


def _warpgroup(k: int) -> tuple[Shape, ...]:
    """PTX ISA 9.1, wgmma.mma_async, matrix shape: n in steps of 8 to 256."""
    return tuple(Shape(64, n, k) for n in range(8, 257, 8))


#: PTX ISA 9.1, wgmma.mma_async, integer types.
_WARPGROUP_INTEGER = tuple(Shape(64, n, 32) for n in (8, 16, 24, *range(32, 257, 16)))


def _tensor_memory(k: int) -> tuple[Shape, ...]:
    """One block (`cta_group::1`)."""
    return tuple(Shape(m, n, k) for m in (64, 128) for n in range(8, 257, 8))


def _tensor_memory_scaled(k: int) -> tuple[Shape, ...]:
    return tuple(Shape(128, n, k) for n in range(8, 257, 8))


_FLOAT_ENTRIES = (
    Entry(
        architectures=VOLTA,
        family=Family.MMA,
        shapes=shapes("8x8x4"),
        operands=same("f16"),
        units={"f32": VOLTA_F32, "f16": VOLTA_F16},
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: V100",
    ),
    Entry(
        architectures=TURING,
        family=Family.MMA,
        shapes=shapes("8x8x4"),
        operands=same("f16"),
        units={"f32": VOLTA_F32, "f16": VOLTA_F16},
        evidence=Evidence.INFERRED,
        source=f"{_MMA_SIM} alone",
    ),
    Entry(
        architectures=TURING,
        family=Family.MMA,
        shapes=shapes("16x8x8"),
        operands=same("f16"),
        units={"f32": AMPERE_F32, "f16": AMPERE_F16},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=_TENSOR_CORE,
        family=Family.MMA,
        shapes=_F16_SHAPES,
        operands=same("f16"),
        units={"f32": AMPERE_F32, "f16": AMPERE_F16},
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: A100, A2, Ada, L40S",
    ),
    Entry(
        architectures=_TENSOR_CORE,
        family=Family.MMA,
        shapes=_F16_SHAPES,
        operands=same("bf16"),
        units={"f32": AMPERE_F32},
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: A100, A2, Ada, L40S",
    ),
    Entry(
        architectures=_TENSOR_CORE,
        family=Family.MMA,
        shapes=_TF32_SHAPES,
        operands=same("tf32"),
        units={"f32": AMPERE_TF32},
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: A100, A2, Ada, L40S",
    ),
    Entry(
        architectures=ADA,
        family=Family.MMA,
        shapes=shapes("16x8x16", "16x8x32"),
        operands=_F8,
        units={"f32": ADA_QMMA_F32, "f16": ADA_QMMA_F16},
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: Ada, L40S; RTX 4060",
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=_F16_SHAPES,
        operands=same("f16"),
        units={"f32": HOPPER_F32, "f16": HOPPER_F16},
        evidence=Evidence.MEASURED,
        source=f"H200 (float32); {_LEEDS}: H100, H200, B200",
    ),
    Entry(
        architectures=RTX_BLACKWELL,
        family=Family.MMA,
        shapes=_F16_SHAPES,
        operands=same("f16"),
        units={"f32": HOPPER_F32, "f16": HOPPER_F16},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=_F16_SHAPES,
        operands=same("bf16"),
        units={"f32": HOPPER_F32},
        evidence=Evidence.MEASURED,
        source=f"H200; {_LEEDS}: H100, H200, B200",
    ),
    Entry(
        architectures=RTX_BLACKWELL,
        family=Family.MMA,
        shapes=_F16_SHAPES,
        operands=same("bf16"),
        units={"f32": HOPPER_F32},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=shapes("16x8x4"),
        operands=same("tf32"),
        units={"f32": HOPPER_TF32},
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: H100, H200, B200",
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=shapes("16x8x8"),
        operands=same("tf32"),
        units={"f32": HOPPER_TF32},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=RTX_BLACKWELL,
        family=Family.MMA,
        shapes=_TF32_SHAPES,
        operands=same("tf32"),
        units={"f32": HOPPER_TF32},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=HOPPER,
        family=Family.WGMMA,
        shapes=_warpgroup(16),
        operands=same("f16"),
        units={"f32": HOPPER_F32, "f16": HOPPER_F16},
        evidence=Evidence.MEASURED,
        source=_H200,
    ),
    Entry(
        architectures=HOPPER,
        family=Family.WGMMA,
        shapes=_warpgroup(16),
        operands=same("bf16"),
        units={"f32": HOPPER_F32},
        evidence=Evidence.MEASURED,
        source=_H200,
    ),
    Entry(
        architectures=HOPPER,
        family=Family.WGMMA,
        shapes=_warpgroup(8),
        operands=same("tf32"),
        units={"f32": HOPPER_TF32},
        evidence=Evidence.MEASURED,
        source=_H200,
    ),
    Entry(
        architectures=HOPPER,
        family=Family.WGMMA,
        shapes=_warpgroup(32),
        operands=_F8,
        units={"f32": HOPPER_WGMMA_F32},
        evidence=Evidence.MEASURED,
        source=f"H200; {_LEEDS}: H100, H200 with C = 0",
    ),
    Entry(
        architectures=HOPPER,
        family=Family.WGMMA,
        shapes=_warpgroup(32),
        operands=_F8,
        units={"f16": HOPPER_WGMMA_F16},
        evidence=Evidence.MEASURED,
        source=_H200,
    ),
    Entry(
        architectures=BLACKWELL,
        family=Family.TCGEN05,
        shapes=_tensor_memory(16),
        operands=same("f16"),
        kinds=("", "f16"),
        units={"f32": HOPPER_F32, "f16": HOPPER_F16},
        evidence=Evidence.INFERRED,
        source=f"{_LEEDS}: B200, instruction not stated; as tcgen05: two published models agree",
    ),
    Entry(
        architectures=BLACKWELL,
        family=Family.TCGEN05,
        shapes=_tensor_memory(16),
        operands=same("bf16"),
        kinds=("", "f16"),
        units={"f32": HOPPER_F32},
        evidence=Evidence.INFERRED,
        source=f"{_LEEDS}: B200, instruction not stated; as tcgen05: two published models agree",
    ),
    Entry(
        architectures=BLACKWELL,
        family=Family.TCGEN05,
        shapes=_tensor_memory(8),
        operands=same("tf32"),
        kinds=("", "tf32"),
        units={"f32": HOPPER_TF32},
        evidence=Evidence.INFERRED,
        source=f"{_LEEDS}: B200, instruction not stated; as tcgen05: two published models agree",
    ),
    Entry(
        architectures=BLACKWELL,
        family=Family.TCGEN05,
        shapes=_tensor_memory(32),
        operands=_F8F6F4,
        kinds=("", "f8f6f4"),
        units={"f32": BLACKWELL_F32, "f16": BLACKWELL_F16},
        evidence=Evidence.INFERRED,
        source=f"{_MMA_SIM}; Khattak and Mikaitis; DeepGEMM issue 176: they agree",
    ),
    Entry(
        architectures=RTX_BLACKWELL,
        family=Family.MMA,
        shapes=shapes("16x8x16", "16x8x32"),
        operands=_F8,
        units={"f32": BLACKWELL_F32, "f16": BLACKWELL_F16},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=RTX_BLACKWELL,
        family=Family.MMA,
        shapes=shapes("16x8x32"),
        operands=_F8F6F4,
        kinds=("f8f6f4",),
        units={"f32": BLACKWELL_F32, "f16": BLACKWELL_F16},
        evidence=Evidence.INFERRED,
        source=_TWO_MODELS,
    ),
    Entry(
        architectures=(*_TENSOR_CORE, *_HOPPER_AND_LATER),
        family=Family.MMA,
        shapes=shapes("8x8x4"),
        operands=same("f64"),
        units={"f64": FmaChain(FLOAT64)},
        evidence=Evidence.INFERRED,
        source=f"{_MMA_SIM} alone",
    ),
    Entry(
        architectures=HOPPER,
        family=Family.MMA,
        shapes=shapes("16x8x4", "16x8x8", "16x8x16"),
        operands=same("f64"),
        units={"f64": FmaChain(FLOAT64)},
        evidence=Evidence.INFERRED,
        source=f"{_MMA_SIM} alone",
    ),
)

_EXPANDED_ENTRIES = (
    Entry(
        architectures=HOPPER,
        family=Family.MMA,
        shapes=shapes("16x8x32"),
        operands=_F8,
        units={"f32": LateSum(HOPPER_F32, chained=False)},
        assemblers=EARLY_ASSEMBLERS,
        evidence=Evidence.INFERRED,
        source=f"{_SASS}, f16 unit as measured",
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=shapes("16x8x32"),
        operands=_F8,
        units={"f32": LateSum(HOPPER_F32, chained=True)},
        assemblers=PRESENT_ASSEMBLERS,
        evidence=Evidence.MEASURED,
        source=f"H200; {_LEEDS}: B200; {_SASS}",
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=shapes("16x8x32"),
        operands=_F8,
        units={"f16": LateSum(HOPPER_F16, chained=True)},
        assemblers=PRESENT_ASSEMBLERS,
        evidence=Evidence.MEASURED,
        source=f"{_LEEDS}: H100, H200, B200; {_SASS}",
    ),
    Entry(
        architectures=(*HOPPER, *BLACKWELL),
        family=Family.MMA,
        shapes=shapes("16x8x16"),
        operands=_F8,
        units={"f32": LateSum(HOPPER_F32, chained=True), "f16": LateSum(HOPPER_F16, chained=True)},
        assemblers=PRESENT_ASSEMBLERS,
        evidence=Evidence.INFERRED,
        source=f"{_SASS} (float32; float16 by analogy with k32), f16 unit as measured",
    ),
)


def _scaled(family: Family, architectures: tuple[str, ...], shape: tuple[Shape, ...]) -> tuple[Entry, ...]:
    """kind::mxf8f6f4: one ue8m0 factor for 32 elements."""
    return (
        Entry(
            architectures=architectures,
            family=family,
            shapes=shape,
            operands=_F8F6F4,
            kinds=("mxf8f6f4",),
            scales=1,
            scale_types=("ue8m0",),
            units={"f32": ScaledSum(BLACKWELL_F32)},
            evidence=Evidence.INFERRED,
            source=f"{_MMA_SIM} alone",
        ),
    )


def _scaled_fp4(family: Family, architectures: tuple[str, ...], shape: tuple[Shape, ...]) -> tuple[Entry, ...]:
    """kind::mxf4 and mxf4nvf4: a factor for 32 or for 16 elements of e2m1."""
    return tuple(
        Entry(
            architectures=architectures,
            family=family,
            shapes=shape,
            operands=same("e2m1"),
            kinds=kinds,
            scales=scales,
            scale_types=scale_types,
            units={"f32": BLACKWELL_FP4},
            evidence=Evidence.INFERRED,
            source=f"{_MMA_SIM} alone",
        )
        for kinds, scales, scale_types in (
            (("mxf4", "mxf4nvf4"), 2, ("ue8m0",)),
            (("mxf4nvf4",), 4, ("ue8m0", "ue4m3")),
        )
    )


_SCALED_ENTRIES = (
    *_scaled(Family.MMA, RTX_BLACKWELL, shapes("16x8x32")),
    *_scaled_fp4(Family.MMA, RTX_BLACKWELL, shapes("16x8x64")),
    *_scaled(Family.TCGEN05, BLACKWELL, _tensor_memory_scaled(32)),
    *_scaled_fp4(Family.TCGEN05, BLACKWELL, _tensor_memory_scaled(64)),
)


def _integer(
    family: Family, architectures: tuple[str, ...], shape: tuple[Shape, ...], kinds: tuple[str, ...] = ("",)
) -> tuple[Entry, ...]:
    """8-bit integers, wrapped and clamped."""
    return tuple(
        Entry(
            architectures=architectures,
            family=family,
            shapes=shape,
            operands=_I8,
            kinds=kinds,
            units={"s32": IntegerSum(saturates)},
            saturates=saturates,
            evidence=Evidence.DOCUMENTED,
            source=_PTX_INTEGER,
        )
        for saturates in (False, True)
    )


_INTEGER_ENTRIES = (
    *_integer(Family.MMA, (*TURING, *_TENSOR_CORE, *_HOPPER_AND_LATER), shapes("8x8x16")),
    *_integer(Family.MMA, (*_TENSOR_CORE, *_HOPPER_AND_LATER), shapes("16x8x16", "16x8x32")),
    *_integer(Family.WGMMA, HOPPER, _WARPGROUP_INTEGER),
    *_integer(Family.TCGEN05, BLACKWELL, _tensor_memory(32), ("", "i8")),
)

NVIDIA_ENTRIES = (*_FLOAT_ENTRIES, *_EXPANDED_ENTRIES, *_SCALED_ENTRIES, *_INTEGER_ENTRIES)
