// W8A8: out = X * W with X [M, K] and W [K, N] of int8, a scale a row and a scale a column, to bf16.
//
//     sum[m, n]  = X[m, :] * W[:, n] in int32, exact
//     value      = (float(sum) * x_scale[m]) * w_scale[n], each operation one float32 operation
//     out[m, n]  = bf16 of value, to nearest even
//
// NOTE: the rounding has no case for NaN, as published: one (of a scale, or infinity times 0) becomes -0, 0x8000.
#pragma once

#include "int8_layout.cuh"

constexpr int kLanes = 32;

// What a kernel is given by value.
struct Problem {
    const signed char* x;         // [M][K]
    const unsigned char* weight;  // W in a packed order
    const float* x_scale;         // [M]
    const float* w_scale;         // [N]
    unsigned short* out;          // [M][N]
    int* planes;                  // [splits][M][N], sums of a part of K
    unsigned long long* arrivals; // [N / columns of a tile], of blocks that have stored their part
    int rows, columns, depth;     // M, N, K
    int splits;

    __device__ __forceinline__ Extents weight_extents() const {
        return {static_cast<unsigned>(depth), static_cast<unsigned>(columns)};
    }
    __device__ __forceinline__ size_t at(int row, int column) const {
        return static_cast<size_t>(row) * columns + column;
    }
};

__device__ __forceinline__ unsigned bf16_of(float value) {
    const unsigned bits = __float_as_uint(value);
    return (bits + (0x7FFFu + (bits >> 16 & 1u))) >> 16;
}

// The bits of one output.
__device__ __forceinline__ unsigned output_of(int sum, float x_scale, float w_scale) {
    return bf16_of(__fmul_rn(__fmul_rn(__int2float_rn(sum), x_scale), w_scale));
}
