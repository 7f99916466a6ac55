import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tileproof.kernels.occupancy import REGISTER_UNIT, Limit, occupancy
from tileproof.kernels.resources import Resources, resources_of
from tileproof.oracle.refusal import Refusal

GOLDEN = Path(__file__).parents[1] / "golden" / "occupancy_calculator.npz"
FREE = Resources(registers=0, stack_bytes=0, spill_store_bytes=0, spill_load_bytes=0, shared_bytes=0, barriers=0)


def kernel(registers: int = 0, shared_bytes: int = 0, barriers: int = 0) -> Resources:
    return replace(FREE, registers=registers, shared_bytes=shared_bytes, barriers=barriers)


def different(stride: int, spoil: int = 0) -> int:
    """How many configurations of the calculator's recording the model answers otherwise, `spoil` registers added."""
    recorded = np.load(GOLDEN)
    axes = [recorded[name].tolist() for name in ("arch", "registers", "threads", "shared_bytes", "barriers")]
    rows = list(zip(itertools.product(*axes), recorded["blocks"].reshape(-1).tolist(), strict=True))
    wrong = 0
    for (arch, registers, threads, shared, barriers), blocks in rows[::stride]:
        used = kernel(registers + spoil, barriers=barriers)
        wrong += occupancy(f"sm_{arch}", used, threads=threads, dynamic_shared_bytes=shared).blocks != blocks
    return wrong


def test_blocks_equal_cudas_calculator_on_ten_architectures() -> None:
    assert different(stride=7) == 0


def test_a_model_one_register_unit_off_is_rejected() -> None:
    assert different(stride=997, spoil=REGISTER_UNIT // 32) > 0


def test_a_big_tile_of_four_stages_leaves_room_for_one_block() -> None:
    found = occupancy("sm_90a", kernel(registers=166), threads=288, dynamic_shared_bytes=98816)
    assert (found.blocks, found.warps, found.limits) == (1, 9, (Limit.REGISTERS,))


def test_static_and_dynamic_shared_memory_count_together() -> None:
    apart = occupancy("sm_90a", kernel(shared_bytes=40_000), threads=128, dynamic_shared_bytes=60_000)
    assert apart.blocks == occupancy("sm_90a", kernel(), threads=128, dynamic_shared_bytes=100_000).blocks == 2


def test_more_shared_memory_than_a_block_may_have_leaves_no_block() -> None:
    assert occupancy("sm_89", kernel(), threads=32, dynamic_shared_bytes=99 * 1024).blocks == 1
    assert occupancy("sm_89", kernel(), threads=32, dynamic_shared_bytes=99 * 1024 + 1).blocks == 0


@pytest.mark.parametrize(("arch", "threads", "shared"), [("sm_75", 32, 0), ("sm_90a", 0, 0), ("sm_90a", 1025, 0)])
def test_what_no_block_has_is_refused(arch: str, threads: int, shared: int) -> None:
    with pytest.raises(Refusal):
        occupancy(arch, FREE, threads=threads, dynamic_shared_bytes=shared)


def test_negative_shared_memory_is_refused() -> None:
    with pytest.raises(Refusal, match="negative"):
        occupancy("sm_90a", FREE, threads=32, dynamic_shared_bytes=-1)


REPORT = """ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
ptxas         .     16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 19 registers, used 3 barriers, 32 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""


def test_the_assemblers_report_is_read_by_entry() -> None:
    found = resources_of(REPORT)
    assert found["a"] == Resources(19, 16, 24, 8, 32, 3)
    assert found["b"] == Resources(8, 0, 0, 0, 0, 0)


def test_a_report_without_registers_is_refused() -> None:
    with pytest.raises(Refusal, match="report of a"):
        resources_of(REPORT.replace("Used 19 registers", "Used nineteen"))
