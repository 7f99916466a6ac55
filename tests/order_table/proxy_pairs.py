"""The proxy fence in each direction and each space, bulk reductions, elected threads, what else an mbarrier orders."""

import numpy as np
from async_pairs import PHASE
from pair import Pair, Words


def _mirror(words: Words) -> Words:
    return words[:128][::-1].copy()


PAIRS = (
    Pair(
        "global write, fence of the other space",
        "a fence for global memory before a copy reads it",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 1);
    store_weak(&work[t], in[t]);
    proxy_fence_global();
    __syncthreads();
    if (t == 0) { arrive_expect(&full, 512); bulk_load(s, work, 512, &full); }
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ("proxy_fence_global()", "proxy_fence()"),
        _mirror,
    ),
    Pair(
        "global read and a bulk store",
        "reads of global memory are fenced before a copy writes there",
        """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[t]);
    proxy_fence();
    const u32 before = load_weak(&work[127 - t]);
    proxy_fence_global();
    __syncthreads();
    if (t == 0) { bulk_store(work, s, 512); bulk_commit(); bulk_wait(); }
    __syncthreads();
    out[g] = before + load_weak(&work[127 - t]);""",
        ("    proxy_fence_global();\n", ""),
        _mirror,
    ),
    Pair(
        "write, then a copy over it",
        "writes are fenced before a copy overwrites them",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 1);
    store_shared(&s[t], 0);
    proxy_fence();
    __syncthreads();
    if (t == 0) { arrive_expect(&full, 512); bulk_load(s, in, 512, &full); }
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ("    proxy_fence();\n", ""),
        _mirror,
    ),
    Pair(
        "proxy fence in the block that copies",
        "a proxy fence does not reach beyond its block: the one that copies has its own",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    u32* flag = work + 2048;
    if (b == 0) {
        store_weak(&work[t], in[t]);
        proxy_fence_global();
        __syncthreads();
        if (t == 0) store_release(flag, 1);
        out[g] = 0;
    } else {
        if (t == 0) {
            init(&full, 1);
            while (load_acquire(flag) == 0) {}
            proxy_fence_global();  // here
            arrive_expect(&full, 512);
            bulk_load(s, work, 512, &full);
        }
        __syncthreads();
        wait(&full, 0);
        out[g] = load_shared(&s[127 - t]);
    }""",
        ("            proxy_fence_global();  // here\n", ""),
        lambda words: np.concatenate((np.zeros(128, np.uint32), words[:128][::-1])),
        blocks=2,
    ),
    Pair(
        "bulk reduction and atomics",
        "a reduction of the async proxy is complete before atomics of the generic one",
        """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[t]);
    proxy_fence();
    __syncthreads();
    if (t == 0) { bulk_add(work, s, 512); bulk_commit(); bulk_wait(); }
    __syncthreads();  // added
    atomicAdd(&work[t], 1);
    __syncthreads();
    out[g] = load_weak(&work[127 - t]);""",
        ("    __syncthreads();  // added\n", ""),
        lambda words: words[:128][::-1] + np.uint32(1),
        visible=False,
    ),
    Pair(
        "elected twice",
        "the thread that issued a copy waits for it: of one warp the same one is elected again",
        """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[t]);
    proxy_fence();
    __syncthreads();
    if (t < 32 && elect()) { bulk_store(out, s, 512); bulk_commit(); }
    if (t < 32 && elect()) bulk_wait_read();  // again
    __syncthreads();
    store_shared(&s[t], 0);
    if (t < 32 && elect()) bulk_wait();""",
        ("if (t < 32 && elect()) bulk_wait_read();  // again", "if (t == 64) bulk_wait_read();"),
        lambda words: words[:128].copy(),
    ),
    Pair(
        "copy of the next phase",
        "a copy is issued in the phase that expects its bytes",
        """    __shared__ alignas(128) u32 s[256];
    __shared__ u64 full;
    if (t == 0) {
        init(&full, 1);
        bulk_load(s, in, 512, &full);
        arrive_expect(&full, 512);
        wait(&full, 0);
        bulk_load(s + 128, in + 128, 512, &full);  // next
        arrive_expect(&full, 512);
        wait(&full, 1);
    }
    __syncthreads();
    out[g] = load_shared(&s[127 - t]) + load_shared(&s[255 - t]);""",
        (
            "        arrive_expect(&full, 512);\n        wait(&full, 0);\n"
            "        bulk_load(s + 128, in + 128, 512, &full);  // next\n",
            "        bulk_load(s + 128, in + 128, 512, &full);\n"
            "        arrive_expect(&full, 512);\n        wait(&full, 0);\n",
        ),
        lambda words: (words[:128] + words[128:256])[::-1].copy(),
        kinds=("async", "barrier", "deadlock"),
        may_hang=True,
    ),
    Pair(
        "arrive_drop",
        "an arrival that leaves the barrier publishes like any other",
        PHASE.replace("    arrive(&full);\n", "    if (t < 64) arrive_drop(&full); else arrive(&full);\n"),
        (
            "    store_shared(&s[t], in[t]);\n    if (t < 64) arrive_drop(&full); else arrive(&full);\n",
            "    if (t < 64) arrive_drop(&full); else arrive(&full);\n    store_shared(&s[t], in[t]);\n",
        ),
        _mirror,
    ),
    Pair(
        "arrival of copies alone",
        "an arrival for copies publishes these, not the thread's other writes",
        """    __shared__ alignas(16) u32 s[512];
    __shared__ u32 plain[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 256);
    __syncthreads();
    store_shared(&plain[t], in[512 + t]);
    copy16(&s[4 * t], &in[4 * t]);
    arrive_copies(&full);
    arrive(&full);
    wait(&full, 0);
    out[g] = load_shared(&s[511 - t]) + load_shared(&plain[127 - t]);
    asm volatile("cp.async.wait_all;" ::: "memory");""",
        ("    arrive(&full);\n", "    arrive_copies(&full);\n"),
        lambda words: (words[384:512] + words[512:640])[::-1].copy(),
    ),
    Pair(
        "mbarrier.inval",
        "a barrier is given up before its bytes serve another purpose",
        PHASE
        + """
    __syncthreads();
    if (t == 0) { inval(&full); store_shared(reinterpret_cast<u32*>(&full), 7); }""",
        ("inval(&full); ", ""),
        _mirror,
        kinds=("barrier", "race"),
        visible=False,
    ),
    Pair(
        "tensor map in global memory",
        "a fence of the tensor map's proxy before a copy reads a map that the kernel wrote",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    u64* copy = reinterpret_cast<u64*>(work + 1024);
    if (t < 16) copy[t] = reinterpret_cast<const u64*>(&map)[t];
    if (t == 0) init(&full, 1);
    __syncthreads();
    if (t == 0) {
        map_release();
        map_acquire(copy);
        arrive_expect(&full, 512);
        tensor_load(s, copy, 0, 3, &full);
    }
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ("        map_acquire(copy);\n", ""),
        lambda words: words[384:512][::-1].copy(),
        tensor=True,
    ),
)
