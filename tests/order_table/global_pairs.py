"""Order between blocks: fences, scopes, flags, atomics, elections, semaphores."""

import numpy as np
from pair import Pair, Words

# Block 0 writes, block 1 reads; {release}, {signal}, {poll}, {acquire} are what orders.
_MESSAGE = """    u32* flag = work + 2048;
    if (b == 0) {{
        store_weak(&work[t], in[t]);
        __syncthreads();
        if (t == 0) {{
            {release}
            {signal}
        }}
        out[g] = 0;
    }} else {{
        if (t == 0) {{
            while ({poll} == 0) {{}}
            {acquire}
        }}
        __syncthreads();
        out[g] = load_weak(&work[127 - t]);
    }}"""


def _message(release: str, signal: str, poll: str, acquire: str) -> str:
    return _MESSAGE.format(release=release, signal=signal, poll=poll, acquire=acquire)


_FENCED = _message(
    "fence_gpu();  // release", "store_relaxed(flag, 1);", "load_relaxed(flag)", "fence_gpu();  // acquire"
)
_SEMANTIC = _message("", "store_release(flag, 1);", "load_acquire(flag)", "")

_ONE_SIDED = _message("fence_release();", "store_relaxed(flag, 1);", "load_relaxed(flag)", "fence_acquire();")


def _second(words: Words) -> Words:
    return np.concatenate((np.zeros(128, np.uint32), words[:128][::-1]))


# Every block leaves a partial sum; the last one to come adds them up.
_LAST_BLOCK = """    __shared__ u32 last;
    store_weak(&work[g], in[g]);
    __threadfence();  // before
    __syncthreads();
    if (t == 0) {
        last = add_relaxed(work + 2048, 1) == 3;
        if (last) __threadfence();  // after
    }
    __syncthreads();
    u32 sum = 0;
    if (last) for (u32 i = 0; i < 4; ++i) sum += load_weak(&work[128 * i + t]);
    if (last) store_weak(&out[t], sum);"""


def _sum_of_four(words: Words) -> Words:
    sums: Words = words[:512].reshape(4, 128).sum(axis=0, dtype=np.uint32)
    return sums


# The same by one atomic that releases and acquires.
_ACQ_REL_COUNT = """    __shared__ u32 last;
    store_weak(&work[g], in[g]);
    __syncthreads();
    if (t == 0) last = add_acq_rel(work + 2048, 1) == 3;
    __syncthreads();
    u32 sum = 0;
    if (last) for (u32 i = 0; i < 4; ++i) sum += load_weak(&work[128 * i + t]);
    if (last) store_weak(&out[t], sum);"""

# Block 1 hands on to block 2 what block 0 released to it.
_HANDED_ON = """    u32* flag = work + 2048;
    if (b == 0) {
        store_weak(&work[t], in[t]);
        __syncthreads();
        if (t == 0) store_release(flag, 1);
        out[g] = 0;
    } else if (b == 1) {
        if (t == 0) { while (load_relaxed(flag) == 0) {} add_relaxed(flag, 1); store_relaxed(flag + 1, 1); }
        out[g] = 0;
    } else {
        if (t == 0) { while (load_relaxed(flag + 1) == 0) {} load_acquire(flag); }
        __syncthreads();
        out[g] = load_weak(&work[127 - t]);
    }"""

# Blocks take turns in their order, as a serial split-K does.
_SEMAPHORE = """    u32* turn = work + 2048;
    if (t == 0) while (load_acquire(turn) != b) {}
    __syncthreads();
    store_weak(&work[t], load_weak(&work[t]) + in[g]);
    __syncthreads();
    if (t == 0) store_release(turn, b + 1);
    if (b == 3) store_weak(&out[t], load_weak(&work[t]));"""

_CHAIN = """    u32* flag = work + 2048;
    if (b == 0) {
        store_weak(&work[t], in[t]);
        __syncthreads();
        if (t == 0) { fence_gpu(); store_relaxed(flag, 1); }
        out[g] = 0;
    } else if (b == 1) {
        if (t == 0) { while (load_relaxed(flag) == 0) {} fence_gpu();  // middle
            store_relaxed(flag + 1, 1); }
        out[g] = 0;
    } else {
        if (t == 0) { while (load_relaxed(flag + 1) == 0) {} fence_gpu(); }
        __syncthreads();
        out[g] = load_weak(&work[127 - t]);
    }"""


def _third(words: Words) -> Words:
    return np.concatenate((np.zeros(256, np.uint32), words[:128][::-1]))


PAIRS = (
    Pair(
        "fence before the flag",
        "a fence releases what comes before a relaxed flag",
        _FENCED,
        ("fence_gpu();  // release", ""),
        _second,
        blocks=2,
    ),
    Pair(
        "fence after the flag",
        "a fence acquires what a relaxed read of the flag saw",
        _FENCED,
        ("fence_gpu();  // acquire", ""),
        _second,
        blocks=2,
    ),
    Pair(
        "fence of the block's scope",
        "a fence whose scope reaches the other block",
        _FENCED,
        ("fence_gpu();  // release", "fence_cta();"),
        _second,
        blocks=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "fence of the block's scope, acquiring",
        "an acquiring fence whose scope reaches the other block",
        _FENCED,
        ("fence_gpu();  // acquire", "fence_cta();"),
        _second,
        blocks=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "flag of the block's scope",
        "a flag whose scope includes the reader",
        _FENCED,
        ("store_relaxed(flag, 1)", "store_relaxed_cta(flag, 1)"),
        _second,
        blocks=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "plain flag",
        "a flag that is written by a strong store",
        _FENCED,
        ("store_relaxed(flag, 1)", "store_weak(flag, 1)"),
        _second,
        blocks=2,
    ),
    Pair(
        "flag before the data",
        "the flag comes after the data",
        _FENCED,
        (
            "        store_weak(&work[t], in[t]);\n        __syncthreads();\n        if (t == 0) {\n"
            "            fence_gpu();  // release\n            store_relaxed(flag, 1);\n        }\n",
            "        if (t == 0) {\n            fence_gpu();\n            store_relaxed(flag, 1);\n        }\n"
            "        store_weak(&work[t], in[t]);\n        __syncthreads();\n",
        ),
        _second,
        blocks=2,
    ),
    Pair(
        "barrier before the fence",
        "the block's writes are gathered by a barrier before one thread releases them",
        _FENCED,
        ("        store_weak(&work[t], in[t]);\n        __syncthreads();\n", "        store_weak(&work[t], in[t]);\n"),
        _second,
        blocks=2,
    ),
    Pair(
        "barrier after the fence",
        "what one thread acquired reaches the others through a barrier",
        _FENCED,
        ("        __syncthreads();\n        out[g] = load_weak", "        out[g] = load_weak"),
        _second,
        blocks=2,
    ),
    Pair(
        "st.release",
        "a releasing store",
        _SEMANTIC,
        ("store_release(flag, 1)", "store_relaxed(flag, 1)"),
        _second,
        blocks=2,
    ),
    Pair(
        "ld.acquire",
        "an acquiring load",
        _SEMANTIC,
        ("load_acquire(flag)", "load_relaxed(flag)"),
        _second,
        blocks=2,
    ),
    Pair(
        "st.release of the block's scope",
        "a releasing store whose scope includes the reader",
        _SEMANTIC,
        ("store_release(flag, 1)", "store_release_cta(flag, 1)"),
        _second,
        blocks=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "ld.acquire of the block's scope",
        "an acquiring load whose scope includes the writer",
        _SEMANTIC,
        # The poll itself reads the device's memory: a poll of the block's scope may see its own cache for ever.
        (
            "while (load_acquire(flag) == 0) {}",
            "while (load_relaxed(flag) == 0) {}\n            load_acquire_cta(flag);",
        ),
        _second,
        blocks=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "relaxed store after a release",
        "a relaxed store of the same thread to the released location keeps the release",
        _message("", "store_release(flag, 0); store_relaxed(flag, 1);", "load_acquire(flag)", ""),
        ("store_release(flag, 0); store_relaxed(flag, 1)", "store_release(flag + 1, 0); store_relaxed(flag, 1)"),
        _second,
        blocks=2,
    ),
    Pair(
        "acquire after a relaxed read",
        "an acquiring load of the location that a relaxed one read acquires too",
        _message("", "store_release(flag, 1);", "load_relaxed(flag)", "load_acquire(flag);  // same"),
        ("load_acquire(flag);  // same", "load_acquire(flag + 1);"),
        _second,
        blocks=2,
    ),
    Pair(
        "fence.release",
        "a fence that releases only, before the flag",
        _ONE_SIDED,
        ("fence_release()", "fence_acquire()"),
        _second,
        blocks=2,
    ),
    Pair(
        "fence.acquire",
        "a fence that acquires only, after the flag",
        _ONE_SIDED,
        ("fence_acquire()", "fence_release()"),
        _second,
        blocks=2,
    ),
    Pair(
        "volatile flag",
        "a fence before a volatile flag, which releases nothing itself",
        _message("__threadfence();  // release", "store_volatile(flag, 1);", "load_volatile(flag)", "__threadfence();"),
        ("__threadfence();  // release", ""),
        _second,
        blocks=2,
    ),
    Pair(
        "weak poll",
        "a flag that is read by a strong load",
        _FENCED,
        ("load_relaxed(flag)", "load_weak(flag)"),
        _second,
        blocks=2,
        may_hang=True,
    ),
    Pair(
        "red as a flag",
        "a reduction sets a flag like a store: with a fence before it",
        _message("fence_gpu();", "red_relaxed(flag, 1);", "load_acquire(flag)", ""),
        ("fence_gpu();", ""),
        _second,
        blocks=2,
    ),
    Pair(
        "red does not acquire",
        "an atomic with a fence behind it acquires, a reduction does not",
        _message(
            "store_release(flag, 1);", "store_relaxed(flag + 1, 1);", "add_relaxed(flag, 0)", "fence_gpu();  // acquire"
        ),
        (
            "while (add_relaxed(flag, 0) == 0) {}",
            "while (load_relaxed(flag + 1) == 0) {}\n            red_relaxed(flag, 0);",
        ),
        _second,
        blocks=2,
    ),
    Pair(
        "last block, fence before the count",
        "every block's partial results are released before it counts itself",
        _LAST_BLOCK,
        ("    __threadfence();  // before\n", ""),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "last block, fence after the count",
        "the last block acquires before it reads the partial results",
        _LAST_BLOCK,
        ("if (last) __threadfence();  // after", ""),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "last block, one thread's fences",
        "a barrier, then one thread's fence on each side of the count",
        """    __shared__ u32 last;
    store_weak(&work[g], in[g]);
    __syncthreads();  // gather
    if (t == 0) {
        fence_gpu();
        last = add_relaxed(work + 2048, 1) == 3;
        fence_gpu();
    }
    __syncthreads();
    u32 sum = 0;
    if (last) for (u32 i = 0; i < 4; ++i) sum += load_weak(&work[128 * i + t]);
    if (last) store_weak(&out[t], sum);""",
        ("    __syncthreads();  // gather\n", ""),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "last block, acq_rel count",
        "a count that releases and acquires, between barriers",
        _ACQ_REL_COUNT,
        ("add_acq_rel(work + 2048, 1)", "add_release(work + 2048, 1)"),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "last block, releasing count",
        "a count that releases as well as it acquires",
        _ACQ_REL_COUNT,
        ("add_acq_rel(work + 2048, 1)", "add_acquire(work + 2048, 1)"),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "release chain through an atomic",
        "a relaxed atomic of the device's scope hands a release on",
        _HANDED_ON,
        ("add_relaxed(flag, 1)", "add_relaxed_cta(flag, 1)"),
        _third,
        blocks=3,
        kinds=("race", "scope"),
    ),
    Pair(
        "release chain and a plain store",
        "an atomic hands a release on, a store of another thread does not",
        _HANDED_ON,
        ("add_relaxed(flag, 1)", "store_relaxed(flag, 2)"),
        _third,
        blocks=3,
    ),
    Pair(
        "semaphore, acquire",
        "a block acquires its turn",
        _SEMAPHORE,
        ("load_acquire(turn)", "load_relaxed(turn)"),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "semaphore, release",
        "a block releases the next turn",
        _SEMAPHORE,
        ("store_release(turn, b + 1)", "store_relaxed(turn, b + 1)"),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "semaphore, barrier before the release",
        "all of the block's writes come before its release",
        _SEMAPHORE,
        ("    __syncthreads();\n    if (t == 0) store_release", "    if (t == 0) store_release"),
        _sum_of_four,
        blocks=4,
    ),
    Pair(
        "one fence a link",
        "a fence that ends one link and begins the next",
        _CHAIN,
        (" fence_gpu();  // middle", ""),
        _third,
        blocks=3,
    ),
    Pair(
        "initialisation and atomics of two blocks",
        "a plain initialisation is ordered before another block's atomic",
        """    u32* cell = work + 1024;
    u32* flag = work + 2048;
    if (b == 0 && t == 0) { store_weak(cell, 5); store_release(flag, 1); }
    if (b == 1 && t == 0) while (load_acquire(flag) == 0) {}
    if (t == 0) add_relaxed(cell, 1);
    out[g] = t;""",
        ("    if (b == 1 && t == 0) while (load_acquire(flag) == 0) {}\n", ""),
        lambda words: np.tile(np.arange(128, dtype=np.uint32), 2),
        blocks=2,
        visible=False,
    ),
    Pair(
        "atomics of the block's scope",
        "atomics of two blocks on one place have the device's scope",
        """    u32* cell = work + 1024;
    if (t == 0) add_relaxed(cell, 1);
    out[g] = t;""",
        ("add_relaxed(cell, 1)", "add_relaxed_cta(cell, 1)"),
        lambda words: np.tile(np.arange(128, dtype=np.uint32), 2),
        blocks=2,
        kinds=("race", "scope"),
        visible=False,
    ),
    Pair(
        "plain store and atomic",
        "blocks that write one place do so by atomics",
        """    u32* cell = work + 1024;
    if (t == 0) add_relaxed(cell, 1);
    out[g] = t;""",
        ("if (t == 0) add_relaxed(cell, 1);", "if (t == 0) { if (b) add_relaxed(cell, 1); else store_weak(cell, 1); }"),
        lambda words: np.tile(np.arange(128, dtype=np.uint32), 2),
        blocks=2,
        visible=False,
    ),
    Pair(
        "atomics of different sizes",
        "atomics on one place have one size",
        """    u32* cell = work + 1024;
    if (t == 0 && b == 1) add_relaxed(cell, 1);
    if (t == 0 && b == 0) add_relaxed(cell, 1);
    out[g] = t;""",
        ("b == 0) add_relaxed(cell, 1)", "b == 0) atomicAdd(reinterpret_cast<u64*>(cell), 1ull)"),
        lambda words: np.tile(np.arange(128, dtype=np.uint32), 2),
        blocks=2,
        visible=False,
    ),
)
