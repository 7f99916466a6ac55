"""What the compiler makes of the FP8 product kernels, on each architecture that the routes are for."""

import re
from importlib import resources

import pytest

from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.fp8_a8_gemm import kernel_name, kernel_source
from tileproof.kernels.fp8_a8_selector import CP_ASYNC, Route
from tileproof.kernels.occupancy import occupancy
from tileproof.kernels.resources import resources_of

ARCHITECTURES = ("sm_89", "sm_90a", "sm_120")
ROUTES = (Route.CP_ASYNC, Route.FALLBACK)


def module(route: Route, policy: str, arch: str = "sm_90a") -> CompiledModule:
    defines = (f"FP8_A8_OUTPUT={policy}",)
    return compile_source(kernel_source(route), name=f"{kernel_name(route)}.cu", arch=arch, defines=defines)


@pytest.mark.parametrize(
    ("route", "arch"), [*((Route.CP_ASYNC, arch) for arch in ARCHITECTURES), (Route.FALLBACK, "sm_90a")]
)
def test_nothing_spills(route: Route, arch: str) -> None:
    used = resources_of(module(route, "LinearAdd", arch).report)[kernel_name(route)]
    assert used.spill_store_bytes == used.spill_load_bytes == used.stack_bytes == 0


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_two_blocks_of_the_tiled_route_share_a_multiprocessor(arch: str) -> None:
    used = resources_of(module(Route.CP_ASYNC, "LinearAdd", arch).report)[kernel_name(Route.CP_ASYNC)]
    held = occupancy(arch, used, threads=CP_ASYNC.threads, dynamic_shared_bytes=CP_ASYNC.shared_bytes)
    assert held.blocks == CP_ASYNC.blocks_per_sm


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("policy", "fused"), [("Linear", False), ("LinearAdd", True)])
def test_every_float_operation_says_how_it_rounds(route: Route, policy: str, fused: bool) -> None:
    ptx = module(route, policy).ptx
    assert ("fma.rn.f32" in ptx) == fused
    assert not re.search(r"\b(mul|add|sub|mad|div)\.(ftz\.)?f32", ptx), "an assembler may fuse what is not qualified"
    assert ".ftz" not in ptx


def test_the_exponential_is_the_only_approximate_step() -> None:
    ptx = module(Route.CP_ASYNC, "SwiGlu").ptx
    assert set(re.findall(r"\S*approx\S*", ptx)) == {"ex2.approx.ftz.f32"}
    assert "div.rn.f32" in ptx


def test_a_defined_macro_is_part_of_the_module() -> None:
    assert "--define-macro=FP8_A8_OUTPUT=Linear" in module(Route.FALLBACK, "Linear").options


def test_inline_assembly_stands_in_instruction_headers_alone() -> None:
    families = {"cp_async", "cvt", "ldmatrix", "mma", "bar", "mbarrier", "fence", "tma", "wgmma"}
    for file in resources.files("tileproof.kernels").iterdir():
        if file.name.endswith((".cu", ".cuh")) and file.name.split(".")[0] not in families:
            assert not re.search(r"\basm\b", file.read_text()), file.name
