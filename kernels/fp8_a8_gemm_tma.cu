// fp8_a8_gemm_tma: the product of fp8_a8_product.cuh through a ring of shared memory that tensor copies fill.
//
// A block makes 256 tokens x 128 weight rows. Its first warp is the producer: one thread orders the copies of a stage,
// 64 codes of every row, and runs ahead by up to four stages. The other eight consume, a warp 64 x 64. A stage is full
// when its bytes have landed, and empty when all eight have read it.
//
// A row of a stage is 64 bytes in segments of 16, swizzled by the copies: segment s of row r lies in place
// s ^ (r / 2 % 4), so that the eight rows of a matrix that ldmatrix loads lie in different banks. The hardware takes
// the swizzle from the address, and its pattern repeats every 512 bytes: r is the row of an operand only if the operand
// begins at a multiple of 512.
//
// Tokens past the end are rows outside the tensor, which arrive as zeros. N is a multiple of 128 and K of 64; operands
// and outputs are aligned to 16 bytes, rows too. FP8_A8_OUTPUT names the output policy.

#include "bar.cuh"
#include "fence.cuh"
#include "fp8_a8_epilogue.cuh"
#include "fp8_a8_output.cuh"
#include "fp8_a8_product.cuh"
#include "ldmatrix.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "shared_address.cuh"
#include "tma.cuh"

using Output = FP8_A8_OUTPUT;

// NOTE: 0 leaves out what orders a warp's reads of a stage before the copies that fill it again: only to measure its
// cost.
#ifndef FP8_A8_RELEASE_FENCE
#define FP8_A8_RELEASE_FENCE 1
#endif

constexpr int kTokens = 256;
constexpr int kDepth = 64;
constexpr int kStages = 4;

constexpr int kWarpTokens = 64, kWarpRows = 64;
constexpr int kWarpsAcross = kTileRows / kWarpRows;
constexpr int kMs = kWarpTokens / 16, kNs = kWarpRows / 8;  // fragments of a warp
// Fragments of tokens that a warp holds at a time.
// NOTE: on sm_90 codes are widened before they are multiplied. Widened fragments of all its tokens would take too many
// of the 168 registers a thread, so it loads weights twice instead: 0.86 of the time on an H200.
#if __CUDA_ARCH__ == 900
constexpr int kHeld = kMs / 2;
#else
constexpr int kHeld = kMs;
#endif
constexpr int kConsumers = kTokens / kWarpTokens * kWarpsAcross;
constexpr int kConsumerThreads = kConsumers * kLanes;
constexpr int kThreads = kLanes + kConsumerThreads;
constexpr int kConsumerBarrier = 1;

constexpr int kSegment = 16;
constexpr int kSegments = kDepth / kSegment;
constexpr int kAtom = 512;  // bytes after which the swizzle repeats

template <int kRows>
struct Operand {
    unsigned char bytes[kRows][kDepth];
};

struct Stage {
    Operand<kTokens> activations;
    Operand<kTileRows> weights;
};

struct alignas(kAtom) Shared {
    union {
        Stage stages[kStages];
        StagedTile<kTokens> staged;
    };
    unsigned long long full[kStages], empty[kStages];
};

// Rows of a weight that one copy takes: gate rows and up rows of a paired tile lie apart.
constexpr int kBoxRows = kTileOutputs<Output>;

static_assert(sizeof(Operand<kTokens>) % kAtom == 0 && sizeof(Operand<kBoxRows>) % kAtom == 0, "boxes begin at atoms");
static_assert(sizeof(Shared) <= 99 * 1024, "a block of sm_120 has no more");

struct Maps {
    TensorMap activations, weights;
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

__device__ __forceinline__ int place_of(int row, int segment) { return (segment ^ row / 2 % kSegments) * kSegment; }

__device__ __forceinline__ void copy_stage(const Stage& stage, unsigned full, const Maps& maps, const Product& product,
                                           Index first_token, Index row_tile, int k) {
    mbarrier_arrive_expect_tx(full, sizeof(Stage));
    cp_async_bulk_tensor_2d(shared_address(&stage.activations), &maps.activations, k, static_cast<int>(first_token),
                            full);
#pragma unroll
    for (int row = 0; row < kTileRows; row += kBoxRows) {
        cp_async_bulk_tensor_2d(shared_address(&stage.weights.bytes[row]), &maps.weights, k,
                                static_cast<int>(weight_row<Output>(product, row_tile, row)), full);
    }
}

__device__ __forceinline__ void produce(Shared& shared, const Maps& maps, const Product& product, Index first_token,
                                        Index row_tile) {
    const int depth = static_cast<int>(product.depth);
    Turn turn;
#pragma unroll 1
    for (int k = 0; k < depth; k += kDepth) {
        // NOTE: of a barrier that has ended no phase, the one before its first counts as ended: a new ring is empty.
        mbarrier_wait_parity(shared_address(&shared.empty[turn.slot]), turn.parity ^ 1);
        copy_stage(shared.stages[turn.slot], shared_address(&shared.full[turn.slot]), maps, product, first_token,
                   row_tile, k);
        turn.advance();
    }
}

// Where this lane's first segment lies in an operand: codes 0-15 of row `row` + lane % 16, lanes 16-31 the next 16.
template <int kRows>
__device__ __forceinline__ unsigned lane_address(const Operand<kRows>& operand, int row) {
    const int lane = threadIdx.x % kLanes;
    row += lane % 16;
    return shared_address(&operand.bytes[row][place_of(row, lane / 16)]);
}

// Rows 16 * `index` and on, codes `k` .. `k` + 31: rows 0-7 and 8-15 of the first 16 codes, then of the others.
// NOTE: k = 32 is two segments on. In swizzled places that is an exclusive or, the same in every row: one register and
// a constant address all fragments.
__device__ __forceinline__ void load_fragments(unsigned (&fragments)[4], unsigned address, int index, int k) {
    ldmatrix_x4(fragments, (address ^ k) + index * 16 * kDepth);
}

__device__ __forceinline__ void multiply_stage(float (&sum)[kMs][kNs][4], unsigned activations, unsigned weights) {
// NOTE: not unrolled, and weights loaded as they are needed, because ptxas would spill more on sm_90.
#pragma unroll 1
    for (int k = 0; k < kDepth; k += kStep) {
#pragma unroll
        for (int first = 0; first < kMs; first += kHeld) {
            unsigned a[kHeld][4], b[4];
#pragma unroll
            for (int m = 0; m < kHeld; ++m) load_fragments(a[m], activations, first + m, k);
#pragma unroll
            for (int n = 0; n < kNs; n += 2) {
                load_fragments(b, weights, n / 2, k);
#pragma unroll
                for (int m = 0; m < kHeld; ++m) {
                    mma_m16n8k32_f32_e4m3(sum[first + m][n], a[m], b[0], b[2]);
                    mma_m16n8k32_f32_e4m3(sum[first + m][n + 1], a[m], b[1], b[3]);
                }
            }
        }
    }
}

// Says, once for a warp, that all its lanes have read a stage.
__device__ __forceinline__ void release(unsigned empty) {
    // NOTE: each lane fences its own reads: without, nothing keeps the next copy's writes behind them.
    if constexpr (FP8_A8_RELEASE_FENCE != 0) fence_proxy_async_shared();
    // NOTE: the lane that arrives speaks for those it has met here.
    __syncwarp();
    if (threadIdx.x % kLanes == 0) mbarrier_arrive(empty);
}

__device__ __forceinline__ void consume(float (&sum)[kMs][kNs][4], Shared& shared, const Product& product,
                                        int warp_token, int warp_row) {
    const int depth = static_cast<int>(product.depth);
    const unsigned activations = lane_address(shared.stages[0].activations, warp_token);
    const unsigned weights = lane_address(shared.stages[0].weights, warp_row);
    Turn turn;
#pragma unroll 1
    for (int k = 0; k < depth; k += kDepth) {
        const unsigned offset = turn.slot * sizeof(Stage);
        mbarrier_wait_parity(shared_address(&shared.full[turn.slot]), turn.parity);
        multiply_stage(sum, activations + offset, weights + offset);
        release(shared_address(&shared.empty[turn.slot]));
        turn.advance();
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    fp8_a8_gemm_tma(const __grid_constant__ Maps maps, const Product product, const Output::Parameters parameters) {
    extern __shared__ __align__(kAtom) unsigned char memory[];
    if (shared_address(memory) % kAtom != 0) __trap();
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    // NOTE: blocks that run together take the same weight rows, which is most of what they read.
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    const Index first_token = static_cast<Index>(block % gridDim.y) * kTokens, row_tile = block / gridDim.y;

    if (threadIdx.x == 0) {
        for (int slot = 0; slot < kStages; ++slot) {
            mbarrier_init(shared_address(&shared.full[slot]), 1);
            mbarrier_init(shared_address(&shared.empty[slot]), kConsumers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < kLanes) {
        if (threadIdx.x == 0) produce(shared, maps, product, first_token, row_tile);
        return;
    }

    const int consumer = threadIdx.x - kLanes, warp = consumer / kLanes;
    const int warp_token = warp / kWarpsAcross * kWarpTokens, warp_row = warp % kWarpsAcross * kWarpRows;
    float sum[kMs][kNs][4] = {};
    consume(sum, shared, product, warp_token, warp_row);
    // NOTE: the staged tile lies over the ring, which others may still be reading.
    bar_sync(kConsumerBarrier, kConsumerThreads);
    stage_sums<Output>(shared.staged, sum, product, parameters, warp_token, warp_row, first_token, row_tile);
    bar_sync(kConsumerBarrier, kConsumerThreads);
    write_tile<Output, kConsumerThreads>(shared.staged, product, parameters, first_token, row_tile, consumer);
}
