"""Whatever changes an element when it changes is an input of its trace: held to launches with changed inputs.

A trace follows values: inputs that decide a branch or an address are no part of it, and none of these bodies has any.
"""

import numpy as np
import pytest

from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx.device import Device, Element, Function
from tileproof.simulators.ptx.machine.memory import Lanes

INPUTS, THREADS = 128, 64

ELEMENTS = (5, 38)

#: Bodies with `x` [128], `y` [64], `t`; and how many inputs the elements of a right trace have, or each of them.
BODIES: dict[str, tuple[str, int | tuple[int, int]]] = {
    "ballot": ("y[t] = __ballot_sync(~0u, x[t] > 50);", 32),
    "vote": ("y[t] = __all_sync(~0u, x[t] < 90) + 2 * __any_sync(0xffu << (t & 24), x[t] > 80);", 32),
    "reduction": ("y[t] = __reduce_add_sync(~0u, x[t]) - __reduce_max_sync(~0u, x[t]);", 32),
    "match": ("y[t] = __match_any_sync(~0u, x[t] & 3);", 32),
    "shuffle": ("y[t] = __shfl_sync(~0u, x[t], t * 7) + __shfl_up_sync(~0u, x[t + 64], 3, 8);", 2),
    "block count": ("y[t] = __syncthreads_count(x[t] & 1);", 64),
    "atomics": (
        "__shared__ int s, m; s = m = 0; __syncthreads(); atomicAdd(&s, x[t]); atomicMax(&m, x[t]); __syncthreads();"
        "y[t] = s + 1000 * m;",
        64,
    ),
    "old values": ("__shared__ int s; s = 0; __syncthreads(); y[t] = atomicExch(&s, x[t]);", 64),
    "bytes": ("y[t] = __byte_perm(x[t], x[t + 64], 0x5140) & 0xff00;", 1),
    "bit fields": ("y[t] = ((x[t] >> 3 & 1) | x[t + 64] << 31) + (x[t + 1] * 0);", 2),
    "choice": ("const int a = x[t + 64], b = x[t] / 2; y[t] = x[t] > 50 ? a : b;", 2),
    "narrow loads": ("y[t] = ((const signed char*)x)[t * 4 + 1] + ((const short*)x)[t * 2 + 129];", 2),
    "words and bytes": (
        "__shared__ int s[64]; s[t] = x[t] * 0x01010101; __syncthreads(); y[t] = ((signed char*)s)[(t * 5 + 3) & 255];",
        1,
    ),
    "stack": ("int a[4]; for (int i = 0; i < 4; ++i) a[(i + t) & 3] = x[t + i]; y[t] = a[t & 3] + a[t >> 1 & 3];", 2),
    "overwritten": ("y[t] = x[t]; __syncthreads(); if (t & 1) y[t] = x[t + 64];", 1),
    "own results": ("y[t] = x[t]; __syncthreads(); y[t ^ 1] = y[t ^ 1] + y[t ^ 1] * x[100];", 2),
    "vectors": ("int4 v = ((const int4*)x)[t & 31]; ((int2*)y)[t & 31] = make_int2(v.x ^ v.w, v.y);", (1, 2)),
    "wide": ("y[t] = (int)(((long long)x[t] * x[t + 64]) >> 32) + __umulhi(x[t + 1], 1u << 30);", 3),
    "transposed": (
        'unsigned r; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x[t])); y[t] = r;',
        2,
    ),
    "matrix rows": (
        "__shared__ __align__(16) int s[2][16][4]; unsigned a = (unsigned)__cvta_generic_to_shared(&s[t / 32][t & 15]);"
        'asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" '
        ':: "r"(a), "r"(x[t]), "r"(x[t + 64]) : "memory"); __syncthreads(); y[t] = s[t / 32][t & 15][t >> 4 & 1];',
        2,
    ),
    "bulk copies": (
        "__shared__ __align__(16) int s[128]; __shared__ __align__(8) unsigned long long b;"
        "unsigned a = (unsigned)__cvta_generic_to_shared(&b), d = (unsigned)__cvta_generic_to_shared(s), done = 0;"
        'if (t == 0) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster; '
        'mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(a) : "memory");'
        'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" '
        ':: "r"(d), "l"(x), "r"(a) : "memory"); } __syncthreads();'
        'while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; '
        'selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(a) : "memory");'
        "y[t] = s[t] - s[127 - t];",
        2,
    ),
}


def kernel(device: Device, body: str) -> Function:
    text = f'extern "C" __global__ void kernel(const int* x, int* y) {{ const int t = threadIdx.x; {body} }}'
    return device.load(compile_source(text, name="influence.cu"))["kernel"]


def results(device: Device, function: Function, x: Lanes) -> Lanes:
    buffers = device.upload(x.astype(np.int32)), device.allocate((THREADS,), np.int32)
    report = function.launch(grid=(1, 1, 1), block=(THREADS, 1, 1), args=buffers)
    assert not [finding for finding in report.findings if finding.kind != "race"]
    return buffers[1].download().astype(np.int64)


@pytest.mark.parametrize("name", BODIES)
def test_what_changes_an_element_is_in_its_trace(name: str) -> None:
    body, counts = BODIES[name]
    device, numbers = Device(engine="reference", order=False), np.random.default_rng(5)
    function, x = kernel(device, body), numbers.integers(1, 100, INPUTS)
    before = results(device, function, x)
    found = {}
    for element in ELEMENTS:
        args = device.upload(x.astype(np.int32)), device.allocate((THREADS,), np.int32)
        trace = function.trace(Element(1, (element,)), grid=(1, 1, 1), block=(THREADS, 1, 1), args=args)
        assert args[1].download().tolist() == before.tolist()
        (origin,) = [each for each in trace.inputs if each.argument == 0]
        found[element] = set(origin.elements.tolist())
    assert tuple(map(len, found.values())) == (counts if isinstance(counts, tuple) else (counts, counts))
    for place in numbers.permutation(INPUTS)[:40].tolist() + sorted(set[int]().union(*found.values()))[:4]:
        changed = x.copy()
        changed[place] ^= int(numbers.integers(1, 1 << 7)) | int(numbers.integers(1, 1 << 24)) << 7
        after = results(device, function, changed)
        for element in ELEMENTS:
            assert after[element] == before[element] or place in found[element], (place, element)
