// PTX `wgmma`: products of a warpgroup on operands in shared memory, which run behind the back of its threads (sm_90a).
//
// Operands are tiles of 128 bytes of k a row with the 128-byte swizzle, as tensor copies write them: eight rows are 1,024
// bytes, at a multiple of which a tile begins.
#pragma once

#include "shared_address.cuh"

// NOTE: before the first product, and wherever other instructions have touched the sums since the last one.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most the kPending latest groups are running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Where a tile begins, or 32, 64, 96 bytes into its rows (PTX ISA 9.0, "Matrix Descriptor Format": fields in units of 16
// bytes; the stride from eight rows to the next; 1 is the 128-byte swizzle).
__device__ __forceinline__ unsigned long long wgmma_descriptor_128(const void* tile) {
    const unsigned long long address = shared_address(tile);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// d += A * B, or d = A * B unless `adds`, with A 64 x 32 and B 128 x 32 signed bytes, to int32 sums that wrap. Lane l of warp w of the warpgroup holds
//     d[j][i]  row 16 * w + l / 4 + 8 * (i / 2),  column 8 * j + 2 * (l % 4) + i % 2
__device__ __forceinline__ void wgmma_m64n128k32_s32_s8(int (&d)[16][4], unsigned long long a, unsigned long long b,
                                                        bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds; }"
        : "+r"(d[0][0]), "+r"(d[0][1]), "+r"(d[0][2]), "+r"(d[0][3]),
          "+r"(d[1][0]), "+r"(d[1][1]), "+r"(d[1][2]), "+r"(d[1][3]),
          "+r"(d[2][0]), "+r"(d[2][1]), "+r"(d[2][2]), "+r"(d[2][3]),
          "+r"(d[3][0]), "+r"(d[3][1]), "+r"(d[3][2]), "+r"(d[3][3]),
          "+r"(d[4][0]), "+r"(d[4][1]), "+r"(d[4][2]), "+r"(d[4][3]),
          "+r"(d[5][0]), "+r"(d[5][1]), "+r"(d[5][2]), "+r"(d[5][3]),
          "+r"(d[6][0]), "+r"(d[6][1]), "+r"(d[6][2]), "+r"(d[6][3]),
          "+r"(d[7][0]), "+r"(d[7][1]), "+r"(d[7][2]), "+r"(d[7][3]),
          "+r"(d[8][0]), "+r"(d[8][1]), "+r"(d[8][2]), "+r"(d[8][3]),
          "+r"(d[9][0]), "+r"(d[9][1]), "+r"(d[9][2]), "+r"(d[9][3]),
          "+r"(d[10][0]), "+r"(d[10][1]), "+r"(d[10][2]), "+r"(d[10][3]),
          "+r"(d[11][0]), "+r"(d[11][1]), "+r"(d[11][2]), "+r"(d[11][3]),
          "+r"(d[12][0]), "+r"(d[12][1]), "+r"(d[12][2]), "+r"(d[12][3]),
          "+r"(d[13][0]), "+r"(d[13][1]), "+r"(d[13][2]), "+r"(d[13][3]),
          "+r"(d[14][0]), "+r"(d[14][1]), "+r"(d[14][2]), "+r"(d[14][3]),
          "+r"(d[15][0]), "+r"(d[15][1]), "+r"(d[15][2]), "+r"(d[15][3])
        : "l"(a), "l"(b), "r"(static_cast<int>(adds))
        : "memory");
}
