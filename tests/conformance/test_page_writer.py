"""The first page of a kernel: what its PTX and its source tell is right, and the rest is marked as a guess."""

from pathlib import Path

import pytest

from tileproof.conformance.pages.declaration import parameters_in
from tileproof.conformance.pages.signature import kernel_use
from tileproof.conformance.pages.vocabulary import Cuda, Ptx
from tileproof.conformance.pages.writer import Request, guesses_in, write_page
from tileproof.kernels.compile import compile_source
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.parse import parse_module

MIXED = """
#include <cuda_bf16.h>
extern "C" __global__ void __launch_bounds__(64)
mixed(const __nv_bfloat16* __restrict__ x, float* y, unsigned* count, const long long* unused, int rows,
      long long x_stride, float eps, int4 corner) {
  if (threadIdx.x < rows) {
    y[threadIdx.x] += float(x[threadIdx.x * x_stride]) + eps + corner.x;
    atomicAdd(count, 1u);
  }
}
"""
GEMM = """
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int M, int N, int K) {
  const int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  if (m < M && n < N) { for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k]; c[m * N + n] = sum; }
}
"""


def page_of(folder: Path, text: str, entry: str = "", like: str = "") -> str:
    file = folder / "mine.cu"
    file.write_text(text)
    return write_page(Request(Cuda("mine.cu", entry), folder, file, "sm_90a", like))


def test_addresses_are_followed_to_what_is_read_and_written() -> None:
    entry = parse_module(compile_source(MIXED, name="mixed.cu").ptx).entries["mixed"]
    use = kernel_use(entry)
    told = [(one.is_address, one.reads, one.writes, one.types) for one in use.parameters]
    assert told[:3] == [(True, True, False, {"u16"}), (True, True, True, {"f32"}), (True, True, True, {"u32"})] or told[
        2
    ] == (True, False, True, {"u32"})
    assert not any(one.is_address for one in use.parameters[3:])
    assert use.block == (64, 1, 1)


def test_names_types_and_roles_of_a_page_are_the_kernels(tmp_path: Path) -> None:
    page = page_of(tmp_path, MIXED)
    assert 'Input("x", "bf16", (Rows,))' in page
    assert 'InOut("y", "f32", (Rows,))' in page
    assert '("count", "u32", (Rows,))' in page
    assert "x.strides[0],  # .u64 x_stride; guess" in page
    assert "1e-6,  # .f32 eps; guess" in page
    assert "bytes(16),  # .b8[16] corner; guess" in page
    assert "block=64,\n" in page


def test_a_product_has_the_shapes_of_one(tmp_path: Path) -> None:
    page = page_of(tmp_path, GEMM)
    assert 'Input("a", "f32", (M, K))' in page
    assert 'Input("b", "f32", (N, K))' in page
    assert 'Output("c", "f32", (M, N))' in page


def test_a_contract_of_ours_names_the_tensors_and_the_type(tmp_path: Path) -> None:
    text = """extern "C" __global__ void q(const float* in, unsigned char* out, float* s, int n) {
      out[threadIdx.x] = (unsigned char)in[threadIdx.x]; s[0] = n; }"""
    page = page_of(tmp_path, text, like="ninfer_quantize")
    assert "def launch(x, codes, scales, T, K):" in page
    assert 'dtype="f32"' in page
    assert "def tensors" not in page


def test_every_page_is_python_and_its_guesses_are_found(tmp_path: Path) -> None:
    for text in (MIXED, GEMM):
        page = page_of(tmp_path, text)
        compile(page, "page.py", "exec")
        lines = page.splitlines()
        assert len(guesses_in(page)) >= 5
        assert all("guess" in lines[number - 1] for number in guesses_in(page))


def test_a_bare_ptx_names_tensors_by_what_tells_its_parameters_apart(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "examples" / "axpy.ptx"
    page = write_page(Request(Ptx(str(file)), tmp_path, file, "sm_90a"))
    assert 'Input("x", "f32", (N,))' in page
    assert 'InOut("y", "f32", (N,))' in page


def test_of_two_kernels_one_must_be_named(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void a(int* x) { *x = 1; }\n__global__ void b(int* x) { *x = 2; }\n'
    with pytest.raises(Refusal, match="2 kernels") as refused:
        page_of(tmp_path, text)
    assert "a, b" in refused.value.hint
    assert "def launch(x, N)" in page_of(tmp_path, text, "b")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("template <class T> __global__ void f(const T* __restrict__ x, int n)", ["x", "n"]),
        ("__global__ void f(const T *x, // the input, a\n std::array<int, 3> y, float z[])", ["x", "y", "z"]),
        ("__global__ void f()", []),
    ],
)
def test_parameters_are_read_from_a_definition(text: str, names: list[str]) -> None:
    found = parameters_in(text + " {}", "f")
    assert found is not None
    assert [one.name for one in found] == names


@pytest.mark.parametrize("text", ["void f(int x) {}", "__global__ void f(int", "__global__ void f(int) {}", ""])
def test_what_cannot_be_read_is_not_guessed(text: str) -> None:
    assert parameters_in(text, "f") is None
