"""Other people's models of matrix units, asked for the same dot products: witnesses, never authorities.

`mmasim` 2.1.1 (Xie et al., arXiv 2511.10909) covers most instructions, `mmaemu` 0.1.0 (Ding) the 8-bit units of Ada and
Hopper. Both need torch, so neither is a dependency; they are imported when a peer is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.matrix_inputs import MatrixInputs
from tileproof.oracle.units.instruction import Family, Instruction, Shape
from tileproof.oracle.units.operand import OperandType
from tileproof.oracle.units.unit import ExactSum, FlooredSum, FlushedPairs, FmaChain, LateSum, Unit
from tileproof.oracle.units.unpacked import F16

Array = NDArray[Any]


class Peer(Protocol):
    """A model that may know an instruction."""

    name: str

    def covers(self, instruction: Instruction, arch: str, unit: Unit) -> bool:
        """Whether it can answer for this instruction of this architecture."""

    def dots(self, instruction: Instruction, arch: str, unit: Unit, inputs: MatrixInputs) -> Array:
        """D of tiles with M = N = 1, [tiles, 1, 1]."""


def peers() -> tuple[Peer, ...]:
    """Every peer whose packages are installed.

    Raises:
        ImportError: one is missing.
    """
    return Mmasim(import_module("torch"), import_module("mmasim")), Mmaemu(import_module("torch"))


def disagreements(unit: Unit, ours: Array, theirs: Array) -> NDArray[np.bool_]:
    """Elements of D where a peer's bits differ, apart from what is known of the peers.

    * FMA chains and AMD's units: the code of a NaN is not published, and peers deliver the CPU's.
    * CDNA1: the sign of an exact zero is not published; ours is +0.
    * CDNA3, 8-bit: mmasim 2.1.1 gives an infinite or NaN C the exponent 0 and then drops it, as it drops a small C,
      once products are beyond 2^25; here a NaN stays a NaN.
    """
    bits = f"u{ours.dtype.itemsize}"
    wrong = ours.view(bits) != theirs.view(bits)
    if isinstance(unit, FmaChain | ExactSum | FlushedPairs | FlooredSum):
        wrong &= ~(np.isnan(ours) & np.isnan(theirs))
    if isinstance(unit, ExactSum):
        wrong &= ~((ours == 0) & (theirs == 0))
    if isinstance(unit, FlooredSum) and unit.interleaved:
        wrong &= np.isfinite(ours) | ~np.isfinite(theirs)
    return np.asarray(wrong)


def peer_versions() -> Mapping[str, str]:
    """Installed versions of the packages that peers stand on."""
    return {name: version(name) for name in ("mmasim", "mmaemu", "torch")}


_MMASIM_ARCHITECTURES = {
    "sm_70": "Volta",
    "sm_75": "Turing",
    "sm_80": "Ampere",
    "sm_86": "Ampere",
    "sm_89": "Ada Lovelace",
    "sm_90": "Hopper",
    "sm_100": "Blackwell",
    "sm_120": "RTX Blackwell",
    "gfx908": "CDNA1",
    "gfx90a": "CDNA2",
    "gfx942": "CDNA3",
}


#: What NVIDIA's additions deliver; torch keeps a payload.
_CANONICAL_NAN: Mapping[str, Any] = {
    "f32": np.array(0x7FFFFFFF, np.uint32).view(np.float32),
    "f16": np.array(0x7FFF, np.uint16).view(np.float16),
}


@dataclass
class Mmasim:
    """The package mmasim; an instruction that the assembler expands is composed of its f16 instruction."""

    torch: Any
    mmasim: ModuleType
    name: str = "mmasim"

    def covers(self, instruction: Instruction, arch: str, unit: Unit) -> bool:
        """Whether mmasim has the instruction; it refuses by assertion."""
        if instruction.accumulator == "s32":
            return False
        try:
            self._operation(_composed(instruction) if isinstance(unit, LateSum) else instruction, arch)
        except AssertionError:
            return False
        return True

    def dots(self, instruction: Instruction, arch: str, unit: Unit, inputs: MatrixInputs) -> Array:
        """D, [tiles, 1, 1]."""
        c = self.torch.from_numpy(inputs.c[:, 0, 0].copy())
        if isinstance(unit, LateSum):
            return self._expanded(instruction, arch, unit, inputs, c)
        a, b = (
            self._operand(instruction, operand, codes[:, 0])
            for operand, codes in ((instruction.a, inputs.a), (instruction.b, inputs.b))
        )
        scales = [
            self._scale(instruction, codes[:, 0]) for codes in (inputs.scale_a, inputs.scale_b) if codes is not None
        ]
        return self._numpy(self._operation(instruction, arch).dpa(a, b, c, *scales))

    def _expanded(self, instruction: Instruction, arch: str, unit: LateSum, inputs: MatrixInputs, c: Any) -> Array:
        operation = self._operation(_composed(instruction), arch)
        halves = []
        for codes, operand in ((inputs.a, instruction.a), (inputs.b, instruction.b)):
            values = self._operand(instruction, operand, codes[:, 0]).to(self.torch.float16)
            k = np.arange(values.shape[-1])
            halves.append((values[:, k % 4 < 2], values[:, k % 4 >= 2]))
        zero = self.torch.zeros_like(c)
        total = operation.dpa(halves[0][0], halves[1][0], zero)
        if unit.chained:
            total = operation.dpa(halves[0][1], halves[1][1], total)
        else:
            total = total + operation.dpa(halves[0][1], halves[1][1], zero)
        d = self._numpy(c + total)
        return np.asarray(np.where(np.isnan(d), _CANONICAL_NAN[instruction.accumulator], d), d.dtype)

    def _operation(self, instruction: Instruction, arch: str) -> Any:
        nvidia, amd = import_module("mmasim.nv_ptx"), import_module("mmasim.amd")
        generation = _MMASIM_ARCHITECTURES[arch]
        types = f"{instruction.accumulator}.{instruction.a.name}.{instruction.b.name}"
        kind = f"kind::{instruction.kind}." if instruction.kind else ""
        if instruction.family is Family.MFMA:
            return amd.MFMA(generation, _mfma_suffix(instruction, generation))
        if instruction.scale_type is not None:
            block = f"{instruction.shape}.{kind}block{instruction.block}.{types}"
            if instruction.family is Family.MMA:
                return nvidia.MMABlockScale(generation, f"{block}.f32.{instruction.scale_type.name}")
            return nvidia.TCGen05MMABlockScale(generation, f"{block}.{instruction.scale_type.name}")
        if instruction.family is Family.WGMMA:
            return nvidia.WGMMA(generation, f"{instruction.shape}.{types}")
        if instruction.family is Family.TCGEN05:
            return nvidia.TCGen05MMA(generation, f"{instruction.shape}.{kind or _tcgen05_kind(instruction)}{types}")
        return nvidia.MMA(generation, f"{instruction.shape}.{kind}{types}.{instruction.accumulator}")

    def _operand(self, instruction: Instruction, operand: OperandType, codes: Array) -> Any:
        """Codes as the tensor that mmasim expects; narrow types sit where the instruction puts them."""
        codes = np.ascontiguousarray(codes)
        if operand.name == "e2m1" and instruction.kind in ("mxf4", "mxf4nvf4"):
            return self.torch.from_numpy((codes[..., 0::2] << 4 | codes[..., 1::2]).astype(np.uint8))
        if operand.name == "e2m1":
            return self.torch.from_numpy(codes << 2)
        if operand.name in ("e3m2", "e2m3"):
            return self.torch.from_numpy(codes)
        return self.torch.from_numpy(codes.view(f"i{codes.itemsize}")).view(self._dtype(operand))

    def _scale(self, instruction: Instruction, codes: Array) -> Any:
        assert instruction.scale_type is not None, "only scaled instructions have scales"
        return self.torch.from_numpy(np.ascontiguousarray(codes)).view(self._dtype(instruction.scale_type))

    def _dtype(self, operand: OperandType) -> Any:
        names = {
            "f64": "float64",
            "f32": "float32",
            "tf32": "float32",
            "f16": "float16",
            "bf16": "bfloat16",
            "e4m3": "float8_e4m3fn",
            "e5m2": "float8_e5m2",
            "e4m3fnuz": "float8_e4m3fnuz",
            "e5m2fnuz": "float8_e5m2fnuz",
            "ue8m0": "float8_e8m0fnu",
            "ue4m3": "float8_e4m3fn",
        }
        return getattr(self.torch, names[operand.name])

    @staticmethod
    def _numpy(d: Any) -> Array:
        return np.asarray(d.numpy()).reshape(-1, 1, 1)


def _composed(instruction: Instruction) -> Instruction:
    """The f16 instruction that an expanded 8-bit one is made of."""
    return replace(instruction, a=F16, b=F16, shape=Shape(16, 8, instruction.shape.k // 2))


def _tcgen05_kind(instruction: Instruction) -> str:
    kinds = {"f16": "f16", "bf16": "f16", "tf32": "tf32"}
    return f"kind::{kinds.get(instruction.a.name, 'f8f6f4')}."


def _mfma_suffix(instruction: Instruction, generation: str) -> str:
    names = {"tf32": "xf32", "e4m3fnuz": "fp8", "e5m2fnuz": "bf8"}
    a, b = (names.get(name, name) for name in instruction.operands)
    shape = f"{instruction.shape.m}x{instruction.shape.n}x{instruction.shape.k}"
    if generation != "CDNA3":
        return f"{instruction.accumulator}_{shape}{a}{'_1k' if instruction.one_k else ''}"
    if a in ("fp8", "bf8"):
        return f"{instruction.accumulator}_{shape}_{a}_{b}"
    return f"{instruction.accumulator}_{shape}{_blocks(instruction)}_{a}"


def _blocks(instruction: Instruction) -> str:
    """CDNA3 names the number of blocks that one instruction computes, where it is more than one."""
    blocks = {
        "f64": {"m4n4k4": 4},
        "f32": {"m4n4k1": 16, "m16n16k1": 4, "m32n32k1": 2},
        "f16": {"m4n4k4": 16, "m16n16k4": 4, "m32n32k4": 2},
        "bf16": {"m4n4k4": 16, "m16n16k4": 4, "m32n32k4": 2},
    }
    count = blocks.get(instruction.a.name, {}).get(str(instruction.shape))
    return f"_{count}b" if count else ""


@dataclass
class Mmaemu:
    """The package mmaemu: presets "ada" and "hopper"."""

    torch: Any
    name: str = "mmaemu"

    def covers(self, instruction: Instruction, arch: str, unit: Unit) -> bool:
        """8-bit `mma` of sm_89 and `wgmma` of sm_90 with float32 accumulators."""
        native = (instruction.family, arch) in ((Family.MMA, "sm_89"), (Family.WGMMA, "sm_90"))
        narrow = {*instruction.operands} <= {"e4m3", "e5m2"}
        return native and narrow and instruction.accumulator == "f32"

    def dots(self, instruction: Instruction, arch: str, unit: Unit, inputs: MatrixInputs) -> Array:
        """D, [tiles, 1, 1]."""
        dtypes = {"e4m3": self.torch.float8_e4m3fn, "e5m2": self.torch.float8_e5m2}
        a, b = (
            self.torch.from_numpy(np.ascontiguousarray(codes[:, 0])).view(dtypes[name])
            for codes, name in zip((inputs.a, inputs.b), instruction.operands, strict=True)
        )
        preset = "ada" if arch == "sm_89" else "hopper"
        dot = import_module("mmaemu.model").dot
        d = dot(a, b, self.torch.from_numpy(inputs.c[:, 0, 0].copy()), preset=preset)
        return np.asarray(d.numpy()).reshape(-1, 1, 1)
