// From the sums of a block's tile to memory: bf16 into shared memory, then whole vectors out of it.
//
// Fragments hold two columns of a row here and two there; the staged tile turns them into 16-byte stores. The caller
// puts a barrier before `stage_sums` if the tile lies over its operands, and one between the two functions.
#pragma once

#include "cvt.cuh"
#include "fp8_a8_output.cuh"
#include "fp8_a8_product.cuh"

constexpr int kVector = 8;  // bf16 values in 16 bytes

// NOTE: one vector more a row, so that the rows that a warp writes lie in different banks.
constexpr int kPitch = kTileRows + kVector;

template <int kTokens>
struct alignas(16) StagedTile {
    Bf16 values[kTokens][kPitch];
};

// Outputs of a tile in one token's row.
template <class Output>
constexpr int kTileOutputs = Output::kPaired ? kTileRows / 2 : kTileRows;

// The weight row that row `local` of a tile is. Paired: gate rows first, then the up rows, half a weight behind.
template <class Output>
__device__ __forceinline__ Index weight_row(const Product& product, Index row_tile, int local) {
    constexpr int kOutputs = kTileOutputs<Output>;
    const Index row = row_tile * kOutputs + local % kOutputs;
    return local < kOutputs ? row : row + product.rows / 2;
}

// The sums of one warp, kMs x kNs fragments of 16 tokens x 8 rows from (warp_token, warp_row) of the tile on, as bf16.
// NOTE: tokens past the end are skipped: they have no scale, no residual and no output.
template <class Output, int kMs, int kNs, int kTokens>
__device__ __forceinline__ void stage_sums(StagedTile<kTokens>& staged, const float (&sum)[kMs][kNs][4],
                                           const Product& product, const typename Output::Parameters& parameters,
                                           int warp_token, int warp_row, Index first_token, Index row_tile) {
    const int lane = threadIdx.x % kLanes;
    const int lane_token = warp_token + lane / 4, lane_row = warp_row + lane % 4 * 2;
    float weight_scale[kNs][2];
#pragma unroll
    for (int n = 0; n < kNs; ++n) {
        // NOTE: rows n and n + 1 of a tile are neighbours in the weight, too, and n is even: their scales are one word.
        const Bf16* pair = product.weight_scales + weight_row<Output>(product, row_tile, lane_row + 8 * n);
        const unsigned word = *reinterpret_cast<const unsigned*>(pair);
        weight_scale[n][0] = widen(static_cast<Bf16>(word));
        weight_scale[n][1] = widen(static_cast<Bf16>(word >> 16));
    }
#pragma unroll
    for (int m = 0; m < kMs; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int local = lane_token + 16 * m + 8 * half;
            const Index token = first_token + local;
            if (token >= product.tokens) continue;
            const float activation_scale = product.activation_scales[token];
#pragma unroll
            for (int n = 0; n < kNs; ++n) {
                const Index row = weight_row<Output>(product, row_tile, lane_row + 8 * n);
                float value[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float scaled = __fmul_rn(sum[m][n][2 * half + i], activation_scale);
                    value[i] = Output::finish(parameters, scaled, weight_scale[n][i], token, row + i);
                }
                *reinterpret_cast<unsigned*>(&staged.values[local][lane_row + 8 * n]) =
                    cvt_rn_bf16x2_f32(value[1], value[0]);
            }
        }
    }
}

// One vector of a token's outputs, from column `column` of the tile on.
template <class Output, int kTokens>
__device__ __forceinline__ uint4 output_vector(const StagedTile<kTokens>& staged, int local, int column) {
    uint4 vector = *reinterpret_cast<const uint4*>(&staged.values[local][column]);
    if constexpr (Output::kPaired) {
        const uint4 up = *reinterpret_cast<const uint4*>(&staged.values[local][kTileOutputs<Output> + column]);
        const auto both = [](unsigned gates, unsigned ups) {
            const unsigned low = Output::combine(static_cast<Bf16>(gates), static_cast<Bf16>(ups));
            const unsigned high = Output::combine(static_cast<Bf16>(gates >> 16), static_cast<Bf16>(ups >> 16));
            return low | high << 16;
        };
        vector = {both(vector.x, up.x), both(vector.y, up.y), both(vector.z, up.z), both(vector.w, up.w)};
    }
    return vector;
}

// The outputs of a tile, by the threads 0 .. kThreads - 1.
template <class Output, int kThreads, int kTokens>
__device__ __forceinline__ void write_tile(const StagedTile<kTokens>& staged, const Product& product,
                                           const typename Output::Parameters& parameters, Index first_token,
                                           Index row_tile, int thread) {
    constexpr int kVectors = kTileOutputs<Output> / kVector;
    for (int i = thread; i < kTokens * kVectors; i += kThreads) {
        const int local = i / kVectors, column = i % kVectors * kVector;
        if (first_token + local >= product.tokens) return;
        Bf16* out = Output::place(parameters, first_token + local, row_tile * kTileOutputs<Output> + column);
        *reinterpret_cast<uint4*>(out) = output_vector<Output>(staged, local, column);
    }
}
