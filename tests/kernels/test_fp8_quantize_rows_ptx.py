"""What the compiled kernel promises, read from its PTX and the assembler's report."""

import re

import pytest

from tileproof.kernels import fp8_quantize_rows as launcher
from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.occupancy import occupancy
from tileproof.kernels.resources import resources_of

ENTRIES = [f"{launcher.NAME}_{element}_{route}" for element in ("bf16", "f16", "f32") for route in ("vector", "scalar")]


@pytest.fixture(scope="module")
def module() -> CompiledModule:
    return compile_source(launcher.SOURCE, name=f"{launcher.NAME}.cu")


def body(module: CompiledModule, entry: str) -> str:
    start = module.ptx.index(f".entry {entry}(")
    return module.ptx[start : module.ptx.index("\n}", start)]


def test_each_element_type_and_route_is_an_entry_of_its_own(module: CompiledModule) -> None:
    assert list(module.entries) == ENTRIES


def test_the_launchers_constants_are_the_sources() -> None:
    assert f"constexpr int kThreads = {launcher.THREADS};" in launcher.SOURCE
    assert f"constexpr int kVector = {launcher.STORE_BYTES};" in launcher.SOURCE


def stack_frames_bytes(module: CompiledModule) -> dict[str, int]:
    """The frame size of each entry, as the assembler reports it."""
    return {name: used.stack_bytes for name, used in resources_of(module.report).items()}


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_multiplication_is_contracted_with_an_addition(module: CompiledModule, entry: str) -> None:
    assert not re.search(r"\bfma\.|\bmad\.\w+\.f32|\badd\.\S*f32|\bsub\.\S*f32", body(module, entry))


@pytest.mark.parametrize("entry", ENTRIES)
def test_arithmetic_is_ieee_without_flush_or_approximation(module: CompiledModule, entry: str) -> None:
    text = body(module, entry)
    assert ".ftz" not in text
    assert ".approx" not in text
    assert len(re.findall(r"\bdiv\.rn\.f32|\brcp\.rn\.f32", text)) == 2


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_local_memory_is_used(module: CompiledModule, entry: str) -> None:
    assert ".local" not in body(module, entry)


def test_the_assembler_spills_no_register(module: CompiledModule) -> None:
    assert stack_frames_bytes(module) == dict.fromkeys(ENTRIES, 0)


def test_a_stack_frame_would_be_seen_in_the_cubin() -> None:
    source = """
    extern "C" __global__ void spills(int* out, int n) {
        int slots[64];
        for (int i = 0; i < 64; ++i) slots[i] = out[i];
        for (int i = 0; i < n; ++i) slots[out[i]] ^= slots[i];
        out[0] = slots[n];
    }
    """
    module = compile_source(source, name="spills.cu")
    assert ".local" in module.ptx
    assert stack_frames_bytes(module) == {"spills": 256}


@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_the_vector_route_moves_16_byte_loads_and_8_byte_stores(module: CompiledModule, element: str) -> None:
    text = body(module, f"{launcher.NAME}_{element}_vector")
    loads_per_step = 2 if element == "f32" else 1
    assert text.count("cp.async.cg.shared.global") == loads_per_step
    for space in ("shared", "global"):  # what is kept, and the rest of a row, in both passes
        assert len(re.findall(rf"\bld\.{space}\.v4\.[ubf]32", text)) == 2 * loads_per_step
    assert len(re.findall(r"\bst\.global\.v2\.[ub]32", text)) == 2


@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_six_blocks_of_the_vector_route_share_a_multiprocessor(module: CompiledModule, element: str) -> None:
    used = resources_of(module.report)[f"{launcher.NAME}_{element}_vector"]
    assert occupancy(module.arch, used, threads=launcher.THREADS).blocks == 6


@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_the_scalar_route_makes_no_vector_access(module: CompiledModule, element: str) -> None:
    assert not re.search(r"\.global\.v[24]", body(module, f"{launcher.NAME}_{element}_scalar"))


@pytest.mark.parametrize("entry", ENTRIES)
def test_row_offsets_are_64_bit_products(module: CompiledModule, entry: str) -> None:
    text = body(module, entry)
    assert "mul.lo.s64" in text
    assert not re.search(r"\bmul\.lo\.[su]32|\bmad\.lo\.[su]32", text)


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_barrier_stands_between_writing_and_reading_the_warp_maxima(module: CompiledModule, entry: str) -> None:
    text = body(module, entry)
    assert text.count("bar.sync") == 1
    assert text.index("st.shared") < text.index("bar.sync") < text.index("ld.shared.f32")


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_kernel_is_bounded_to_the_block_that_is_launched(module: CompiledModule, entry: str) -> None:
    assert f".maxntid {launcher.THREADS}, 1, 1" in body(module, entry)
