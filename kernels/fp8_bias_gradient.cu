// fp8_bias_gradient: the sums of the columns of g [R, C] bf16, in a declared order, as bf16.
//
//     strand[i]  = the rows i, i + 16, i + 32, ... of a column, added one after the other from +0
//     sum        = strand[0] + strand[1] + ... + strand[15], from the left
//     output     = bf16 of sum, to nearest even; NaN becomes 0x7fff
//
// Each addition is one float32 operation, so that the grid changes no bit. A block has 32 columns, a warp one strand.

#include "cvt.cuh"
#include "fp8_element.cuh"

using Index = long long;

constexpr int kStrands = 16;
constexpr int kLanes = 32;
constexpr int kThreads = kStrands * kLanes;

extern "C" __global__ void __launch_bounds__(kThreads)
    fp8_bias_gradient(const unsigned short* g, const Index rows, const Index columns, unsigned short* out) {
    __shared__ float strands[kStrands][kLanes];
    const int lane = threadIdx.x % kLanes;
    const int strand = threadIdx.x / kLanes;
    const Index column = static_cast<Index>(blockIdx.x) * kLanes + lane;
    float sum = 0.0f;
    if (column < columns) {
#pragma unroll 1
        for (Index row = strand; row < rows; row += kStrands) {
            sum = __fadd_rn(sum, Bf16::widen(g[row * columns + column]));
        }
    }
    strands[strand][lane] = sum;
    __syncthreads();
    if (strand != 0 || column >= columns) return;
#pragma unroll
    for (int i = 1; i < kStrands; ++i) sum = __fadd_rn(sum, strands[i][lane]);
    out[column] = cvt_rn_bf16_f32(sum);
}
