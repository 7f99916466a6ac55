// Operands of a stage of K on their way: memory, registers of a block's threads, tiles in shared memory, fragments.
//
// In a tile a row of X, or a column of W, is kDepth bytes of contiguous k, whatever it is in memory. What a thread
// fetches waits in its registers while the stage before is multiplied, and is then published.
#pragma once

#include "byte_transpose.cuh"
#include "int8_problem.cuh"
#include "ldmatrix.cuh"
#include "shared_address.cuh"
#include "swizzled_tile.cuh"

// The output tile of a block, its stage of K, and the part of the tile that a warp makes.
template <int kTileRows, int kTileColumns, int kTileDepth, int kWarpTileRows, int kWarpTileColumns>
struct Tile {
    static constexpr int kRows = kTileRows, kColumns = kTileColumns, kDepth = kTileDepth;
    static constexpr int kWarpRows = kWarpTileRows, kWarpColumns = kWarpTileColumns;
    static constexpr int kWarpsAcross = kColumns / kWarpColumns;
    static constexpr int kThreads = kRows / kWarpRows * kWarpsAcross * kLanes;
    static constexpr int kMs = kWarpRows / 16, kNs = kWarpColumns / 8;  // fragments of a warp
    static constexpr int kSegments = kDepth / kSegment;                 // of a row
};

template <int kRows, int kDepth>
struct alignas(16) Operand {
    unsigned char bytes[kRows * kDepth];

    template <class Vector>
    __device__ __forceinline__ void put(int row, int k, Vector vector) {
        unsigned char* to = bytes + place_of<kDepth>(row, k / kSegment) + k % kSegment;
        *reinterpret_cast<Vector*>(to) = vector;
    }
};

template <class Tile>
struct Slot {
    Operand<Tile::kRows, Tile::kDepth> x;
    Operand<Tile::kColumns, Tile::kDepth> w;
};

// Which of `kUnits` pieces of work a thread has: `move` is told the number of each, and where in its registers it is.
template <class Tile, int kUnits, class Move>
__device__ __forceinline__ void each_unit(int thread, Move move) {
    constexpr int kEach = (kUnits + Tile::kThreads - 1) / Tile::kThreads;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int unit = thread + i * Tile::kThreads;
        if (kUnits % Tile::kThreads == 0 || unit < kUnits) move(unit, i);
    }
}

// Rows of X; one past the last is zeros.
template <class Tile>
struct Activations {
    static constexpr int kUnits = Tile::kRows * Tile::kSegments;
    uint4 held[(kUnits + Tile::kThreads - 1) / Tile::kThreads];

    __device__ __forceinline__ void fetch(const Problem& problem, int first_row, int k, int thread) {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            const int row = first_row + unit / Tile::kSegments, segment = unit % Tile::kSegments;
            held[i] = {};
            if (row < problem.rows) {
                const size_t at = static_cast<size_t>(row) * problem.depth + k + segment * kSegment;
                held[i] = *reinterpret_cast<const uint4*>(problem.x + at);
            }
        });
    }
    __device__ __forceinline__ void publish(Slot<Tile>& slot, int thread) const {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            slot.x.put(unit / Tile::kSegments, unit % Tile::kSegments * kSegment, held[i]);
        });
    }
};

template <class Tile, class Layout, Run kRun = Layout::kRun>
struct Weights;

// 16 bytes are 16 k of one column.
template <class Tile, class Layout>
struct Weights<Tile, Layout, Run::kAlongK> {
    static constexpr int kUnits = Tile::kColumns * Tile::kSegments;
    uint4 held[(kUnits + Tile::kThreads - 1) / Tile::kThreads];

    static __device__ __forceinline__ int column(int unit) {
        return Layout::kColumnsFirst ? unit % Tile::kColumns : unit / Tile::kSegments;
    }
    static __device__ __forceinline__ int depth(int unit) {
        return (Layout::kColumnsFirst ? unit / Tile::kColumns : unit % Tile::kSegments) * kSegment;
    }
    __device__ __forceinline__ void fetch(const Problem& problem, int first_column, int k, int thread) {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            const size_t at = Layout::offset(problem.weight_extents(), k + depth(unit), first_column + column(unit));
            held[i] = *reinterpret_cast<const uint4*>(problem.weight + at);
        });
    }
    __device__ __forceinline__ void publish(Slot<Tile>& slot, int thread) const {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) { slot.w.put(column(unit), depth(unit), held[i]); });
    }
};

// 16 bytes are 8 k of two columns.
template <class Tile, class Layout>
struct Weights<Tile, Layout, Run::kTwoOfK> {
    static constexpr int kPairs = Tile::kColumns / 2, kUnits = kPairs * (Tile::kDepth / 8);
    uint4 held[(kUnits + Tile::kThreads - 1) / Tile::kThreads];

    __device__ __forceinline__ void fetch(const Problem& problem, int first_column, int k, int thread) {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            const int column = first_column + first_of_pair<Layout>(unit % kPairs);
            const size_t at = Layout::offset(problem.weight_extents(), k + unit / kPairs * 8, column);
            held[i] = *reinterpret_cast<const uint4*>(problem.weight + at);
        });
    }
    __device__ __forceinline__ void publish(Slot<Tile>& slot, int thread) const {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            const int column = first_of_pair<Layout>(unit % kPairs), k = unit / kPairs * 8;
            slot.w.put(column, k, uint2{held[i].x, held[i].y});
            slot.w.put(column + Layout::kPartner, k, uint2{held[i].z, held[i].w});
        });
    }
};

// 16 bytes are 16 columns of one k: four neighbouring k go through registers, which turn them into 16 words along k.
template <class Tile, class Layout>
struct Weights<Tile, Layout, Run::kAlongN> {
    static constexpr int kAcross = Tile::kColumns / kSegment, kUnits = kAcross * (Tile::kDepth / 4);
    uint4 held[(kUnits + Tile::kThreads - 1) / Tile::kThreads][4];

    __device__ __forceinline__ void fetch(const Problem& problem, int first_column, int k, int thread) {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            const int column = first_column + unit % kAcross * kSegment;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const size_t at = Layout::offset(problem.weight_extents(), k + unit / kAcross * 4 + j, column);
                held[i][j] = *reinterpret_cast<const uint4*>(problem.weight + at);
            }
        });
    }
    __device__ __forceinline__ void publish(Slot<Tile>& slot, int thread) const {
        each_unit<Tile, kUnits>(thread, [&](int unit, int i) {
            const uint4(&line)[4] = held[i];
            const unsigned words[4][4] = {{line[0].x, line[1].x, line[2].x, line[3].x},
                                          {line[0].y, line[1].y, line[2].y, line[3].y},
                                          {line[0].z, line[1].z, line[2].z, line[3].z},
                                          {line[0].w, line[1].w, line[2].w, line[3].w}};
#pragma unroll
            for (int j = 0; j < kSegment; ++j) {
                const unsigned(&of)[4] = words[j / 4];
                slot.w.put(unit % kAcross * kSegment + j, unit / kAcross * 4, bytes_of(of[0], of[1], of[2], of[3], j % 4));
            }
        });
    }
};

// Rows `row` .. `row` + 15, bytes `k` .. `k` + 31: rows 0-7 and 8-15 of the first 16 bytes, then of the others.
template <int kRows, int kDepth>
__device__ __forceinline__ void load_fragments(unsigned (&fragments)[4], const Operand<kRows, kDepth>& operand, int row,
                                               int k) {
    const int lane = threadIdx.x % kLanes;
    const int place = place_of<kDepth>(row + lane % 16, k / kSegment + lane / 16);
    ldmatrix_x4(fragments, shared_address(operand.bytes + place));
}
