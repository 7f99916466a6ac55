// From the sums of a warp to outputs in memory.
#pragma once

#include "int8_mainloop.cuh"

// Word j of lane q of four neighbouring lanes becomes word q of lane j.
__device__ __forceinline__ void exchange_words(unsigned (&words)[4], int lane) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        const bool upper = lane & distance;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int low = distance == 1 ? 2 * i : i, high = low + distance;
            const unsigned got = __shfl_xor_sync(0xFFFFFFFFu, upper ? words[low] : words[high], distance);
            if (upper) {
                words[low] = got;
            } else {
                words[high] = got;
            }
        }
    }
}

// NOTE: four lanes hold 8 columns of each of four fragments; after the exchange each has 8 of one, 16 bytes of a row.
template <class Tile>
__device__ __forceinline__ void write_outputs(const Problem& problem, const Sums<Tile>& sums, Origin origin,
                                              WarpPlace<Tile> place) {
    static_assert(Tile::kNs % 4 == 0, "four fragments side by side are exchanged");
    const int lane = threadIdx.x % kLanes, quarter = lane % 4;
    const int first_row = origin.row + place.row + lane / 4, first_column = origin.column + place.column;
#pragma unroll
    for (int group = 0; group < Tile::kNs; group += 4) {
        float2 w_scale[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int column = first_column + 8 * (group + n) + 2 * quarter;
            w_scale[n] = {problem.w_scale[column], problem.w_scale[column + 1]};
        }
#pragma unroll
        for (int m = 0; m < Tile::kMs; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + 16 * m + 8 * half;
                const float x_scale = row < problem.rows ? problem.x_scale[row] : 0.0f;
                unsigned words[4];
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    const int(&of)[4] = sums.of[m][group + n];
                    words[n] = output_of(of[2 * half], x_scale, w_scale[n].x) |
                               output_of(of[2 * half + 1], x_scale, w_scale[n].y) << 16;
                }
                exchange_words(words, lane);
                if (row < problem.rows) {
                    unsigned short* to = problem.out + problem.at(row, first_column + 8 * (group + quarter));
                    *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
                }
            }
        }
    }
}

// Calls `store` for each pair of neighbouring sums whose row exists.
template <class Tile, class Store>
__device__ __forceinline__ void each_pair(const Problem& problem, const Sums<Tile>& sums, Origin origin,
                                          WarpPlace<Tile> place, Store store) {
    const int lane = threadIdx.x % kLanes;
#pragma unroll
    for (int m = 0; m < Tile::kMs; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = place.row + 16 * m + 8 * half + lane / 4;
            if (origin.row + row >= problem.rows) continue;
#pragma unroll
            for (int n = 0; n < Tile::kNs; ++n) {
                const int(&of)[4] = sums.of[m][n];
                store(row, place.column + 8 * n + lane % 4 * 2, int2{of[2 * half], of[2 * half + 1]});
            }
        }
    }
}

// Two neighbouring outputs.
__device__ __forceinline__ void write_pair(const Problem& problem, int row, int column, int2 sums) {
    const float x_scale = problem.x_scale[row];
    const unsigned pair = output_of(sums.x, x_scale, problem.w_scale[column]) |
                          output_of(sums.y, x_scale, problem.w_scale[column + 1]) << 16;
    *reinterpret_cast<unsigned*>(problem.out + problem.at(row, column)) = pair;
}
