"""The matrix probe builds for every instruction it claims; the H200 script's host part agrees with an oracle device."""

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.matrix_probe import MatrixProbe, entry_name
from tileproof.oracle.matrix_unit import multiply_add
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Instruction, parse_instruction

Array = NDArray[Any]


def load_script() -> ModuleType:
    """tests/h200/matrix_unit.py as a module, also for pickling."""
    path = Path(__file__).parents[1] / "h200" / "matrix_unit.py"
    spec = importlib.util.spec_from_file_location("h200_matrix_unit", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()
INSTRUCTIONS: list[Instruction] = SCRIPT.instructions()


@dataclass
class OracleBuffer:
    array: Array
    address: int = 0

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def download(self) -> Array:
        return self.array.copy()


@dataclass(frozen=True)
class Silent:
    findings: tuple[Any, ...] = ()
    notes: tuple[object, ...] = ()


@dataclass
class OracleFunction:
    """Computes with the oracle, one fraction bit short if it is asked to be wrong."""

    instruction: Instruction
    wrong: bool

    def launch(
        self,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        shared_bytes: int = 0,
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> Silent:
        a, b, c, d = (buffer.array for buffer in args[:4])
        assert int(args[4]) == len(c)
        assembler = "12.6" if self.wrong else SCRIPT.ASSEMBLER
        d[...] = multiply_add(self.instruction.name, a, b, c, arch="sm_90a", assembler=assembler)
        return Silent()


@dataclass
class OracleDevice:
    instructions: Sequence[Instruction]
    wrong: bool = False
    name: str = "oracle"
    arch: str = "sm_90a"

    def upload(self, array: Array) -> OracleBuffer:
        return OracleBuffer(array.copy())

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> OracleBuffer:
        return OracleBuffer(np.zeros(shape, dtype))

    def free(self, buffer: Any) -> None:
        pass

    def load(self, module: CompiledModule) -> Mapping[str, OracleFunction]:
        return {entry_name(instruction): OracleFunction(instruction, self.wrong) for instruction in self.instructions}


def test_the_probe_issues_each_instruction_once() -> None:
    probe = MatrixProbe(OracleDevice(INSTRUCTIONS), INSTRUCTIONS)
    issued = re.findall(r"\b(mma\.sync\S+|wgmma\.mma_async\S+)", probe.module.ptx)
    assert len(issued) == len(INSTRUCTIONS) == len(set(issued))
    for instruction in INSTRUCTIONS:
        types = ".".join((instruction.accumulator, *instruction.operands))
        assert any(f".{instruction.shape}." in text and types in text for text in issued), instruction.name
    assert ".local" not in probe.module.ptx


def test_the_probe_refuses_what_it_cannot_issue() -> None:
    for name in ("mma.m8n8k4.f64.f64.f64", "wgmma.m64n16k32.f32.e4m3.e4m3", "tcgen05.m64n8k32.f32.e4m3.e4m3"):
        with pytest.raises(Refusal, match="cannot issue"):
            MatrixProbe(OracleDevice(()), [parse_instruction(name)])


def test_the_h200_script_agrees_with_an_oracle_device() -> None:
    chosen = [instruction for instruction in INSTRUCTIONS if instruction.name in CHOSEN]
    evidence = SCRIPT.collect(OracleDevice(chosen), chosen, outputs=3_000, workers=0)
    assert SCRIPT.agrees(evidence)
    assert all(comparison["outputs"] >= 3_000 for comparison in evidence["comparisons"])
    assert all(
        comparison["told_from_one_bit_fewer"] > 0 and comparison["told_from_one_bit_more"] > 0
        for comparison in evidence["comparisons"]
        if comparison["instruction"] != "wgmma.m64n8k32.s32.s8.s8"
    )


CHOSEN = {
    "mma.m16n8k16.f16.f16.f16",
    "mma.m16n8k8.f32.tf32.tf32",
    "mma.m16n8k32.f32.e4m3.e5m2",
    "wgmma.m64n8k16.f32.bf16.bf16",
    "wgmma.m64n8k32.s32.s8.s8",
}


def test_h4_finds_the_least_exponents_of_the_table() -> None:
    chosen = [instruction for instruction in INSTRUCTIONS if SCRIPT.has_zero_probe(instruction)]
    probe = MatrixProbe(OracleDevice(chosen), chosen)
    found = {instruction.name: set(SCRIPT.least_exponent(probe, instruction)["observed"]) for instruction in chosen}
    # Hopper: float16 -21 - 25, float32 -133 - 25 (matrix unit table).
    assert found == {name: {-46} if ".f16.f16" in name else {-158} for name in found}
    assert len(found) == 9


def test_the_h200_script_sees_a_wrong_device() -> None:
    chosen = [parse_instruction("mma.m16n8k32.f32.e4m3.e4m3")]
    evidence = SCRIPT.collect(OracleDevice(chosen, wrong=True), chosen, outputs=3_000, workers=0)
    assert not SCRIPT.agrees(evidence)
    assert evidence["comparisons"][0]["examples"]
