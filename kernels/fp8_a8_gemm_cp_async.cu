// fp8_a8_gemm_cp_async: the product of fp8_a8_product.cuh through two stages of shared memory that cp.async fills.
//
// A block of eight warps makes 64 tokens x 128 weight rows, a warp 32 x 32 of them. K goes by in stages of 128 codes: while
// one is multiplied the next is on its way. A row of a stage is 128 bytes in segments of 16; segment s of row r lies in
// place s ^ (r % 8), so that the eight rows of a matrix that ldmatrix loads lie in different banks.
//
// N is a multiple of 128 and K of 128; operands and outputs are aligned to 16 bytes, rows too. FP8_A8_OUTPUT names the
// output policy.

#include "cp_async.cuh"
#include "fp8_a8_epilogue.cuh"
#include "fp8_a8_output.cuh"
#include "fp8_a8_product.cuh"
#include "ldmatrix.cuh"
#include "mma.cuh"
#include "shared_address.cuh"

using Output = FP8_A8_OUTPUT;

constexpr int kTokens = 64;
constexpr int kDepth = 128;
constexpr int kStages = 2;
constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 2;

constexpr int kWarpTokens = 32, kWarpRows = 32;
constexpr int kWarpsAcross = kTileRows / kWarpRows;
constexpr int kMs = kWarpTokens / 16, kNs = kWarpRows / 8;  // fragments of a warp
static_assert(kTokens / kWarpTokens * kWarpsAcross * kLanes == kThreads, "every warp has a tile");

constexpr int kSegment = 16;
constexpr int kSegments = kDepth / kSegment;

template <int kRows>
struct Operand {
    unsigned char bytes[kRows][kDepth];
};

struct Stage {
    Operand<kTokens> activations;
    Operand<kTileRows> weights;
};

union Shared {
    Stage stages[kStages];
    StagedTile<kTokens> staged;
};

__device__ __forceinline__ int place_of(int row, int segment) { return (segment ^ row % kSegments) * kSegment; }

// This thread's share of a stage: one segment of every 32nd row, from code k on.
__device__ __forceinline__ void copy_stage(Stage& stage, const Product& product, Index first_token, Index row_tile,
                                           Index k) {
    constexpr int kRowsAtOnce = kThreads / kSegments;
    const int thread_row = threadIdx.x / kSegments, segment = threadIdx.x % kSegments;
    k += segment * kSegment;
#pragma unroll
    for (int row = thread_row; row < kTokens; row += kRowsAtOnce) {
        const bool inside = first_token + row < product.tokens;
        // NOTE: a row past the end is filled with zeros; its address is clamped to one that exists.
        const Index token = inside ? first_token + row : 0;
        cp_async_cg_16_zfill(shared_address(&stage.activations.bytes[row][place_of(row, segment)]),
                             product.activations + token * product.activation_stride + k, inside ? kSegment : 0);
    }
#pragma unroll
    for (int row = thread_row; row < kTileRows; row += kRowsAtOnce) {
        cp_async_cg_16(shared_address(&stage.weights.bytes[row][place_of(row, segment)]),
                       product.weights + weight_row<Output>(product, row_tile, row) * product.weight_stride + k);
    }
}

// Rows `row` .. `row` + 15 of an operand, codes `k` .. `k` + 31: rows 0-7 and 8-15 of the first 16 codes, then of the others.
template <int kRows>
__device__ __forceinline__ void load_fragments(unsigned (&fragments)[4], const Operand<kRows>& operand, int row, int k) {
    const int lane = threadIdx.x % kLanes;
    row += lane % 16;
    ldmatrix_x4(fragments, shared_address(&operand.bytes[row][place_of(row, k / kSegment + lane / 16)]));
}

__device__ __forceinline__ void multiply_stage(float (&sum)[kMs][kNs][4], const Stage& stage, int warp_token,
                                               int warp_row) {
// NOTE: not unrolled, because what ptxas makes of four of these steps on sm_90 does not fit 128 registers a thread.
#pragma unroll 1
    for (int k = 0; k < kDepth; k += kStep) {
        unsigned a[kMs][4], b[kNs / 2][4];
#pragma unroll
        for (int m = 0; m < kMs; ++m) load_fragments(a[m], stage.activations, warp_token + 16 * m, k);
#pragma unroll
        for (int n = 0; n < kNs / 2; ++n) load_fragments(b[n], stage.weights, warp_row + 16 * n, k);
#pragma unroll
        for (int m = 0; m < kMs; ++m) {
#pragma unroll
            for (int n = 0; n < kNs; ++n) mma_m16n8k32_f32_e4m3(sum[m][n], a[m], b[n / 2][n % 2], b[n / 2][n % 2 + 2]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    fp8_a8_gemm_cp_async(const Product product, const Output::Parameters parameters) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    // NOTE: blocks that run together take the same weight rows, which is most of what they read.
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    const Index first_token = static_cast<Index>(block % gridDim.y) * kTokens, row_tile = block / gridDim.y;
    const int warp = threadIdx.x / kLanes;
    const int warp_token = warp / kWarpsAcross * kWarpTokens, warp_row = warp % kWarpsAcross * kWarpRows;

    float sum[kMs][kNs][4] = {};
    copy_stage(shared.stages[0], product, first_token, row_tile, 0);
    cp_async_commit_group();
    int slot = 0;
#pragma unroll 1
    for (Index k = 0; k < product.depth; k += kDepth) {
        if (k + kDepth < product.depth) copy_stage(shared.stages[slot ^ 1], product, first_token, row_tile, k + kDepth);
        // NOTE: a group is committed even if it is empty, so that "all but the latest" is right in the last round, too.
        cp_async_commit_group();
        cp_async_wait_group<kStages - 1>();
        __syncthreads();
        multiply_stage(sum, shared.stages[slot], warp_token, warp_row);
        __syncthreads();
        slot ^= 1;
    }

    stage_sums<Output>(shared.staged, sum, product, parameters, warp_token, warp_row, first_token, row_tile);
    __syncthreads();
    write_tile<Output, kThreads>(shared.staged, product, parameters, first_token, row_tile, threadIdx.x);
}
