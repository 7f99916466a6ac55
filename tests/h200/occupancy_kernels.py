"""Kernels that differ in what they take of an SM, for tests of the occupancy model on CPU and GPU."""

LIVE_VALUES = (1, 8, 12, 20, 28, 36, 48, 60, 76, 92, 110, 124, 150, 180, 210)
SHARED_BYTES = (0, 16, 1024, 3072, 12000, 49152)
BARRIERS = (1, 2, 5, 16)

_REGISTERS = """
extern "C" __global__ void live_{count}(float* out, const float* in, int steps) {{
    float value[{count}];
    #pragma unroll
    for (int i = 0; i < {count}; ++i) value[i] = in[threadIdx.x + i];
    for (int step = 0; step < steps; ++step) {{
        #pragma unroll
        for (int i = 0; i < {count}; ++i) value[i] = __fmaf_rn(value[i], value[(i + 1) % {count}], in[step]);
    }}
    #pragma unroll
    for (int i = 0; i < {count}; ++i) out[threadIdx.x * {count} + i] = value[i];
}}
"""
_SHARED = """
extern "C" __global__ void shared_{count}(char* out, int place) {{
    __shared__ char buffer[{count}];
    buffer[threadIdx.x % {count}] = place;
    __syncthreads();
    out[threadIdx.x] = buffer[place % {count}];
}}
"""
_BARRIERS = """
extern "C" __global__ void barriers_{count}(int* out) {{
    #pragma unroll
    for (int i = 0; i < {count}; ++i) asm volatile("bar.sync %0;" :: "r"(i) : "memory");
    out[threadIdx.x] = 1;
}}
"""


def source() -> str:
    """CUDA text of all kernels."""
    parts = [_REGISTERS.format(count=count) for count in LIVE_VALUES]
    parts += [_SHARED.format(count=count) for count in SHARED_BYTES if count]
    parts += [_BARRIERS.format(count=count) for count in BARRIERS]
    return "".join(parts)
