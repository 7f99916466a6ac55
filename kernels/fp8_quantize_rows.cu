// fp8_quantize_rows: each row of x [T, K] (bf16, f16 or f32) to e4m3 codes [T, K] and one float32 scale of scales [T].
//
//     amax     = max over k of |float(x[t, k])|, by fmaxf from 0: a NaN is dropped, an infinity survives
//     scale    = amax > 0 ? amax / 448 : 0
//     inverse  = scale > 0 ? 1 / scale : 0
//     code     = e4m3(float(x[t, k]) * inverse), to nearest even, saturating
//
// One block a row and two passes over it: amax, then codes. The vector route takes kVector elements a thread and step
// and leaves the ragged end of a row to a scalar tail; the scalar route is all tail. Strides count elements.
//
// NOTE: the vector route copies the start of a row to shared memory, from where both passes read it, so that memory is
// read once; all of it is asked for before any of it is looked at, so that few blocks on a multiprocessor keep memory
// busy. What lies beyond is read twice. No loop over a row is unrolled, and the PTX stays short enough to read.

#include "cp_async.cuh"
#include "fp8_element.cuh"
#include "shared_address.cuh"

using Index = long long;

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

constexpr float kLargestE4m3 = 448.0f;

// NOTE: eight elements are one 16-byte load of a 16-bit type, two of float32, and their codes one 8-byte store.
constexpr int kVector = 8;

// NOTE: 18,432 elements of a 16-bit type, which holds the longest row of the models served (17,408) and lets six blocks
// share a multiprocessor.
constexpr int kKeptBytes = 36 * 1024;

struct RowScale {
    float scale;
    float inverse;
};

template <class Element>
__device__ __forceinline__ void load_vector(const typename Element::Storage* source, float (&values)[kVector]) {
    constexpr int kPerLoad = sizeof(uint4) / sizeof(typename Element::Storage);
#pragma unroll
    for (int first = 0; first < kVector; first += kPerLoad) {
        widen_words<Element, uint4, sizeof(uint4) / sizeof(unsigned)>(source + first, values + first);
    }
}

// Where the vectors of [0, whole) that are kept end.
template <class Element>
__device__ __forceinline__ Index kept_end(Index whole) {
    constexpr Index kMost = kKeptBytes / sizeof(typename Element::Storage);
    return whole < kMost ? whole : kMost;
}

// NOTE: a thread may read what it copied after its own wait; a barrier would be for what others copied.
template <class Element>
__device__ __forceinline__ void keep(typename Element::Storage* kept, const typename Element::Storage* row,
                                     Index whole) {
    constexpr int kPerCopy = sizeof(uint4) / sizeof(typename Element::Storage);
    const Index end = kept_end<Element>(whole);
#pragma unroll 1
    for (Index k = static_cast<Index>(threadIdx.x) * kVector; k < end; k += kThreads * kVector) {
#pragma unroll
        for (int first = 0; first < kVector; first += kPerCopy) {
            cp_async_cg_16(shared_address(kept + k + first), row + k + first);
        }
    }
    cp_async_commit_group();
    cp_async_wait_group<0>();
}

// Calls visit(k, values) for each of this thread's vectors; k is where it begins.
template <class Element, class Visit>
__device__ __forceinline__ void for_each_vector(const typename Element::Storage* kept,
                                                const typename Element::Storage* row, Index whole, Visit visit) {
    const Index end = kept_end<Element>(whole);
    Index k = static_cast<Index>(threadIdx.x) * kVector;
    float values[kVector];
#pragma unroll 1
    for (; k < end; k += kThreads * kVector) {
        load_vector<Element>(kept + k, values);
        visit(k, values);
    }
#pragma unroll 1
    for (; k < whole; k += kThreads * kVector) {
        load_vector<Element>(row + k, values);
        visit(k, values);
    }
}

// The largest magnitude among this thread's elements: vectors of [0, whole), single elements of [whole, columns).
template <class Element>
__device__ __forceinline__ float thread_amax(const typename Element::Storage* kept,
                                             const typename Element::Storage* row, Index whole, Index columns) {
    float amax = 0.0f;
    for_each_vector<Element>(kept, row, whole, [&](Index, const float (&values)[kVector]) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) amax = fmaxf(amax, fabsf(values[i]));
    });
#pragma unroll 1
    for (Index k = whole + threadIdx.x; k < columns; k += kThreads) {
        amax = fmaxf(amax, fabsf(Element::widen(row[k])));
    }
    return amax;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
    }
    return value;
}

__device__ __forceinline__ float block_max(float value) {
    __shared__ float warp_maxima[kWarps];
    const float own = warp_max(value);
    if (threadIdx.x % kLanes == 0) warp_maxima[threadIdx.x / kLanes] = own;
    // NOTE: no second barrier is needed, because a block reduces once and never writes warp_maxima again.
    __syncthreads();
    float maximum = warp_maxima[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) maximum = fmaxf(maximum, warp_maxima[warp]);
    return maximum;
}

// NOTE: the formula as it stands is the contract for tiny rows, too. Up to amax = 448 / 2^128 (about 1.3e-36) the inverse
// is infinite: non-zero elements saturate, zeros become NaN. Up to amax = 448 / 2^150 the scale itself rounds to zero.
__device__ __forceinline__ RowScale row_scale(float amax) {
    const float scale = amax > 0.0f ? __fdiv_rn(amax, kLargestE4m3) : 0.0f;
    const float inverse = scale > 0.0f ? __fdiv_rn(1.0f, scale) : 0.0f;
    return {scale, inverse};
}

// NOTE: a product with the rounded reciprocal is the contract. It can differ by one code from a division by the scale.
__device__ __forceinline__ float scaled(float value, RowScale row) {
    return value * row.inverse;
}

// Four codes as one little-endian word: that of values[0] in the lowest byte.
__device__ __forceinline__ unsigned scaled_word(const float* values, RowScale row) {
    const float products[] = {scaled(values[0], row), scaled(values[1], row), scaled(values[2], row),
                              scaled(values[3], row)};
    return code_word<E4m3>(products);
}

// The codes of this thread's elements, which are those that thread_amax visits.
template <class Element>
__device__ __forceinline__ void write_codes(const typename Element::Storage* kept,
                                            const typename Element::Storage* row, unsigned char* codes, Index whole,
                                            Index columns, RowScale scale) {
    for_each_vector<Element>(kept, row, whole, [&](Index k, const float (&values)[kVector]) {
        const uint2 words = {scaled_word(values, scale), scaled_word(values + kVector / 2, scale)};
        *reinterpret_cast<uint2*>(codes + k) = words;
    });
#pragma unroll 1
    for (Index k = whole + threadIdx.x; k < columns; k += kThreads) {
        codes[k] = code<E4m3>(scaled(Element::widen(row[k]), scale));
    }
}

template <class Element, bool kVectorRoute>
__device__ __forceinline__ void quantize_row(const typename Element::Storage* x, Index x_stride, unsigned char* codes,
                                             Index codes_stride, float* scales, Index columns) {
    // NOTE: 64-bit offsets, because T * stride passes 2^31 elements in tensors that fit one GPU.
    const Index row = blockIdx.x;
    const typename Element::Storage* x_row = x + row * x_stride;
    unsigned char* codes_row = codes + row * codes_stride;
    const Index whole = kVectorRoute ? columns / kVector * kVector : 0;
    __shared__ uint4 kept_bytes[kVectorRoute ? kKeptBytes / sizeof(uint4) : 1];
    auto* const kept = reinterpret_cast<typename Element::Storage*>(kept_bytes);

    if (kVectorRoute) keep<Element>(kept, x_row, whole);
    const float amax = block_max(thread_amax<Element>(kept, x_row, whole, columns));
    const RowScale scale = row_scale(amax);
    if (threadIdx.x == 0) scales[row] = scale.scale;
    write_codes<Element>(kept, x_row, codes_row, whole, columns, scale);
}

#define FP8_QUANTIZE_ROWS(NAME, ELEMENT, VECTOR_ROUTE)                                                            \
    extern "C" __global__ void __launch_bounds__(kThreads)                                                        \
        fp8_quantize_rows_##NAME(const ELEMENT::Storage* x, Index x_stride, unsigned char* codes,                 \
                                 Index codes_stride, float* scales, Index columns) {                              \
        quantize_row<ELEMENT, VECTOR_ROUTE>(x, x_stride, codes, codes_stride, scales, columns);                   \
    }

FP8_QUANTIZE_ROWS(bf16_vector, Bf16, true)
FP8_QUANTIZE_ROWS(bf16_scalar, Bf16, false)
FP8_QUANTIZE_ROWS(f16_vector, F16, true)
FP8_QUANTIZE_ROWS(f16_scalar, F16, false)
FP8_QUANTIZE_ROWS(f32_vector, F32, true)
FP8_QUANTIZE_ROWS(f32_scalar, F32, false)
