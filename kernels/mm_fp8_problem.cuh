// mm_fp8: C[z] = A[z] * B[z] for each matrix z of a batch, A [M, K] and B [K, N] codes of one FP8 format.
//
//     sum[m, n]  = the mma m16n8k32 chain over k, ascending, from 0; K is filled with zero codes to whole stages
//     value      = fma(sum, scale, bias[n]), or sum * scale without a bias
//     bias[n]    = a bf16 value, or the value of a code of the operands' format, times bias_scale
//     output     = bf16 of value, or e4m3 of value * out_scale, saturating; to nearest even
//
// Each operation is one float32 operation. Layouts have two letters, the first A's and the second B's, T for a matrix
// stored the other way round than BLAS's row-major N: A is N [M][K] or T [K][M], B is N [K][N] or T [N][K].
#pragma once

using Index = long long;

constexpr int kStageK = 64;  // codes of K in a stage of a ring
constexpr int kStepK = 32;   // of one mma
constexpr int kLanes = 32;

// One operand in memory: lines of contiguous codes, `line_stride` apart.
struct Source {
    const unsigned char* codes;
    Index line_stride;
    Index matrix_stride;  // 0: one matrix for the whole batch
};

// What the kernel is given by value; strides count elements.
struct Problem {
    Source a, b;
    Index rows, columns, depth;  // M, N, K
    const float* scale;
    const void* bias;  // [N], or none
    const float* bias_scale;  // none: the bias is bf16
    const float* out_scale;  // of e4m3 outputs
    void* out;
    Index out_stride;
    Index out_matrix_stride;
    Index raster_group;  // rows of tiles that are walked through together, column by column
};

// An operand is congruous if K is contiguous in memory, as it is in shared memory, and crosswise if not.
template <bool kA, bool kB>
struct Layout {
    static constexpr bool kACrosswise = kA, kBCrosswise = kB;
};
using NT = Layout<false, false>;
using NN = Layout<false, true>;
using TN = Layout<true, true>;
using TT = Layout<true, false>;

// The output tile of a block, and the part of it that a warp makes.
template <int kTileRows, int kTileColumns, int kWarpTileRows, int kWarpTileColumns>
struct Tile {
    static constexpr int kRows = kTileRows, kColumns = kTileColumns;
    static constexpr int kWarpRows = kWarpTileRows, kWarpColumns = kWarpTileColumns;
    static constexpr int kWarpsAcross = kColumns / kWarpColumns;
    static constexpr int kThreads = kRows / kWarpRows * kWarpsAcross * kLanes;
    static constexpr int kMs = kWarpRows / 16, kNs = kWarpColumns / 8;  // fragments of a warp
};
using Tile128 = Tile<128, 128, 64, 32>;
using Tile64 = Tile<64, 64, 32, 32>;
