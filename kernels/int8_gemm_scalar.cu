// int8_gemm_scalar: the product of int8_problem.cuh, one thread an output, k ascending. Any M, N, K from 1 on that the
// packed order of the weight takes, any addresses; INT8_LAYOUT names the order.

#include "int8_problem.cuh"

using Layout = INT8_LAYOUT;

constexpr int kScalarThreads = 128;

extern "C" __global__ void __launch_bounds__(kScalarThreads) int8_gemm_scalar(const Problem problem) {
    const int column = blockIdx.x * kScalarThreads + threadIdx.x, row = blockIdx.y;
    if (column >= problem.columns) return;
    const signed char* x = problem.x + static_cast<size_t>(row) * problem.depth;
    int sum = 0;
    for (int k = 0; k < problem.depth; ++k) {
        const unsigned char byte = problem.weight[Layout::offset(problem.weight_extents(), k, column)];
        sum += x[k] * static_cast<signed char>(byte);
    }
    const unsigned bits = output_of(sum, problem.x_scale[row], problem.w_scale[column]);
    problem.out[problem.at(row, column)] = static_cast<unsigned short>(bits);
}
