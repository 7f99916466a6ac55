"""wgmma: operands in shared memory, accumulators, fragments. All operands are one, so that every sum is a count."""

import numpy as np
from pair import Pair, Words


def _every(value: float) -> Words:
    return np.full(128, value, np.float32).view(np.uint32)


_FILL = """    __shared__ alignas(128) u32 x[512];
    __shared__ alignas(128) u32 y[128];
    store_shared(&y[t], 0x3C003C00u);
    for (u32 i = 0; i < 4; ++i) store_shared(&x[4 * t + i], 0x3C003C00u);
    proxy_fence();
    __syncthreads();
"""

_OVERWRITE = "    for (u32 i = 0; i < 4; ++i) store_shared(&x[4 * t + i], 0);\n"

_PRODUCT = (
    _FILL
    + """    float d[4] = {};
    hold(d);
    wgmma_fence();
    wgmma(d, tile(x), tile(y));
    wgmma_commit();
    wgmma_wait();
    out[g] = __float_as_uint(d[0]);"""
)

# Registers have names only inside one asm statement.
_FRAGMENT = (
    _FILL
    + """    float d;
    asm volatile(
        "{ .reg .b32 a<4>; .reg .f32 d<4>; mov.b32 a0, 0x3C003C00; mov.b32 a1, a0; mov.b32 a2, a0; mov.b32 a3, a0;"
        "mov.f32 d0, 0f00000000; mov.f32 d1, d0; mov.f32 d2, d0; mov.f32 d3, d0;"
        "wgmma.fence.sync.aligned;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, {a0, a1, a2, a3}, %1, 1, 1, 1, 0;"
        "wgmma.commit_group.sync.aligned;"
        "wgmma.wait_group.sync.aligned 0;"
        "mov.b32 a0, 0;"
        "add.f32 %0, d0, a0; }"
        : "=f"(d) : "l"(tile(y)) : "memory");
    out[g] = __float_as_uint(d);"""
)

_BETWEEN = """        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; wgmma.fence.sync.aligned;"
"""

_SHAPES = (
    _FILL
    + """    float d;
    asm volatile(
        "{ .reg .f32 d<8>; mov.f32 d0, 0f00000000; mov.f32 d1, d0; mov.f32 d2, d0; mov.f32 d3, d0;"
        "mov.f32 d4, d0; mov.f32 d5, d0; mov.f32 d6, d0; mov.f32 d7, d0;"
        "wgmma.fence.sync.aligned;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, %1, %2, 1, 1, 1, 0, 0;"
"""
    + _BETWEEN
    + """        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {d0, d1, d2, d3, d4, d5, d6, d7},"
        " %1, %2, 1, 1, 1, 0, 0;"
        "wgmma.commit_group.sync.aligned;"
        "wgmma.wait_group.sync.aligned 0;"
        "mov.f32 %0, d0; }"
        : "=f"(d) : "l"(tile(x)), "l"(tile(y)) : "memory");
    out[g] = __float_as_uint(d);"""
)

PAIRS = (
    Pair(
        "operands of wgmma",
        "writes are fenced towards the async proxy before wgmma reads them",
        _PRODUCT,
        ("    proxy_fence();\n", ""),
        lambda words: _every(16),
    ),
    Pair(
        "cp.async and wgmma",
        "copies of cp.async are fenced before wgmma reads them",
        """    __shared__ alignas(128) u32 x[512];
    __shared__ alignas(128) u32 y[128];
    store_shared(&y[t], 0x3C003C00u);
    proxy_fence();
    for (u32 i = 0; i < 4; ++i) store_weak(&work[4 * t + i], 0x3C003C00u);
    copy16(&x[4 * t], &work[4 * t]);
    commit();
    wait_group<0>();
    proxy_fence();  // copies
    __syncthreads();
    float d[4] = {};
    hold(d);
    wgmma_fence();
    wgmma(d, tile(x), tile(y));
    wgmma_commit();
    wgmma_wait();
    out[g] = __float_as_uint(d[0]);""",
        ("    proxy_fence();  // copies\n", ""),
        lambda words: _every(16),
    ),
    Pair(
        "wgmma.fence",
        "a fence between the accumulators' first values and wgmma",
        _PRODUCT,
        ("    wgmma_fence();\n", ""),
        lambda words: _every(16),
        kinds=("race", "async"),
    ),
    Pair(
        "accumulators of wgmma",
        "a wait before the accumulators are read",
        _PRODUCT,
        (
            "    wgmma_wait();\n    out[g] = __float_as_uint(d[0]);",
            "    out[g] = __float_as_uint(d[0]);\n    wgmma_wait();",
        ),
        lambda words: _every(16),
        kinds=("race", "async"),
    ),
    Pair(
        "operands overwritten",
        "a wait before the operands of wgmma are written again",
        _FILL
        + """    float d[4] = {};
    hold(d);
    wgmma_fence();
    wgmma(d, tile(x), tile(y));
    wgmma_commit();
    wgmma_wait();
    __syncthreads();
"""
        + _OVERWRITE
        + """    out[g] = __float_as_uint(d[0]);""",
        (
            f"    wgmma_wait();\n    __syncthreads();\n{_OVERWRITE}",
            f"    __syncthreads();\n{_OVERWRITE}    wgmma_wait();\n",
        ),
        lambda words: _every(16),
        kinds=("race", "async"),
    ),
    Pair(
        "fragment of wgmma",
        "a wait before a register of the fragment is written again",
        _FRAGMENT,
        (
            '        "wgmma.wait_group.sync.aligned 0;"\n        "mov.b32 a0, 0;"\n',
            '        "mov.b32 a0, 0;"\n        "wgmma.wait_group.sync.aligned 0;"\n',
        ),
        lambda words: _every(16),
        kinds=("race", "async"),
    ),
    Pair(
        "two shapes of wgmma",
        "a wait and a fence between products of different shapes on the same accumulators",
        _SHAPES,
        ('        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; wgmma.fence.sync.aligned;"\n', ""),
        lambda words: _every(32),
        kinds=("race", "async"),
    ),
)
