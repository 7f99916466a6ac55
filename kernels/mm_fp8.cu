// mm_fp8: the product of mm_fp8_problem.cuh, a tile of one matrix of the batch a block.
//
// K goes by in stages of 64 codes. Each operand has a ring of slots in shared memory: kStages + 1 of them, so that the
// stage after the next ones goes into the slot that was read last, behind the one barrier of a stage. A lean ring has
// kStages and is filled behind a second barrier, when the stage has been multiplied. A crosswise operand is fetched
// before the stage is multiplied, so its ring is never lean.
//
// Any M, N, K from 1 on, any strides and addresses. Macros name the variant: MM_FP8_LAYOUT (NT, NN, TN, TT), MM_FP8_TILE
// (Tile128, Tile64), MM_FP8_STAGES, MM_FP8_LEAN (0, 1), MM_FP8_FORMAT (E4m3, E5m2), MM_FP8_OUTPUT (Bf16Output, E4m3Output).

#include "cp_async.cuh"
#include "mm_fp8_epilogue.cuh"
#include "mm_fp8_format.cuh"
#include "mm_fp8_operand.cuh"
#include "mm_fp8_problem.cuh"

using Operands = MM_FP8_LAYOUT;
using Block = MM_FP8_TILE;
using Format = MM_FP8_FORMAT;
using Output = MM_FP8_OUTPUT;

constexpr int kStages = MM_FP8_STAGES;
constexpr bool kLeanA = MM_FP8_LEAN && !Operands::kACrosswise;
constexpr bool kLeanB = MM_FP8_LEAN && !Operands::kBCrosswise;

template <int kRows, bool kCrosswise, bool kLean>
struct Ring {
    static_assert(!(kCrosswise && kLean), "a crosswise operand is fetched while a lean ring's slot is being read");
    static constexpr int kSlots = kLean ? kStages : kStages + 1;
    Slot<kRows> slots[kSlots];
    __device__ Slot<kRows>& of(int stage) { return slots[stage % kSlots]; }
};

struct Rings {
    Ring<Block::kRows, Operands::kACrosswise, kLeanA> a;
    Ring<Block::kColumns, Operands::kBCrosswise, kLeanB> b;
};

union Shared {
    Rings rings;
    StagedTile<Block, Output> staged;
};

constexpr int kBlocksPerSm = sizeof(Shared) <= 48 * 1024 ? 2 : 1;

// Where the tile of a block begins. Groups of rows of tiles are walked through column by column, so that blocks which run
// together share both operands; the last group may be short.
struct Origin {
    Index row, column;
};

__device__ __forceinline__ Origin origin_of(const Problem& problem) {
    const Index across = (problem.columns + Block::kColumns - 1) / Block::kColumns;
    const Index down = (problem.rows + Block::kRows - 1) / Block::kRows;
    const Index of_group = problem.raster_group * across;
    const Index first = blockIdx.x / of_group * problem.raster_group, in_group = blockIdx.x % of_group;
    const Index rows = down - first < problem.raster_group ? down - first : problem.raster_group;
    return {(first + in_group % rows) * Block::kRows, in_group / rows * Block::kColumns};
}

struct Copier {
    Matrix a, b;
    Origin origin;
    int stages;

    __device__ __forceinline__ void fetch_a(Rings& rings, int stage) const {
        if (stage >= stages) return;
        copy_tile<Operands::kACrosswise, Block::kThreads>(rings.a.of(stage), a, origin.row, Index(stage) * kStageK);
    }
    __device__ __forceinline__ void fetch_b(Rings& rings, int stage) const {
        if (stage >= stages) return;
        copy_tile<Operands::kBCrosswise, Block::kThreads>(rings.b.of(stage), b, origin.column, Index(stage) * kStageK);
    }
};

__device__ __forceinline__ void multiply_stage(float (&sum)[Block::kMs][Block::kNs][4],
                                               const Slot<Block::kRows>& slot_a, const Slot<Block::kColumns>& slot_b,
                                               int warp_row, int warp_column) {
// NOTE: not unrolled, because what ptxas makes of both steps on sm_90 does not fit 128 registers a thread.
#pragma unroll 1
    for (int k = 0; k < kStageK; k += kStepK) {
        unsigned a[Block::kMs][4], b[Block::kNs / 2][4];
#pragma unroll
        for (int m = 0; m < Block::kMs; ++m) load_fragments(a[m], slot_a, warp_row + 16 * m, k);
#pragma unroll
        for (int n = 0; n < Block::kNs / 2; ++n) load_fragments(b[n], slot_b, warp_column + 16 * n, k);
#pragma unroll
        for (int m = 0; m < Block::kMs; ++m) {
#pragma unroll
            for (int n = 0; n < Block::kNs; ++n) Format::multiply(sum[m][n], a[m], b[n / 2][n % 2], b[n / 2][n % 2 + 2]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(Block::kThreads, kBlocksPerSm) mm_fp8(const Problem problem) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    Rings& rings = shared.rings;
    const Copier copier = {matrix_of(problem.a, problem.rows, problem.depth),
                           matrix_of(problem.b, problem.columns, problem.depth), origin_of(problem),
                           static_cast<int>((problem.depth + kStageK - 1) / kStageK)};
    const int warp = threadIdx.x / kLanes;
    const int warp_row = warp / Block::kWarpsAcross * Block::kWarpRows;
    const int warp_column = warp % Block::kWarpsAcross * Block::kWarpColumns;

    float sum[Block::kMs][Block::kNs][4] = {};
    // NOTE: the first kStages rounds only fetch, so that the code of a fetch stands here once.
#pragma unroll 1
    for (int stage = -kStages; stage < copier.stages; ++stage) {
        if (stage >= 0) {
            cp_async_wait_group<kStages - 1>();
            __syncthreads();
        }
        if constexpr (!kLeanA) copier.fetch_a(rings, stage + kStages);
        if constexpr (!kLeanB) copier.fetch_b(rings, stage + kStages);
        if (stage >= 0) {
            multiply_stage(sum, rings.a.of(stage), rings.b.of(stage), warp_row, warp_column);
            if constexpr (kLeanA || kLeanB) __syncthreads();
        }
        if constexpr (kLeanA) copier.fetch_a(rings, stage + kStages);
        if constexpr (kLeanB) copier.fetch_b(rings, stage + kStages);
        // NOTE: a group is committed even if it is empty, so that kStages - 1 are the later ones throughout.
        cp_async_commit_group();
    }
    // NOTE: the staged tile lies over the rings, which other warps may still be reading.
    cp_async_wait_group<0>();
    __syncthreads();
    stage_sums<Block, Output, Format>(shared.staged, sum, problem, warp_row, warp_column, copier.origin.column);
    __syncthreads();
    write_tile<Block, Output>(shared.staged, problem, copier.origin.row, copier.origin.column);
}
