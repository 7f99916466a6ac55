// CUTLASS 2.x: an FP8 GEMM of sm_89, D = alpha * A * B^T + beta * C, with cp.async and mma.
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/kernel/default_gemm.h>
#include <cutlass/gemm/threadblock/threadblock_swizzle.h>
#include <cutlass/numeric_types.h>

using Code = cutlass::float_e4m3_t;
using Epilogue = cutlass::epilogue::thread::LinearCombination<float, 4, float, float>;
using Kernel = cutlass::gemm::kernel::DefaultGemm<
    Code, cutlass::layout::RowMajor, 16, Code, cutlass::layout::ColumnMajor, 16, float, cutlass::layout::RowMajor,
    float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm89, cutlass::gemm::GemmShape<64, 64, 64>,
    cutlass::gemm::GemmShape<32, 32, 64>, cutlass::gemm::GemmShape<16, 8, 32>, Epilogue,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3, false, cutlass::arch::OpMultiplyAdd>::GemmKernel;

extern "C" __global__ void gemm(typename Kernel::Params params) {
  extern __shared__ __align__(16) char memory[];
  Kernel kernel;
  kernel(params, *reinterpret_cast<typename Kernel::SharedStorage*>(memory));
}

struct Described {
  int params, shared, threads;
};

// The kernel's parameters by CUTLASS's own code, built over zeros so that padding is defined too.
extern "C" __global__ void describe(char* out, Described* described, int m, int n, int k, Code* a, Code* b, float* c,
                                    float* d, float alpha, float beta) {
  using Params = typename Kernel::Params;
  const cutlass::gemm::GemmCoord size{m, n, k}, tiles{(m + 63) / 64, (n + 63) / 64, 1};
  alignas(Params) char made[sizeof(Params)] = {};
  new (made) Params(size, tiles, {a, k}, {b, k}, {c, n}, {d, n}, {alpha, beta});
  *described = {sizeof(Params), sizeof(typename Kernel::SharedStorage), Kernel::kThreadCount};
  for (int i = 0; i < sizeof(Params); ++i) out[i] = made[i];
}
