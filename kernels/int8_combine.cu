// int8_combine: outputs from the planes that int8_gemm_decode left, two neighbours a thread.

#include "int8_epilogue.cuh"
#include "int8_split.cuh"

constexpr int kCombineThreads = 128;

extern "C" __global__ void __launch_bounds__(kCombineThreads) int8_combine(const Problem problem) {
    const int column = 2 * (blockIdx.x * kCombineThreads + threadIdx.x), row = blockIdx.y;
    if (column < problem.columns) write_pair(problem, row, column, sum_of_planes(problem, problem.at(row, column)));
}
