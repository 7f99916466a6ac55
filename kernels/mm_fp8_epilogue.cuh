// From the sums of a block to memory: scaled, biased and rounded into a staged tile, then whole vectors out of it.
//
// The staged tile may lie over the rings: the caller puts a barrier before `stage_sums`, and one between the two.
#pragma once

#include "cvt.cuh"
#include "mm_fp8_problem.cuh"
#include "swizzled_tile.cuh"

// What an output is: two neighbours as one store, from values that are scaled and biased.
struct Bf16Output {
    using Element = unsigned short;
    using Pair = unsigned;
    static __device__ __forceinline__ float scale(const Problem&) { return 1.0f; }
    static __device__ __forceinline__ Pair round(float first, float second, float) {
        return cvt_rn_bf16x2_f32(second, first);
    }
};

struct E4m3Output {
    using Element = unsigned char;
    using Pair = unsigned short;
    static __device__ __forceinline__ float scale(const Problem& problem) { return *problem.out_scale; }
    static __device__ __forceinline__ Pair round(float first, float second, float scale) {
        const unsigned pair = cvt_rn_satfinite_e4m3x2_f32(__fmul_rn(second, scale), __fmul_rn(first, scale));
        return static_cast<Pair>(pair);
    }
};

template <class Tile, class Output>
struct alignas(16) StagedTile {
    static constexpr int kRowBytes = Tile::kColumns * sizeof(typename Output::Element);
    unsigned char bytes[Tile::kRows * kRowBytes];
};

// The bias of one column; there is one.
template <class Format>
__device__ __forceinline__ float bias_of(const Problem& problem, Index column) {
    if (problem.bias_scale == nullptr) {
        const unsigned bits = static_cast<const unsigned short*>(problem.bias)[column];
        return __uint_as_float(bits << 16);  // bf16 is the upper half of a float32
    }
    const unsigned char code = static_cast<const unsigned char*>(problem.bias)[column];
    return __fmul_rn(Format::widen(code), *problem.bias_scale);
}

// The sums of one warp, from (warp_row, warp_column) of the tile on; `first_column` is the tile's.
template <class Tile, class Output, class Format>
__device__ __forceinline__ void stage_sums(StagedTile<Tile, Output>& staged, const float (&sum)[Tile::kMs][Tile::kNs][4],
                                           const Problem& problem, int warp_row, int warp_column, Index first_column) {
    using Staged = StagedTile<Tile, Output>;
    const int lane = threadIdx.x % kLanes;
    const float scale = *problem.scale, out_scale = Output::scale(problem);
    const bool biased = problem.bias != nullptr;
#pragma unroll
    for (int n = 0; n < Tile::kNs; ++n) {
        const int column = warp_column + 8 * n + lane % 4 * 2;
        float bias[2] = {};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (biased && first_column + column + i < problem.columns) {
                bias[i] = bias_of<Format>(problem, first_column + column + i);
            }
        }
        const int byte = column * static_cast<int>(sizeof(typename Output::Element));
#pragma unroll
        for (int m = 0; m < Tile::kMs; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = warp_row + 16 * m + 8 * half + lane / 4;
                float value[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float sums = sum[m][n][2 * half + i];
                    // NOTE: without a bias nothing is added, so that -0 stays -0.
                    value[i] = biased ? __fmaf_rn(sums, scale, bias[i]) : __fmul_rn(sums, scale);
                }
                unsigned char* to = staged.bytes + place_of<Staged::kRowBytes>(row, byte / kSegment) + byte % kSegment;
                *reinterpret_cast<typename Output::Pair*>(to) = Output::round(value[0], value[1], out_scale);
            }
        }
    }
}

// The outputs of a tile that exist: vectors of 16 bytes where they are whole and aligned, single elements elsewhere.
template <class Tile, class Output>
__device__ __forceinline__ void write_tile(const StagedTile<Tile, Output>& staged, const Problem& problem,
                                           Index first_row, Index first_column) {
    using Element = typename Output::Element;
    constexpr int kRowBytes = StagedTile<Tile, Output>::kRowBytes;
    constexpr int kSegments = kRowBytes / kSegment, kVector = kSegment / sizeof(Element);
    Element* out = static_cast<Element*>(problem.out) + blockIdx.z * problem.out_matrix_stride;
    for (int i = threadIdx.x; i < Tile::kRows * kSegments; i += Tile::kThreads) {
        const int row = i / kSegments, segment = i % kSegments;
        const Index column = first_column + segment * kVector;
        // NOTE: columns end at N, not at the stride: what lies between the rows is not ours.
        const Index left = problem.columns - column;
        if (first_row + row >= problem.rows || left <= 0) continue;
        Element* to = out + (first_row + row) * problem.out_stride + column;
        const unsigned char* from = staged.bytes + place_of<kRowBytes>(row, segment);
        if (left >= kVector && reinterpret_cast<Index>(to) % kSegment == 0) {
            *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        } else {
#pragma unroll
            for (int j = 0; j < kVector; ++j) {
                if (j < left) to[j] = reinterpret_cast<const Element*>(from)[j];
            }
        }
    }
}
