// int8_gemm_tile: the product of int8_problem.cuh for many rows, a tile of the output a block, all of K in it.
//
// N and K are multiples of the tile's; rows past M are zeros on the way in and are not written. x, the weight and out
// begin at multiples of 16. Macros name the variant: INT8_TILE (a Tile), INT8_SLOTS (1, 2), INT8_LAYOUT.

#include "int8_epilogue.cuh"

using BlockTile = INT8_TILE;
using Layout = INT8_LAYOUT;

extern "C" __global__ void __launch_bounds__(BlockTile::kThreads) int8_gemm_tile(const Problem problem) {
    __shared__ Slot<BlockTile> slots[INT8_SLOTS];
    const Origin origin = {static_cast<int>(blockIdx.y) * BlockTile::kRows,
                           static_cast<int>(blockIdx.x) * BlockTile::kColumns};
    const Stages all = {0, problem.depth / BlockTile::kDepth};
    const Sums<BlockTile> sums = accumulate<BlockTile, Layout>(problem, slots, origin, all, threadIdx.x,
                                                               [] { __syncthreads(); });
    write_outputs(problem, sums, origin, WarpPlace<BlockTile>(threadIdx.x));
}
