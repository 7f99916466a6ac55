// The delayed-scaling ring, folded by the launch that measures a tensor: no launch of its own, and no host in between.
//
//     each block         collected = max(collected, its amax); then takes a ticket
//     the last block     amax = the collected maximum, which it sets back to 0
//                        history[index] = amax, peak = max of the window
//                        scale = max(peak / largest / 2^margin, 1e-12), published with its reciprocal
//                        counter = 0, for the next launch
//
// Maxima are raised as integers: bit patterns of floats that are not negative have the order of the floats. A NaN never
// gets here, because fmaxf drops it; an infinity does. Division and power of two are exact operations, so that no option
// of a compiler changes a bit.
//
// NOTE: the last block learns what all others did by their tickets: each fence before a ticket releases what the block
// did, its reads of the scale included, and the fence behind it acquires what earlier ones released. So the last block may
// publish into the very word that the launch has read its scale from.
#pragma once

constexpr int kFoldLanes = 32;
constexpr float kLeastScale = 1e-12f;

// Where a ring lies; a null pointer is a part that the ring lacks.
struct Fold {
    unsigned* maxima;   // [slots], where blocks collect; null: nobody asks for the maximum
    unsigned* counter;  // of tickets; null: nothing is published
    float* history;     // [window]
    float* scale;
    float* reciprocal;
    float* amax;
    float largest;      // of the format that the ring scales for
    int margin;
    unsigned slots;
    int window;
    int index;
};

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int distance = kFoldLanes / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
    }
    return value;
}

// NOTE: many slots, because a grid of ten thousands of blocks would queue for one address.
__device__ __forceinline__ void collect(const Fold& fold, float amax) {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    atomicMax(fold.maxima + block % fold.slots, __float_as_uint(amax));
}

// Whether this block is the last of the grid; by one thread.
__device__ __forceinline__ bool take_ticket(const Fold& fold) {
    __threadfence();
    const unsigned ticket = atomicAdd(fold.counter, 1u);
    __threadfence();
    return ticket == gridDim.x * gridDim.y - 1;
}

// The collected maximum, which is 0 afterwards.
__device__ __forceinline__ float take_maxima(const Fold& fold, int lane) {
    float amax = 0.0f;
    for (unsigned slot = lane; slot < fold.slots; slot += kFoldLanes) {
        amax = fmaxf(amax, __uint_as_float(fold.maxima[slot]));
        fold.maxima[slot] = 0u;
    }
    return warp_max(amax);
}

// Puts amax into the window, and returns the window's maximum.
__device__ __forceinline__ float insert(const Fold& fold, int lane, float amax) {
    float peak = 0.0f;
    for (int step = lane; step < fold.window; step += kFoldLanes) {
        if (step == fold.index) fold.history[step] = amax;
        peak = fmaxf(peak, step == fold.index ? amax : fold.history[step]);
    }
    return warp_max(peak);
}

__device__ __forceinline__ float next_scale(const Fold& fold, float peak) {
    return fmaxf(ldexpf(__fdiv_rn(peak, fold.largest), -fold.margin), kLeastScale);
}

__device__ __forceinline__ void publish(const Fold& fold, int lane) {
    const float amax = take_maxima(fold, lane);
    const float scale = next_scale(fold, insert(fold, lane, amax));
    if (lane != 0) return;
    *fold.scale = scale;
    if (fold.reciprocal != nullptr) *fold.reciprocal = __frcp_rn(scale);
    if (fold.amax != nullptr) *fold.amax = amax;
    atomicExch(fold.counter, 0u);
}

// By the first warp of each block, once, with the block's maximum; the block's reads of the scale lie behind a barrier.
__device__ __forceinline__ void join(const Fold& fold, int lane, float amax) {
    if (fold.maxima == nullptr) return;
    if (lane == 0) collect(fold, amax);
    if (fold.counter == nullptr) return;
    const bool elected = lane == 0 && take_ticket(fold);
    const bool is_last = __shfl_sync(0xFFFFFFFFu, elected, 0);
    // NOTE: a shuffle hands over a value, not what its sender has learned of memory.
    __syncwarp();
    if (is_last) publish(fold, lane);
}
