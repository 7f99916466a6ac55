"""Counts by opcode and of bank conflicts: the same on both engines, and only when asked for."""

import numpy as np
import pytest

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Report

SOURCE = r"""
// Transposes a tile of 32 x 32 through shared memory of PITCH columns; a block of 32 x 8 threads.
extern "C" __global__ void transpose(const float* x, float* y) {
  __shared__ float tile[32][PITCH];
  for (int row = threadIdx.y; row < 32; row += 8) tile[row][threadIdx.x] = x[row * 32 + threadIdx.x];
  __syncthreads();
  for (int row = threadIdx.y; row < 32; row += 8) y[row * 32 + threadIdx.x] = tile[threadIdx.x][row];
}
"""
MATRIX = r"""
extern "C" __global__ void rows(unsigned* y) {
  __shared__ __align__(16) unsigned char tile[16][PITCH];
  const int lane = threadIdx.x;
  for (int i = lane; i < 16 * PITCH / 4; i += 32) ((unsigned*)tile)[i] = i;
  __syncwarp();
  unsigned x[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(x[0]), "=r"(x[1]) : "r"((unsigned)__cvta_generic_to_shared(&tile[lane % 16][0])));
  y[lane] = x[0] + x[1];
}
"""


def launch(
    pitch: int, *, engine: str = "reference", profile: bool = True, source: str = SOURCE, order: bool = True
) -> Report:
    device = Device(engine=engine, profile=profile, order=order)
    x, y = device.upload(np.arange(1024, dtype=np.float32)), device.allocate((1024,), np.float32)
    (function,) = device.load(compile_source(source.replace("PITCH", str(pitch)), name="profile.cu")).values()
    if source is MATRIX:
        return function.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(y,))
    report = function.launch(grid=(1, 1, 1), block=(32, 8, 1), args=(x, y))
    np.testing.assert_array_equal(y.download().reshape(32, 32), x.download().reshape(32, 32).T)
    return report


def test_a_column_of_a_tile_without_padding_is_a_conflict_of_32_ways() -> None:
    report = launch(32)
    loads = [use for use in report.counters.shared if use.opcode.startswith("ld.shared")]
    assert sum(use.accesses for use in loads) == 32
    assert {use.ways for use in loads} == {32}
    assert sum(use.passes for use in loads) == 32 * 32
    assert sum(use.conflicts for use in loads) == 32 * 31
    (note,) = report.notes
    assert note.message == "ld.shared.f32 has 32-way bank conflicts"
    assert note.count == 32
    assert not report.findings


def test_a_padded_tile_has_no_conflict_and_no_note() -> None:
    report = launch(33)
    assert sum(use.passes for use in report.counters.shared) == 64
    assert not any(use.conflicts for use in report.counters.shared)
    assert not report.notes


@pytest.mark.parametrize(("pitch", "ways"), [(32, 2), (64, 4), (128, 8), (48, 1), (144, 1)])
def test_rows_of_ldmatrix_conflict_by_their_pitch(pitch: int, ways: int) -> None:
    """Eight rows of 16 bytes of each matrix are one phase: at a pitch of 128 bytes they lie in the same banks."""
    (use,) = [u for u in launch(pitch, source=MATRIX).counters.shared if u.opcode.startswith("ldmatrix")]
    assert (use.accesses, use.passes, use.ways) == (1, 2 * ways, ways)


def test_instructions_by_opcode_add_up() -> None:
    counters = launch(33).counters
    assert sum(counters.opcodes.values()) == counters.thread_instructions
    assert counters.opcodes["ld.global.f32"] == counters.opcodes["st.shared.f32"] == 1024
    assert counters.opcodes["bar.sync"] == 256


def test_nobody_counts_unasked() -> None:
    report = launch(32, profile=False)
    assert not report.counters.opcodes
    assert not report.counters.shared
    assert not report.notes


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("source", [SOURCE, MATRIX], ids=["loads and stores", "ldmatrix"])
def test_the_engines_count_the_same(source: str, order: bool) -> None:
    """Also without order, where compiled code would make the accesses to shared memory itself."""
    fast, reference = (launch(32, engine=engine, source=source, order=order) for engine in ("fast", "reference"))
    assert reference.counters.shared
    assert fast.counters == reference.counters
    assert fast.notes == reference.notes
