// PTX `fence` towards those that are no threads: barriers' units and the async proxy.
#pragma once

// Lets the async proxy and other blocks of the cluster see the barriers that this thread initialised.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders this thread's accesses of its block's shared memory, and those it has learned of, before asynchronous copies.
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
