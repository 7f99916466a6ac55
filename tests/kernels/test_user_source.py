"""Users' kernel files: found by the names in their source, and wrong ones told in the user's own lines."""

import re
from pathlib import Path

import pytest

from tileproof.kernels.compile import CompileError
from tileproof.kernels.user_source import (
    CompileSettings,
    UserModule,
    compile_user_source,
    kernel_names,
    read_kernel_file,
    read_user_ptx,
)
from tileproof.oracle.refusal import Refusal

TEMPLATE = """namespace mine {
template <typename T, int N>
__global__ void __launch_bounds__(64) fill(T* x) { if (threadIdx.x < N) x[threadIdx.x] = T(N); }
}
"""
PLAIN = "__global__ void fill(float* x) { x[threadIdx.x] = 1; }\n"
TWO = 'extern "C" __global__ void a(int* x) { *x = 1; }\n__global__ void b(int* x) { *x = 2; }\n'


def compiled(text: str, *names: str, folder: Path = Path("."), settings: CompileSettings | None = None) -> UserModule:
    return compile_user_source(text, folder / "mine.cu", "sm_90a", names, settings or CompileSettings())


def test_an_instance_of_a_template_is_found_by_its_name_expression() -> None:
    module = compiled(TEMPLATE, "mine::fill<float, 32>", "mine::fill<int, 8>")
    assert list(module.entries) == ["mine::fill<float, 32>", "mine::fill<int, 8>"]
    assert set(module.entries.values()) == set(module.module.entries)


def test_the_only_kernel_needs_no_name_and_has_that_of_its_source() -> None:
    assert compiled(PLAIN).entries == {"fill": "_Z4fillPf"}
    assert compiled(PLAIN, "fill").entries == {"fill": "_Z4fillPf"}


def test_of_two_kernels_both_are_there_and_one_can_be_named() -> None:
    assert compiled(TWO).entries == {"a": "a", "_Z1bPi": "_Z1bPi"}
    assert compiled(TWO, "b").entries == {"b": "_Z1bPi"}


def test_templates_alone_are_told_with_how_to_name_one() -> None:
    with pytest.raises(Refusal, match="templates alone: fill") as refused:
        compiled(TEMPLATE)
    assert "as 'fill<float, 256>'" in refused.value.hint


@pytest.mark.parametrize("name", ["fil", "mine::fil<float, 32>", "fill_rows"])
def test_a_wrong_name_is_refused_with_the_near_ones(name: str) -> None:
    with pytest.raises(Refusal, match="has no kernel") as refused:
        compiled(TEMPLATE, name)
    assert "fill" in refused.value.hint
    assert "__nv_name_map" not in str(refused.value)


def test_an_error_is_told_in_the_users_line() -> None:
    with pytest.raises(CompileError, match=r"mine\.cu\(2\): error: identifier \"oops\" is undefined") as refused:
        compiled('extern "C" __global__ void f(int* x) {\n  *x = oops;\n}\n', "f")
    assert "/tileproof" not in str(refused.value)


def test_a_header_lies_beside_the_file_or_where_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "beside.cuh").write_text("#define ONE 1\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "away.cuh").write_text("__device__ int two() { return TWO; }\n")
    text = '#include "beside.cuh"\n#include "away.cuh"\nextern "C" __global__ void f(int* x) { *x = ONE + two(); }\n'
    settings = CompileSettings((tmp_path / "far",), ("TWO=2",))
    module = compiled(text, folder=tmp_path, settings=settings)
    assert str(tmp_path) not in module.module.ptx
    with pytest.raises(CompileError, match=r'cannot open source file "away\.cuh"') as refused:
        compiled(text, folder=tmp_path)
    assert "name the folder of away.cuh by -I" in refused.value.hint


def test_this_packages_headers_are_not_in_reach() -> None:
    with pytest.raises(CompileError, match=r'cannot open source file "cvt\.cuh"'):
        compiled('#include "cvt.cuh"\n' + PLAIN)


def test_host_code_is_refused_with_where_to_put_it() -> None:
    with pytest.raises(CompileError) as refused:
        compiled(PLAIN + "int main() { return 0; }\n")
    assert "#ifndef __CUDACC_RTC__" in refused.value.hint
    assert compiled(PLAIN + "#ifndef __CUDACC_RTC__\nint main() { return 0; }\n#endif\n").entries


def test_contraction_is_the_compilers_default_unless_an_option_says_otherwise() -> None:
    text = 'extern "C" __global__ void f(float* x, float a) { *x = *x * a + 1.0f; }\n'
    assert "fma.rn" in compiled(text).module.ptx
    assert "fma.rn" not in compiled(text, settings=CompileSettings(options=("--fmad=false",))).module.ptx


@pytest.mark.parametrize("option", ["-arch=sm_80", "--gpu-architecture=sm_80", "-I", "-D"])
def test_what_has_a_place_of_its_own_is_no_option(option: str) -> None:
    with pytest.raises(Refusal, match="place of its own"):
        compiled(PLAIN, settings=CompileSettings(options=(option,)))


def test_an_unknown_option_is_told_in_the_compilers_words() -> None:
    with pytest.raises(CompileError, match="--no-such-option"):
        compiled(PLAIN, settings=CompileSettings(options=("--no-such-option",)))


def test_names_are_read_behind_launch_bounds_and_attributes() -> None:
    assert kernel_names(TEMPLATE + PLAIN + TWO) == ("fill", "a", "b")


def test_ptx_has_the_kernels_that_it_declares() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f(.param .u64 p) { ret; }\n"
    assert read_user_ptx(text, Path("f.ptx"), "sm_90a", ()).entries == {"f": "f"}
    with pytest.raises(Refusal, match="no kernel 'g'") as refused:
        read_user_ptx(text, Path("f.ptx"), "sm_90a", ("g",))
    assert "it has f" in refused.value.hint
    with pytest.raises(Refusal, match="has no kernel"):
        read_user_ptx("hello", Path("f.ptx"), "sm_90a", ())


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refusal, match="is no text"):
        read_kernel_file(tmp_path / "x.cu")
    with pytest.raises(Refusal, match="cannot be read"):
        read_kernel_file(tmp_path / "y.cu")


EVERYTHING = """
#include <cstdio>
#include <cmath>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cstddef>
#include <limits>
#include <algorithm>
#include <type_traits>
#include <cuda_runtime.h>
template <typename T> __global__ void f(T* x, uint8_t* y, std::size_t n) {
  static_assert(std::is_same<T, float>::value);
  assert(n > CHAR_BIT);
  x[0] = -INFINITY + NAN + FLT_MAX + std::numeric_limits<T>::max() + fmaxf(1.0f, std::max(2.0f, x[1]));
  y[0] = uint8_t(std::min(1, 2));
}
"""


def test_what_nvcc_finds_in_the_hosts_headers_is_found() -> None:
    assert compiled(EVERYTHING, "f<float>").entries


def test_the_integer_types_and_infinity_need_no_header_and_move_no_line() -> None:
    text = 'extern "C" __global__ void f(float* x, uint32_t n) {\n  x[n] = INFINITY;\n}\n'
    ptx = compiled(text).module.ptx
    assert re.search(r"\.loc\s+1 2 ", ptx)
    assert re.search(r'\.file\s+1 "mine\.cu"', ptx)


def test_a_failing_assertion_traps() -> None:
    assert "trap" in compiled("#include <cassert>\n__global__ void f(int n) { assert(n > 2); }\n").module.ptx


def test_a_header_of_the_host_alone_is_missing_with_what_to_do() -> None:
    with pytest.raises(CompileError, match=r"cannot open source file \"vector\"") as refused:
        compiled("#include <vector>\n" + PLAIN)
    assert "#ifndef __CUDACC_RTC__" in refused.value.hint
