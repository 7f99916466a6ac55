"""What the assembler says of the INT8 kernels: no spills, and products of wgmma that are not serialised."""

import pytest

from tileproof.kernels.compile import compile_source
from tileproof.kernels.int8_arms import GENERIC_TILES, TUNED_TILES, WGMMA, TileArm, WgmmaArm
from tileproof.kernels.resources import resources_of
from tileproof.kernels.source import kernel_text

SERIALISED = "wgmma.mma_async instructions are serialized"


@pytest.mark.parametrize("arm", WGMMA, ids=lambda arm: arm.name)
def test_products_of_wgmma_overlap(arm: WgmmaArm) -> None:
    module = compile_source(kernel_text("int8_gemm_wgmma"), name="int8_gemm_wgmma.cu", defines=arm.defines)
    (used,) = resources_of(module.report).values()
    assert SERIALISED not in module.report
    assert used.spill_store_bytes == used.spill_load_bytes == 0
    assert arm.threads * used.registers <= 65536


def test_sums_that_are_set_to_zero_beforehand_would_serialise_them() -> None:
    shipped, edited = "    Sums<Part> sums[kParts];", "    Sums<Part> sums[kParts] = {};"
    source = kernel_text("int8_gemm_wgmma")
    assert source.count(shipped) == 1
    source = source.replace(shipped, edited).replace("!is_first || k > 0", "true")
    module = compile_source(source, name="int8_gemm_wgmma.cu", defines=WGMMA[0].defines)
    assert SERIALISED in module.report


@pytest.mark.parametrize("arm", [*TUNED_TILES, *GENERIC_TILES], ids=lambda arm: arm.name)
def test_no_tile_spills(arm: TileArm) -> None:
    defines = (*arm.defines, "INT8_LAYOUT=Panel64")
    module = compile_source(kernel_text("int8_gemm_tile"), name="int8_gemm_tile.cu", defines=defines)
    (used,) = resources_of(module.report).values()
    assert used.spill_store_bytes == used.spill_load_bytes == 0
    assert used.shared_bytes == arm.shared_bytes
