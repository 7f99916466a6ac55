"""Order inside one block by barriers: block, named, warp, reducing; and what looks like order and is none."""

import numpy as np
from pair import Pair, Words


def _mirror(words: Words) -> Words:
    return words[:128][::-1].copy()


def _neighbour(words: Words) -> Words:
    swapped: Words = words[np.arange(128) ^ 1]
    return swapped


PAIRS = (
    Pair(
        "bar.sync",
        "a block barrier between the write and the read of others",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    __syncthreads();
    out[g] = load_shared(&s[127 - t]);""",
        ("    __syncthreads();\n", ""),
        _mirror,
    ),
    Pair(
        "bar.sync, write after read",
        "a block barrier before the slot is written again",
        """    __shared__ u32 s[128];
    u32 sum = 0;
    for (u32 i = 0; i < 3; ++i) {
        store_shared(&s[t], in[128 * i + t]);
        __syncthreads();
        sum += load_shared(&s[127 - t]);
        __syncthreads();  // again
    }
    out[g] = sum;""",
        ("        __syncthreads();  // again\n", ""),
        lambda words: words[:384].reshape(3, 128).sum(axis=0, dtype=np.uint32)[::-1].copy(),
    ),
    Pair(
        "bar.sync with a count",
        "a named barrier that counts all of the threads that exchange",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    asm volatile("bar.sync %0, 128;" :: "r"(1) : "memory");
    out[g] = load_shared(&s[127 - t]);""",
        ('"bar.sync %0, 128;" :: "r"(1)', '"bar.sync %0, 64;" :: "r"(1 + t / 64)'),
        _mirror,
    ),
    Pair(
        "bar.arrive",
        "a producer that arrives after its write",
        """    __shared__ u32 s[64];
    if (t < 64) {
        store_shared(&s[t], in[t]);
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[t - 64] = load_shared(&s[127 - t]);
    }""",
        (
            """        store_shared(&s[t], in[t]);
        asm volatile("bar.arrive 1, 128;" ::: "memory");
""",
            """        asm volatile("bar.arrive 1, 128;" ::: "memory");
        store_shared(&s[t], in[t]);
""",
        ),
        lambda words: words[:64][::-1].copy(),
    ),
    Pair(
        "bar.arrive learns nothing",
        "a thread that only arrives may not read what others wrote before the barrier",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    if (t < 64) {
        asm volatile("bar.sync 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");  // these
    }
    out[g] = load_shared(&s[127 - t]);""",
        ('"bar.sync 1, 128;" ::: "memory");  // these', '"bar.arrive 1, 128;" ::: "memory");'),
        _mirror,
    ),
    Pair(
        "bar.red",
        "a reducing barrier orders memory as well",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    const int some = __syncthreads_or(t == 5);
    out[g] = some ? load_shared(&s[127 - t]) : 0;""",
        ("__syncthreads_or(t == 5)", "(__any_sync(~0u, t % 32 == 5))"),
        _mirror,
    ),
    Pair(
        "bar.warp.sync",
        "a warp barrier between lanes",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    __syncwarp();
    out[g] = load_shared(&s[t ^ 1]);""",
        ("    __syncwarp();\n", ""),
        _neighbour,
    ),
    Pair(
        "bar.warp.sync of a mask",
        "a warp barrier whose mask has both lanes",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    __syncwarp(0xFFFFFFFFu);
    out[g] = load_shared(&s[t ^ 1]);""",
        ("__syncwarp(0xFFFFFFFFu)", "__syncwarp(t & 1 ? 0xAAAAAAAAu : 0x55555555u)"),
        _neighbour,
    ),
    Pair(
        "shuffle",
        "a shuffle orders nothing: a warp barrier does",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    const u32 zero = __shfl_xor_sync(~0u, 0, 1);
    __syncwarp();
    out[g] = load_shared(&s[t ^ 1]) + zero;""",
        ("    __syncwarp();\n", ""),
        _neighbour,
    ),
    Pair(
        "threads that have exited",
        "a barrier waits for the others only, and orders them",
        """    __shared__ u32 s[128];
    if (t >= 96) { out[g] = 0; return; }
    store_shared(&s[t], in[t]);
    __syncthreads();
    out[g] = load_shared(&s[95 - t]);""",
        ("    __syncthreads();\n", ""),
        lambda words: np.concatenate((words[:96][::-1], np.zeros(32, np.uint32))),
    ),
    Pair(
        "one place, one instruction",
        "lanes of one store write places of their own",
        """    __shared__ u32 s[128];
    store_shared(&s[t], in[t]);
    __syncthreads();
    out[g] = load_shared(&s[t]);""",
        ("store_shared(&s[t], in[t])", "store_shared(&s[t & ~1u], in[t])"),
        lambda words: words[:128],
        kinds=("race", "uninitialised"),
    ),
    Pair(
        "shared atomics",
        "a plain initialisation is ordered before the atomics of others",
        """    __shared__ u32 s[1];
    if (t == 0) store_shared(&s[0], 5);
    __syncthreads();  // before
    atomicAdd(&s[0], 1);
    __syncthreads();
    out[g] = load_shared(&s[0]);""",
        ("    __syncthreads();  // before\n", ""),
        lambda words: np.full(128, 133, np.uint32),
        kinds=("race", "uninitialised"),
    ),
    Pair(
        "atomic and plain read",
        "a barrier between the atomics and a plain read of the sum",
        """    __shared__ u32 s[1];
    if (t == 0) store_shared(&s[0], 5);
    __syncthreads();
    atomicAdd(&s[0], 1);
    __syncthreads();  // after
    out[g] = load_shared(&s[0]);""",
        ("    __syncthreads();  // after\n", ""),
        lambda words: np.full(128, 133, np.uint32),
    ),
    Pair(
        "global memory in a block",
        "a block barrier orders global memory too",
        """    store_weak(&work[t], in[t]);
    __syncthreads();
    out[g] = load_weak(&work[127 - t]);""",
        ("    __syncthreads();\n", ""),
        _mirror,
    ),
    Pair(
        "ld.global.nc",
        "the read-only path is for bytes that nothing writes during the kernel",
        """    store_weak(&work[t], in[t]);
    __syncthreads();
    out[g] = load_weak(&work[127 - t]);""",
        ("load_weak(&work[127 - t])", "load_nc(&work[127 - t])"),
        _mirror,
    ),
)
