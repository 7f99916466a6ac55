"""cp.async groups, mbarriers, bulk copies and the async proxy, inside one block."""

import numpy as np
from pair import Pair, Words


def _mirror(words: Words) -> Words:
    return words[:128][::-1].copy()


def _mirror_512(words: Words) -> Words:
    return words[:512][::-1][:128].copy()


_RING = """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full, empty;
    if (t == 0) { init(&full, 1); init(&empty, 128); }
    __syncthreads();
    u32 sum = 0;
    for (u32 i = 0; i < 4; ++i) {
        if (t == 0) {
            if (i) wait(&empty, (i - 1) & 1);
            arrive_expect(&full, 512);
            bulk_load(s, in + 128 * i, 512, &full);
        }
        wait(&full, i & 1);
        sum += load_shared(&s[127 - t]);
        proxy_fence();
        arrive(&empty);
    }
    out[g] = sum;"""


def _ring_sum(words: Words) -> Words:
    sums: Words = words[:512].reshape(4, 128).sum(axis=0, dtype=np.uint32)
    return sums[::-1].copy()


# Every thread copies 16 bytes; others read them.
_COPY = """    __shared__ alignas(16) u32 s[512];
    copy16(&s[4 * t], &in[4 * t]);
    commit();
    wait_group<0>();
    __syncthreads();
    out[g] = load_shared(&s[511 - t]);"""

# Every thread writes, arrives, waits for all and reads what another one wrote.
PHASE = """    __shared__ u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 128);
    __syncthreads();
    store_shared(&s[t], in[t]);
    arrive(&full);
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);"""

# All threads write and fence, one copies it to global memory.
_BULK_STORE = """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[127 - t]);
    proxy_fence();
    __syncthreads();
    if (t == 0) { bulk_store(out, s, 512); bulk_commit(); bulk_wait(); }"""

# The same with the fence of the issuing thread.
_FENCED_BY_ISSUER = """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[127 - t]);
    __syncthreads();
    if (t == 0) { proxy_fence(); bulk_store(out, s, 512); bulk_commit(); bulk_wait(); }"""

PAIRS = (
    Pair(
        "cp.async, no wait",
        "wait_group before the copied bytes are read",
        _COPY,
        ("    wait_group<0>();\n", ""),
        _mirror_512,
    ),
    Pair(
        "cp.async, one group too few",
        "wait_group that covers the group of the bytes",
        """    __shared__ alignas(16) u32 s[1024];
    copy16(&s[4 * t], &in[4 * t]);
    commit();
    copy16(&s[512 + 4 * t], &in[512 + 4 * t]);
    commit();
    wait_group<1>();
    __syncthreads();
    out[g] = load_shared(&s[511 - t]);
    wait_group<0>();""",
        ("    wait_group<1>();\n", "    wait_group<2>();\n"),
        _mirror_512,
    ),
    Pair(
        "cp.async, not committed",
        "a copy belongs to a group only after the commit",
        """    __shared__ alignas(16) u32 s[512];
    copy16(&s[4 * t], &in[4 * t]);
    commit();
    wait_group<0>();
    __syncthreads();
    out[g] = load_shared(&s[511 - t]);
    asm volatile("cp.async.wait_all;" ::: "memory");""",
        ("    commit();\n", ""),
        _mirror_512,
    ),
    Pair(
        "cp.async, no barrier",
        "a barrier after the wait: the wait sees the own thread's copies only",
        _COPY,
        ("    __syncthreads();\n", ""),
        _mirror_512,
    ),
    Pair(
        "cp.async inside a warp",
        "a warp barrier after the wait",
        """    __shared__ alignas(16) u32 s[512];
    copy16(&s[4 * t], &in[4 * t]);
    commit();
    wait_group<0>();
    __syncwarp();
    out[g] = load_shared(&s[4 * (t ^ 1)]);""",
        ("    __syncwarp();\n", ""),
        lambda words: words[4 * (np.arange(128) ^ 1)],
    ),
    Pair(
        "cp.async, slot reused early",
        "a barrier after the reads before the slot is filled again",
        """    __shared__ alignas(16) u32 s[512];
    u32 sum = 0;
    for (u32 i = 0; i < 3; ++i) {
        copy16(&s[4 * t], &in[512 * i + 4 * t]);
        commit();
        wait_group<0>();
        __syncthreads();
        sum += load_shared(&s[511 - t]);
        __syncthreads();  // reused
    }
    out[g] = sum;""",
        ("        __syncthreads();  // reused\n", ""),
        lambda words: words[:1536].reshape(3, 512).sum(axis=0, dtype=np.uint32)[::-1][:128].copy(),
    ),
    Pair(
        "two cp.async to one place",
        "the first copy is complete before the second one is issued",
        """    __shared__ alignas(16) u32 s[512];
    copy16(&s[4 * t], &in[4 * t]);
    commit();
    wait_group<0>();  // first
    copy16(&s[4 * t], &in[512 + 4 * t]);
    commit();
    wait_group<0>();
    __syncthreads();
    out[g] = load_shared(&s[511 - t]);""",
        ("    wait_group<0>();  // first\n", ""),
        lambda words: words[512:1024][::-1][:128].copy(),
    ),
    Pair(
        "cp.async.mbarrier.arrive",
        "an arrival that covers the copies: a plain one does not",
        """    __shared__ alignas(16) u32 s[512];
    __shared__ u64 full;
    if (t == 0) init(&full, 128);
    __syncthreads();
    copy16(&s[4 * t], &in[4 * t]);
    arrive_copies(&full);
    wait(&full, 0);
    out[g] = load_shared(&s[511 - t]);
    asm volatile("cp.async.wait_all;" ::: "memory");""",
        ("arrive_copies(&full)", "arrive(&full)"),
        _mirror_512,
    ),
    Pair(
        "arrive before the write",
        "an mbarrier arrival after the write that it publishes",
        PHASE,
        (
            "    store_shared(&s[t], in[t]);\n    arrive(&full);\n",
            "    arrive(&full);\n    store_shared(&s[t], in[t]);\n",
        ),
        _mirror,
    ),
    Pair(
        "one lane waits",
        "a warp barrier after the wait of one lane",
        """    __shared__ u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 128);
    __syncthreads();
    store_shared(&s[t], in[t]);
    arrive(&full);
    if (t % 32 == 0) wait(&full, 0);
    __syncwarp();
    out[g] = load_shared(&s[127 - t]);""",
        ("    __syncwarp();\n", ""),
        _mirror,
    ),
    Pair(
        "wrong parity",
        "a wait for the phase in progress, not for the one before",
        PHASE,
        ("wait(&full, 0)", "wait(&full, 1)"),
        _mirror,
        kinds=("race", "deadlock"),
        may_hang=True,
    ),
    Pair(
        "count too small",
        "a phase that counts every writer",
        PHASE,
        ("init(&full, 128)", "init(&full, 64)"),
        _mirror,
        kinds=("race", "barrier", "deadlock"),
        may_hang=True,
    ),
    Pair(
        "relaxed arrival",
        "a relaxed arrival publishes what a fence before it released",
        """    __shared__ u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 128);
    __syncthreads();
    store_shared(&s[t], in[t]);
    fence_cta();
    arrive_relaxed(&full);
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ("    fence_cta();\n", ""),
        _mirror,
    ),
    Pair(
        "relaxed wait",
        "a relaxed wait acquires with a fence behind it",
        """    __shared__ u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 128);
    __syncthreads();
    store_shared(&s[t], in[t]);
    arrive(&full);
    wait_relaxed(&full, 0);
    fence_cta();
    out[g] = load_shared(&s[127 - t]);""",
        ("    fence_cta();\n", ""),
        _mirror,
    ),
    Pair(
        "mbarrier.init",
        "a barrier between the initialisation and its use by others",
        """    __shared__ u32 s[128];
    __shared__ u64 full;
    store_shared(&s[t], in[t]);
    if (t == 0) init(&full, 128);
    __syncthreads();
    arrive(&full);
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ("    __syncthreads();\n", "    __syncwarp();\n"),
        _mirror,
        kinds=("race", "barrier"),
    ),
    Pair(
        "bulk copy, no wait",
        "a wait for the barrier that the copy signals",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) {
        init(&full, 1);
        arrive_expect(&full, 512);
        bulk_load(s, in, 512, &full);
    }
    __syncthreads();
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        (
            "    wait(&full, 0);\n    out[g] = load_shared(&s[127 - t]);",
            "    out[g] = load_shared(&s[127 - t]);\n    wait(&full, 0);",
        ),
        _mirror,
        kinds=("race", "uninitialised"),
    ),
    Pair(
        "expected bytes too few",
        "a phase that expects all bytes of its copies",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) {
        init(&full, 1);
        arrive_expect(&full, 512);
        bulk_load(s, in, 256, &full);
        bulk_load(s + 64, in + 64, 256, &full);
    }
    __syncthreads();
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ("arrive_expect(&full, 512)", "arrive_expect(&full, 256)"),
        _mirror,
        kinds=("race", "async", "barrier", "uninitialised"),
        may_hang=True,
    ),
    Pair(
        "bytes before the expectation",
        "bytes may come before they are expected, inside the phase",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) {
        init(&full, 1);
        bulk_load(s, in, 512, &full);
        expect(&full, 512);
        arrive(&full);
    }
    __syncthreads();
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        (
            "        expect(&full, 512);\n        arrive(&full);\n",
            "        arrive(&full);\n        expect(&full, 512);\n",
        ),
        _mirror,
        kinds=("race", "async", "barrier", "uninitialised", "deadlock"),
    ),
    Pair(
        "slot released before it is read",
        "the reads come before the arrival that gives the slot back",
        _RING,
        (
            "        sum += load_shared(&s[127 - t]);\n        proxy_fence();\n        arrive(&empty);\n",
            "        proxy_fence();\n        arrive(&empty);\n        sum += load_shared(&s[127 - t]);\n",
        ),
        _ring_sum,
    ),
    Pair(
        "slot released without a proxy fence",
        "reads are fenced towards the async proxy before a copy fills the slot again",
        _RING,
        ("        proxy_fence();\n", ""),
        _ring_sum,
    ),
    Pair(
        "slot not awaited",
        "the producer waits until the slot is given back",
        _RING,
        ("            if (i) wait(&empty, (i - 1) & 1);\n", ""),
        _ring_sum,
    ),
    Pair(
        "producer one phase ahead",
        "the producer waits for the phase of this round",
        _RING,
        ("wait(&empty, (i - 1) & 1)", "wait(&empty, i & 1)"),
        _ring_sum,
        kinds=("race", "deadlock"),
        may_hang=True,
    ),
    Pair(
        "proxy fence before a bulk store",
        "writes are fenced towards the async proxy before a copy reads them",
        _BULK_STORE,
        ("    proxy_fence();\n", ""),
        _mirror,
    ),
    Pair(
        "proxy fence before the write",
        "the fence comes after the write",
        _BULK_STORE,
        (
            "    store_shared(&s[t], in[127 - t]);\n    proxy_fence();\n",
            "    proxy_fence();\n    store_shared(&s[t], in[127 - t]);\n",
        ),
        _mirror,
    ),
    Pair(
        "proxy fence of the other space",
        "a fence for the space that the copy reads",
        _BULK_STORE,
        ("    proxy_fence();\n", "    proxy_fence_global();\n"),
        _mirror,
    ),
    Pair(
        "proxy fence by the issuer",
        "a fence by the thread that issues, after the barrier, is as good",
        _FENCED_BY_ISSUER,
        ("{ proxy_fence(); bulk_store", "{ bulk_store"),
        _mirror,
    ),
    Pair(
        "proxy fence by a stranger",
        "a fence on the path from the write to the copy",
        _FENCED_BY_ISSUER,
        ("if (t == 0) { proxy_fence(); bulk_store", "if (t == 96) proxy_fence();\n    if (t == 0) { bulk_store"),
        _mirror,
    ),
    Pair(
        "cp.async and the async proxy",
        "copies of cp.async are of the generic proxy: they need the fence too",
        """    __shared__ alignas(128) u32 s[512];
    copy16(&s[4 * t], &in[4 * t]);
    commit();
    wait_group<0>();
    proxy_fence();
    __syncthreads();
    if (t == 0) { bulk_store(out, s, 512); bulk_commit(); bulk_wait(); }""",
        ("    proxy_fence();\n", ""),
        lambda words: words[:128].copy(),
    ),
    Pair(
        "source of a bulk store reused",
        "wait_group.read before the source is written again",
        """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[t]);
    proxy_fence();
    __syncthreads();
    if (t == 0) { bulk_store(out, s, 512); bulk_commit(); bulk_wait_read(); }
    __syncthreads();
    store_shared(&s[t], 0);
    if (t == 0) bulk_wait();""",
        (" bulk_wait_read(); }", " }"),
        lambda words: words[:128].copy(),
    ),
    Pair(
        "destination of a bulk store",
        "the full wait before the bytes in global memory are read",
        """    __shared__ alignas(128) u32 s[128];
    store_shared(&s[t], in[t]);
    proxy_fence();
    __syncthreads();
    if (t == 0) { bulk_store(work, s, 512); bulk_commit(); bulk_wait(); }
    __syncthreads();
    out[g] = load_weak(&work[127 - t]);""",
        (" bulk_wait(); }", " bulk_wait_read(); }"),
        _mirror,
    ),
    Pair(
        "global write and a bulk load",
        "a write to global memory is fenced before a copy reads it",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) init(&full, 1);
    store_weak(&work[t], in[t]);
    asm volatile("fence.proxy.async.global;" ::: "memory");
    __syncthreads();
    if (t == 0) { arrive_expect(&full, 512); bulk_load(s, work, 512, &full); }
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);""",
        ('    asm volatile("fence.proxy.async.global;" ::: "memory");\n', ""),
        _mirror,
    ),
)
