// int8_gemm_decode: the product of int8_problem.cuh for few rows. All of them are one tile, 64 columns a block, and K is
// split, over the grid or within the block:
//
//     Partial    a block stores the sums of its part of K in a plane; int8_combine adds the planes
//     Fused      the same, and the last block of a tile to arrive adds its planes
//     InBlock    groups of four warps take a part each and add them in shared memory; nothing else is written
//
// N and K are multiples of 64, M at most INT8_ROWS; x and the weight begin at multiples of 16. Macros name the variant:
// INT8_ROWS (16, 32), INT8_COMBINE, INT8_GROUPS (of a block; more than one for InBlock only), INT8_LAYOUT.

#include "bar.cuh"
#include "int8_epilogue.cuh"
#include "int8_split.cuh"

using BlockTile = Tile<INT8_ROWS, 64, 64, INT8_ROWS, 16>;
using Layout = INT8_LAYOUT;

constexpr int kGroups = INT8_GROUPS;
constexpr int kSlots = 2;
constexpr int kPairs = BlockTile::kRows * BlockTile::kColumns / 2;

struct Shared {
    Slot<BlockTile> slots[kGroups][kSlots];
    int2 parts[kGroups > 1 ? kGroups - 1 : 1][kGroups > 1 ? kPairs : 1];
    bool is_last;
};

// The sums of this block's part of K, or of this group's.
__device__ __forceinline__ Sums<BlockTile> sums_of_part(const Problem& problem, Shared& shared, Origin origin, int part,
                                                        int parts) {
    const int group = threadIdx.x / BlockTile::kThreads, thread = threadIdx.x % BlockTile::kThreads;
    const Stages stages = stages_of(part, parts, problem.depth / BlockTile::kDepth);
    // NOTE: barrier 0 is the block's; groups have unlike numbers of stages, and so a barrier each.
    return accumulate<BlockTile, Layout>(problem, shared.slots[group], origin, stages, thread,
                                         [=] { bar_sync(1 + group, BlockTile::kThreads); });
}

__device__ __forceinline__ void store_plane(const Problem& problem, const Sums<BlockTile>& sums, Origin origin, int part) {
    int* plane = problem.planes + part * problem.at(problem.rows, 0);
    each_pair(problem, sums, origin, WarpPlace<BlockTile>(threadIdx.x), [&](int row, int column, int2 pair) {
        *reinterpret_cast<int2*>(plane + problem.at(row, origin.column + column)) = pair;
    });
}

struct Partial {
    static __device__ __forceinline__ void run(const Problem& problem, Shared& shared, Origin origin) {
        const int part = blockIdx.y;
        store_plane(problem, sums_of_part(problem, shared, origin, part, problem.splits), origin, part);
    }
};

struct Fused {
    static __device__ __forceinline__ void run(const Problem& problem, Shared& shared, Origin origin) {
        Partial::run(problem, shared, origin);
        __syncthreads();
        if (threadIdx.x == 0) shared.is_last = arrives_last(problem.arrivals + blockIdx.x, problem.splits);
        __syncthreads();
        if (!shared.is_last) return;
        for (int i = threadIdx.x; i < kPairs; i += BlockTile::kThreads) {
            const int row = 2 * i / BlockTile::kColumns, column = origin.column + 2 * i % BlockTile::kColumns;
            if (row < problem.rows) write_pair(problem, row, column, sum_of_planes(problem, problem.at(row, column)));
        }
    }
};

struct InBlock {
    static __device__ __forceinline__ void run(const Problem& problem, Shared& shared, Origin origin) {
        const int group = threadIdx.x / BlockTile::kThreads;
        const Sums<BlockTile> sums = sums_of_part(problem, shared, origin, group, kGroups);
        const WarpPlace<BlockTile> place(threadIdx.x % BlockTile::kThreads);
        if (group > 0) {
            each_pair(problem, sums, origin, place, [&](int row, int column, int2 pair) {
                shared.parts[group - 1][(row * BlockTile::kColumns + column) / 2] = pair;
            });
        }
        __syncthreads();
        if (group > 0) return;
        each_pair(problem, sums, origin, place, [&](int row, int column, int2 pair) {
#pragma unroll
            for (int other = 0; other < kGroups - 1; ++other) {
                const int2 more = shared.parts[other][(row * BlockTile::kColumns + column) / 2];
                pair.x += more.x, pair.y += more.y;
            }
            write_pair(problem, row, origin.column + column, pair);
        });
    }
};

extern "C" __global__ void __launch_bounds__(BlockTile::kThreads* kGroups) int8_gemm_decode(const Problem problem) {
    __shared__ Shared shared;
    INT8_COMBINE::run(problem, shared, {0, static_cast<int>(blockIdx.x) * BlockTile::kColumns});
}
