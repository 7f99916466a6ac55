// fp8_a8_gemm_fallback: the product of fp8_a8_product.cuh for every legal shape, stride and alignment, without shared memory.
//
// A warp makes 16 tokens x 8 outputs. It reads codes one by one, zeros beyond T, N and K, and chains the same mma over the
// same k as the tiled routes do: the sums have the same bits. FP8_A8_OUTPUT names the output policy.

#include "fp8_a8_output.cuh"
#include "fp8_a8_product.cuh"
#include "mma.cuh"

constexpr int kThreads = 128;
constexpr int kWarpTokens = 16, kWarpOutputs = 8;
constexpr int kTokens = kThreads / kLanes * kWarpTokens;  // of a block

// Codes k .. k + 3 of a row in one register.
__device__ __forceinline__ unsigned load_codes(const unsigned char* codes, Index stride, Index row, Index rows, Index k,
                                               Index depth) {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (row < rows && k + i < depth) word |= static_cast<unsigned>(codes[row * stride + k + i]) << 8 * i;
    }
    return word;
}

template <class Output>
__device__ __forceinline__ void multiply(const Product& product, const typename Output::Parameters& parameters) {
    constexpr int kOperands = Output::kPaired ? 2 : 1;  // weight rows of an output
    const Index outputs = product.rows / kOperands;
    // NOTE: one dimension of blocks, because the others end at 65,535.
    const Index across = (outputs + kWarpOutputs - 1) / kWarpOutputs;
    const Index first_output = blockIdx.x % across * kWarpOutputs;
    const Index first_token = blockIdx.x / across * kTokens + threadIdx.x / kLanes * kWarpTokens;
    const int group = threadIdx.x % kLanes / 4, pair = threadIdx.x % 4;

    float sum[kOperands][4] = {};
#pragma unroll 1
    for (Index k = 0; k < product.depth; k += kStep) {
        const Index lane_k = k + 4 * pair;
        unsigned a[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            a[j] = load_codes(product.activations, product.activation_stride, first_token + group + 8 * (j % 2),
                              product.tokens, lane_k + 16 * (j / 2), product.depth);
        }
#pragma unroll
        for (int i = 0; i < kOperands; ++i) {
            const Index row = i * outputs + first_output + group;
            // NOTE: an output past the end must not read the next operand's rows.
            const Index rows = (i + 1) * outputs;
            const unsigned b0 = load_codes(product.weights, product.weight_stride, row, rows, lane_k, product.depth);
            const unsigned b1 = load_codes(product.weights, product.weight_stride, row, rows, lane_k + 16, product.depth);
            mma_m16n8k32_f32_e4m3(sum[i], a, b0, b1);
        }
    }

#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const Index token = first_token + group + 8 * (j / 2), output = first_output + 2 * pair + j % 2;
        if (token >= product.tokens || output >= outputs) continue;
        const float activation_scale = product.activation_scales[token];
        Bf16 value[kOperands];
#pragma unroll
        for (int i = 0; i < kOperands; ++i) {
            const Index row = i * outputs + output;
            const float scaled = __fmul_rn(sum[i][j], activation_scale);
            value[i] = cvt_rn_bf16_f32(
                Output::finish(parameters, scaled, widen(product.weight_scales[row]), token, row));
        }
        if constexpr (Output::kPaired) value[0] = Output::combine(value[0], value[1]);
        *Output::place(parameters, token, output) = value[0];
    }
}

using Output = FP8_A8_OUTPUT;

extern "C" __global__ void __launch_bounds__(kThreads)
    fp8_a8_gemm_fallback(const Product product, const Output::Parameters parameters) {
    multiply<Output>(product, parameters);
}
