// int8_gemm_wgmma: the product of int8_problem.cuh on sm_90a, for weights packed n-major.
//
// A block makes 128 rows x INT8_COLUMNS columns (128, 256). Its last warp is the producer: one thread orders the tensor
// copies of a stage, 128 k of every row and column, and runs ahead by up to INT8_STAGES of them. Two warpgroups consume, 64
// rows each. A stage is full when its bytes have landed, and empty when every warp's products of it have ended, which is
// seen one stage later: while that is multiplied, the next products are already under way.
//
// Rows past M, and k past K, lie outside the tensors and arrive as zeros. N is a multiple of INT8_COLUMNS, K of 16.

#include "fence.cuh"
#include "int8_epilogue.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int kTileRows = 128, kTileColumns = INT8_COLUMNS, kStages = INT8_STAGES;
constexpr int kDepth = 128;      // bytes of k in a stage: a line of the swizzle
constexpr int kAtom = 1024;      // bytes after which the swizzle repeats
constexpr int kGroupRows = 64;   // of a warpgroup
constexpr int kPartColumns = 128;  // of one product
constexpr int kParts = kTileColumns / kPartColumns;

// What a warp has of each part of the columns, in the terms of the epilogue.
using Part = Tile<kTileRows, kPartColumns, kDepth, 16, kPartColumns>;
constexpr int kConsumers = Part::kThreads;
constexpr int kConsumerWarps = kConsumers / kLanes;
constexpr int kBlockThreads = kConsumers + kLanes;

// Rows of tiles that are walked through together, column by column, so that blocks which run together share both operands.
constexpr unsigned kRasterRows = 8;

struct Stage {
    unsigned char x[kTileRows][kDepth];
    unsigned char w[kTileColumns][kDepth];
};

struct alignas(kAtom) Shared {
    Stage stages[kStages];
    unsigned long long full[kStages], empty[kStages];
};

static_assert(sizeof(Stage) % kAtom == 0 && sizeof(Stage::x) % kAtom == 0, "tiles begin at atoms");

struct Maps {
    TensorMap x, w;
};

// Where the ring stands: a slot, and how often it was passed, as the parity of a phase.
struct Turn {
    int slot = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        if (++slot == kStages) {
            slot = 0;
            parity ^= 1;
        }
    }
};

// Where the tile of a block begins; the last group of rows may be short.
__device__ __forceinline__ Origin origin_of(const Problem& problem) {
    const unsigned across = problem.columns / kTileColumns, down = (problem.rows + kTileRows - 1) / kTileRows;
    const unsigned of_group = kRasterRows * across;
    const unsigned first = blockIdx.x / of_group * kRasterRows, in_group = blockIdx.x % of_group;
    const unsigned rows = min(down - first, kRasterRows);
    return {static_cast<int>((first + in_group % rows) * kTileRows), static_cast<int>(in_group / rows * kTileColumns)};
}

__device__ __forceinline__ void produce(Shared& shared, const Maps& maps, int depth, Origin origin) {
    Turn turn;
#pragma unroll 1
    for (int k = 0; k < depth; k += kDepth) {
        // NOTE: of a barrier that has ended no phase, the one before its first counts as ended: a new ring is empty.
        mbarrier_wait_parity(shared_address(&shared.empty[turn.slot]), turn.parity ^ 1);
        const unsigned full = shared_address(&shared.full[turn.slot]);
        Stage& stage = shared.stages[turn.slot];
        mbarrier_arrive_expect_tx(full, sizeof(Stage));
        cp_async_bulk_tensor_2d(shared_address(stage.x), &maps.x, k, origin.row, full);
        cp_async_bulk_tensor_2d(shared_address(stage.w), &maps.w, k, origin.column, full);
        turn.advance();
    }
}

// Says, once for a warp, that its products of a stage have ended.
__device__ __forceinline__ void release(Shared& shared, int slot) {
    __syncwarp();
    if (threadIdx.x % kLanes == 0) mbarrier_arrive(shared_address(&shared.empty[slot]));
}

__device__ __forceinline__ void multiply_stage(Sums<Part> (&sums)[kParts], const Stage& stage, int group,
                                               bool is_first) {
#pragma unroll
    for (int k = 0; k < kDepth; k += kStepK) {
        const unsigned long long x = wgmma_descriptor_128(&stage.x[group * kGroupRows][k]);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const unsigned long long w = wgmma_descriptor_128(&stage.w[part * kPartColumns][k]);
            wgmma_m64n128k32_s32_s8(sums[part].of[0], x, w, !is_first || k > 0);
        }
    }
}

__device__ __forceinline__ void consume(Sums<Part> (&sums)[kParts], Shared& shared, int depth, int group) {
    Turn turn;
    int before = -1;  // the slot whose products may still be running
#pragma unroll 1
    for (int k = 0; k < depth; k += kDepth) {
        mbarrier_wait_parity(shared_address(&shared.full[turn.slot]), turn.parity);
        wgmma_fence();
        multiply_stage(sums, shared.stages[turn.slot], group, k == 0);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        if (before >= 0) release(shared, before);
        before = turn.slot;
        turn.advance();
    }
    wgmma_wait_group<0>();
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    int8_gemm_wgmma(const __grid_constant__ Maps maps, const Problem problem) {
    extern __shared__ __align__(kAtom) unsigned char memory[];
    if (shared_address(memory) % kAtom != 0) __trap();
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const Origin origin = origin_of(problem);

    if (threadIdx.x == 0) {
        for (int slot = 0; slot < kStages; ++slot) {
            mbarrier_init(shared_address(&shared.full[slot]), 1);
            mbarrier_init(shared_address(&shared.empty[slot]), kConsumerWarps);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    // NOTE: the producer comes last, because a warpgroup begins at a multiple of four warps.
    if (threadIdx.x >= kConsumers) {
        if (threadIdx.x == kConsumers) produce(shared, maps, problem.depth, origin);
        return;
    }

    Sums<Part> sums[kParts];  // NOTE: set by the first products; zeros set here would make ptxas serialise all of them
    consume(sums, shared, problem.depth, threadIdx.x / (kGroupRows / 16 * kLanes));
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
        const Origin of_part = {origin.row, origin.column + part * kPartColumns};
        write_outputs(problem, sums[part], of_part, WarpPlace<Part>(threadIdx.x));
    }
}
