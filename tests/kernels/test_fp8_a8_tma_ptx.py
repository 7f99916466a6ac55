"""What the compiler makes of the TMA kernel of the FP8 product, and what its launcher knows of it."""

import re
from functools import cache

import pytest

from tileproof.kernels.compile import CompiledModule, CompileError, compile_source
from tileproof.kernels.fp8_a8_gemm import kernel_name, kernel_source
from tileproof.kernels.fp8_a8_selector import TMA, Route
from tileproof.kernels.fp8_a8_tma_launch import SWIZZLE_BYTES
from tileproof.kernels.occupancy import Limit, occupancy
from tileproof.kernels.resources import resources_of
from tileproof.oracle.swizzle import Swizzle

NAME = kernel_name(Route.TMA)
SOURCE = kernel_source(Route.TMA)


@cache
def module(arch: str, *defines: str, source: str = SOURCE) -> CompiledModule:
    return compile_source(source, name=f"{NAME}.cu", arch=arch, defines=("FP8_A8_OUTPUT=LinearAdd", *defines))


@pytest.mark.parametrize(("arch", "stack_bytes"), [("sm_90a", 112), ("sm_120", 16)])
def test_a_block_has_a_multiprocessor_for_itself(arch: str, stack_bytes: int) -> None:
    """128 sums leave 40 registers; on sm_90 the codes of a step, widened, take 40 more for a while."""
    used = resources_of(module(arch).report)[NAME]
    assert used.registers == 168
    assert used.stack_bytes <= stack_bytes
    held = occupancy(arch, used, threads=TMA.threads, dynamic_shared_bytes=TMA.shared_bytes)
    assert held.blocks == TMA.blocks_per_sm
    assert Limit.REGISTERS in held.limits


def test_the_record_is_the_source() -> None:
    constants = {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", SOURCE)}
    assert TMA.block_tokens == constants["kTokens"]
    assert TMA.block_k == constants["kDepth"] == SWIZZLE_BYTES
    assert TMA.stages == constants["kStages"]
    assert f"__launch_bounds__(kThreads, {TMA.blocks_per_sm})" in SOURCE
    assert constants["kAtom"] == Swizzle.tma(SWIZZLE_BYTES).atom_bytes
    facts = {"sizeof(Shared)": TMA.shared_bytes, "kThreads": TMA.threads, "kTileRows": TMA.block_rows}
    held = "".join(f"static_assert({what} == {value});\n" for what, value in facts.items())
    module("sm_90a", source=SOURCE + held)


def test_a_fifth_stage_does_not_build() -> None:
    with pytest.raises(CompileError, match="a block of sm_120 has no more"):
        module("sm_90a", source=SOURCE.replace("kStages = 4;", "kStages = 5;"))


def test_the_place_of_the_ring_is_stated() -> None:
    assert re.search(r"\.extern \.shared \.align 512 \.b8 memory\[\];", module("sm_90a").ptx)


def test_a_release_is_fenced_unless_its_cost_is_measured() -> None:
    fence = "fence.proxy.async.shared::cta;"
    assert module("sm_90a").ptx.count(fence) == 1
    assert fence not in module("sm_90a", "FP8_A8_RELEASE_FENCE=0").ptx


def test_the_maps_come_by_value() -> None:
    assert re.search(rf"\.param \.align 64 \.b8 {NAME}_param_0\[256\]", module("sm_90a").ptx)


def test_every_float_operation_says_how_it_rounds() -> None:
    ptx = module("sm_90a").ptx
    assert "fma.rn.f32" in ptx
    assert not re.search(r"\b(mul|add|sub|mad|div)\.(ftz\.)?f32", ptx), "an assembler may fuse what is not qualified"
    assert ".ftz" not in ptx
