import os
import re
from pathlib import Path

import pytest

from tileproof.kernels.compile import CompiledModule, CompileError, compile_source, cuda_include_directories
from tileproof.kernels.fp8_quantize_rows import NAME, SOURCE
from tileproof.oracle.refusal import Refusal

SAXPY = """
extern "C" __global__ void saxpy(float* y, const float* x, float a) { y[threadIdx.x] += a * x[threadIdx.x]; }
extern "C" __global__ void halve(float* y) { y[threadIdx.x] *= 0.5f; }
"""


@pytest.fixture(scope="module")
def saxpy() -> CompiledModule:
    return compile_source(SAXPY, name="saxpy.cu")


def fresh(source: str, name: str) -> CompiledModule:
    """Compile past the cache: a comment at the end changes the text, not the code."""
    return compile_source(f"{source}\n// {os.getcwd()}\n", name=name)


def test_one_compilation_gives_ptx_and_an_elf_image_for_the_same_architecture(saxpy: CompiledModule) -> None:
    assert ".target sm_90a" in saxpy.ptx
    assert saxpy.cubin.startswith(b"\x7fELF")
    assert saxpy.arch == "sm_90a"


def test_entries_are_named_in_order(saxpy: CompiledModule) -> None:
    assert saxpy.entries == ("saxpy", "halve")


def test_the_compilers_full_version_is_part_of_the_result(saxpy: CompiledModule) -> None:
    assert re.fullmatch(r"NVRTC 13\.0\.\d+", saxpy.compiler)


def test_a_second_compilation_of_the_same_text_returns_the_same_object(saxpy: CompiledModule) -> None:
    assert compile_source(SAXPY, name="saxpy.cu") is saxpy


def test_the_working_directory_changes_neither_ptx_nor_cubin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = fresh(SOURCE, f"{NAME}.cu")
    monkeypatch.chdir(tmp_path)
    there = fresh(SOURCE, f"{NAME}.cu")
    assert here is not there
    assert here.ptx == there.ptx
    assert here.cubin == there.cubin


def test_line_information_names_our_files_and_no_absolute_path() -> None:
    ptx = compile_source(SOURCE, name=f"{NAME}.cu").ptx
    files = ["fp8_quantize_rows.cu", "shared_address.cuh", "cp_async.cuh", "fp8_element.cuh", "cvt.cuh"]
    assert re.findall(r'\.file\s+\d+\s+"([^"]*)"', ptx) == files
    assert re.search(r"^\s*\.loc\s+1 \d+ \d+", ptx, re.MULTILINE)
    assert not re.search(r'"/', ptx)


def test_line_information_counts_lines_of_the_shipped_source() -> None:
    ptx = compile_source(SOURCE, name=f"{NAME}.cu").ptx
    barrier = 1 + SOURCE[: SOURCE.index("__syncthreads();")].count("\n")
    before_barrier = ptx[: ptx.index("bar.sync")]
    assert re.findall(r"\.loc\s+1 (\d+)", before_barrier)[-1] == str(barrier)


def test_machine_paths_stay_out_of_the_cubin() -> None:
    cubin = compile_source(SOURCE, name=f"{NAME}.cu").cubin
    assert os.getcwd().encode() not in cubin
    assert str(cuda_include_directories()[0]).encode() not in cubin


def test_cuda_number_format_headers_can_be_included() -> None:
    source = """
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    #include <cuda_fp8.h>
    extern "C" __global__ void convert(__nv_fp8_e4m3* out, const __half* h, const __nv_bfloat16* b) {
        out[0] = __nv_fp8_e4m3(__half2float(h[0]) + __bfloat162float(b[0]));
    }
    """
    module = compile_source(source, name="convert.cu")
    assert "cvt.rn.satfinite.e4m3x2.f32" in module.ptx
    assert not re.search(r'"/', module.ptx)


def test_an_error_shows_the_log_with_our_file_name_and_line() -> None:
    with pytest.raises(CompileError) as caught:
        compile_source('#include "cvt.cuh"\n__device__ int f() { return missing; }\n', name="broken.cu")
    assert 'broken.cu(2): error: identifier "missing" is undefined' in str(caught.value)
    assert "/tileproof/" not in str(caught.value)


def test_an_error_in_our_header_names_the_header() -> None:
    with pytest.raises(CompileError, match=r"cvt\.cuh\(\d+\): error") as caught:
        compile_source('#define cvt_f32_f16 (\n#include "cvt.cuh"\n', name="broken.cu")
    assert "/" + "cvt.cuh" not in str(caught.value)


def test_an_instruction_that_the_architecture_lacks_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="does not compile for sm_80"):
        compile_source(SOURCE, name=f"{NAME}.cu", arch="sm_80")


@pytest.mark.parametrize("arch", ["compute_90a", "90a", "sm_", "sm_90x", ""])
def test_an_architecture_without_a_cubin_is_refused_by_name(arch: str) -> None:
    with pytest.raises(Refusal, match=re.escape(repr(arch))):
        compile_source(SAXPY, name="saxpy.cu", arch=arch)


def test_a_product_feeding_a_sum_is_not_contracted(saxpy: CompiledModule) -> None:
    assert not re.search(r"\bfma\b|\bmad\.\w*\.?f32", saxpy.ptx)
    assert "mul.rn.f32" in saxpy.ptx
    assert "add.rn.f32" in saxpy.ptx
