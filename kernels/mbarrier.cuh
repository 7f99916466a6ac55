// PTX `mbarrier`: barriers in shared memory that count arrivals of threads and bytes of asynchronous copies.
//
// A phase ends when `count` threads have arrived and every byte that was announced has landed; then the next begins.
// Phases count from 0, and a wait names the parity of the one that must have ended.
#pragma once

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// NOTE: releases what this thread did before, and nothing of other threads.
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival that announces bytes of copies.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Whether the phase of this parity has ended; waits for a while, and may say no all the same.
__device__ __forceinline__ bool mbarrier_try_wait_parity(unsigned barrier, unsigned parity) {
    unsigned ended;
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
        : "=r"(ended)
        : "r"(barrier), "r"(parity)
        : "memory");
    return ended != 0;
}

// NOTE: the loop is C++, because a label in inline assembly is defined again wherever the function is inlined.
__device__ __forceinline__ void mbarrier_wait_parity(unsigned barrier, unsigned parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}
