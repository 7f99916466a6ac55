// fp8_ring_seed: the first filling of a scale ring, from the bf16 tensor that it is about to scale.
//
//     amax       = max(|x|, 1e-12); a NaN anywhere in x makes it NaN
//     history    = amax in every slot
//     scale      = max(amax * (1 / largest) / 2^margin, 1e-12), the inverse rounded first; its reciprocal beside it
//
// This is what a PyTorch host computes on a GPU, and not what a fold computes: that one divides and drops NaN. One block
// reads the tensor: a ring is seeded once.

#include "fp8_element.cuh"
#include "fp8_scale_ring.cuh"

using Index = long long;

constexpr int kThreads = 1024;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;
constexpr unsigned kMagnitude = 0x7FFFFFFFu;
constexpr unsigned kInfinity = 0x7F800000u;
constexpr unsigned kNan = 0x7FFFFFFFu;

// Where the ring lies, and what it scales for.
struct Seed {
    float* history;  // [window]
    float* scale;
    float* reciprocal;
    float largest;
    int margin;
    int window;
};

// NOTE: bit patterns of magnitudes have the order of the magnitudes, and those of NaN lie above infinity.
__device__ __forceinline__ unsigned warp_largest(unsigned bits) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, distance));
    }
    return bits;
}

// The largest pattern of the block, known to its first warp.
__device__ __forceinline__ unsigned block_largest(unsigned bits) {
    __shared__ unsigned largest[kWarps];
    const unsigned own = warp_largest(bits);
    if (threadIdx.x % kLanes == 0) largest[threadIdx.x / kLanes] = own;
    __syncthreads();
    return warp_largest(threadIdx.x < kWarps ? largest[threadIdx.x] : 0u);
}

// A NaN stays, as one pattern.
__device__ __forceinline__ float at_least(float value) {
    if (value != value) return __uint_as_float(kNan);
    return value < kLeastScale ? kLeastScale : value;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    fp8_ring_seed(const unsigned short* x, const Index count, const Seed seed) {
    unsigned bits = 0;
#pragma unroll 1
    for (Index i = threadIdx.x; i < count; i += kThreads) {
        bits = max(bits, __float_as_uint(Bf16::widen(x[i])) & kMagnitude);
    }
    bits = block_largest(bits);
    if (threadIdx.x >= kLanes) return;
    const float amax = at_least(__uint_as_float(bits > kInfinity ? kNan : bits));
    for (int slot = threadIdx.x; slot < seed.window; slot += kLanes) seed.history[slot] = amax;
    if (threadIdx.x != 0) return;
    const float scale = at_least(ldexpf(__fmul_rn(amax, __frcp_rn(seed.largest)), -seed.margin));
    *seed.scale = scale;
    *seed.reciprocal = scale != scale ? scale : __frcp_rn(scale);
}
