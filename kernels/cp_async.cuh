// PTX `cp.async`: copies of 16 bytes from global to shared memory behind the thread's back, in groups.
#pragma once

// NOTE: .cg keeps the copy out of the L1 cache: an operand tile is read from shared memory, never again from there.
__device__ __forceinline__ void cp_async_cg_16(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// The first `source_bytes` of 16 are copied and the rest are zeros; with 0 nothing is read.
__device__ __forceinline__ void cp_async_cg_16_zfill(unsigned shared, const void* global, unsigned source_bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the kPending latest of this thread's groups are on their way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
