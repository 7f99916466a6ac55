// fp8_a8: sums over k of activations [T, K] times weights [N, K], both e4m3, on their way to bf16 outputs.
//
//     sum[t, n]    = the mma m16n8k32 chain over k, ascending, from 0
//     scaled       = sum[t, n] * activation_scales[t]
//     value        = scaled * weight_scales[n], or fused with what is added (see fp8_a8_output.cuh)
//     output       = bf16 of value, to nearest even
//
// Each operation is one float32 operation, so every route gives the same bits whatever the shape.
#pragma once

using Index = long long;
using Bf16 = unsigned short;  // raw bits

constexpr int kTileRows = 128;  // weight rows of a block's tile, on every tiled route
constexpr int kStep = 32;       // k of one mma
constexpr int kLanes = 32;

// What every route is given; strides count elements, and K is contiguous.
struct Product {
    const unsigned char* activations;
    Index activation_stride;
    const float* activation_scales;
    const unsigned char* weights;
    Index weight_stride;
    const Bf16* weight_scales;
    Index tokens;
    Index rows;
    Index depth;
};

__device__ __forceinline__ float widen(Bf16 bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
