// PTX `bar`: hardware barriers of a block, for some of its threads.
#pragma once

// NOTE: barrier 0 is that of __syncthreads. `threads` is a multiple of a warp's; whole warps come.
__device__ __forceinline__ void bar_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
