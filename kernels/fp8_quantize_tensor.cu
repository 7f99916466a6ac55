// fp8_quantize_tensor: x [R, C] (bf16, f16 or f32) by one scale to codes [R, C], transposed codes [C, R], or both, each
// e4m3 or e5m2; the maximum of x joins a scale ring (see fp8_scale_ring.cuh).
//
//     multiplier = scale, or 1 / scale where the scale is a step
//     code       = fp8(float(x) * multiplier), to nearest even, saturating
//     amax       = max of |float(x)|, by fmaxf from 0: of the raw values, a NaN is dropped, an infinity survives
//
// Two bodies. Rows alone are flat: eight elements a thread and step, the ragged end by single elements. What is transposed
// goes through shared memory in tiles of 32 rows and 64 columns. The scalar route of each takes any address and extent.
// Blocks step by the grid over vectors or tiles, so any grid does the work; a grid of one block reads an empty tensor.

#include "fp8_element.cuh"
#include "fp8_scale_ring.cuh"

using Index = long long;

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;

// NOTE: eight elements are one 16-byte load of a 16-bit type, two of float32, and their codes one 8-byte store.
constexpr int kVector = 8;

constexpr int kTileRows = 32;
constexpr int kTileColumns = 64;
constexpr int kOwnRows = kTileRows / kWarps;  // of a thread, by two columns: four codes of a column are one word
constexpr int kColumnWords = kTileRows / sizeof(unsigned);
constexpr int kPitchWords = kColumnWords + 1;  // odd, so that columns begin in different banks
constexpr int kChunkWords = 2;                 // of a column, that a thread writes out
constexpr int kChunkRows = kChunkWords * sizeof(unsigned);
constexpr int kChunks = kColumnWords / kChunkWords;

// What a launch is given; a null output is one that is not written.
struct Cast {
    const void* x;
    Index rows;
    Index columns;
    const float* scale;
    unsigned char* codes;
    unsigned char* transposed;
    int is_step;
};

__device__ __forceinline__ float multiplier_of(const Cast& cast) {
    return cast.is_step ? __frcp_rn(*cast.scale) : *cast.scale;
}

template <int kCount>
__device__ __forceinline__ float largest_of(const float (&values)[kCount]) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) largest = fmaxf(largest, fabsf(values[i]));
    return largest;
}

template <int kCount>
__device__ __forceinline__ void scale_all(float (&values)[kCount], float multiplier) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = values[i] * multiplier;
}

template <class Element>
__device__ __forceinline__ void load_vector(const typename Element::Storage* source, float (&values)[kVector]) {
    constexpr int kPerLoad = sizeof(uint4) / sizeof(typename Element::Storage);
#pragma unroll
    for (int first = 0; first < kVector; first += kPerLoad) {
        widen_words<Element, uint4, 4>(source + first, values + first);
    }
}

// Codes of this thread's part of all elements; returns the part's maximum.
template <class Element, class Format, bool kVectorRoute>
__device__ __forceinline__ float cast_flat(const Cast& cast, float multiplier) {
    const auto* x = static_cast<const typename Element::Storage*>(cast.x);
    const Index total = cast.rows * cast.columns;
    const Index whole = kVectorRoute ? total / kVector * kVector : 0;
    const Index first = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
    const Index stride = static_cast<Index>(gridDim.x) * kThreads;
    float amax = 0.0f;
#pragma unroll 1
    for (Index i = first * kVector; i < whole; i += stride * kVector) {
        float values[kVector];
        load_vector<Element>(x + i, values);
        amax = fmaxf(amax, largest_of(values));
        scale_all(values, multiplier);
        const uint2 words = {code_word<Format>(values), code_word<Format>(values + kVector / 2)};
        *reinterpret_cast<uint2*>(cast.codes + i) = words;
    }
#pragma unroll 1
    for (Index i = whole + first; i < total; i += stride) {
        const float value = Element::widen(x[i]);
        amax = fmaxf(amax, fabsf(value));
        cast.codes[i] = code<Format>(value * multiplier);
    }
    return amax;
}

// What two elements are loaded as.
template <int kElementBytes>
struct PairWords {
    using Type = unsigned;
};
template <>
struct PairWords<sizeof(float)> {
    using Type = uint2;
};

// This thread's two columns of one row; 0 for what lies outside.
template <class Element, bool kVectorRoute>
__device__ __forceinline__ void load_pair(const Cast& cast, Index row, Index column, float (&values)[2]) {
    values[0] = values[1] = 0.0f;
    if (row >= cast.rows || column >= cast.columns) return;
    const auto* x = static_cast<const typename Element::Storage*>(cast.x) + row * cast.columns + column;
    if (kVectorRoute) {
        // NOTE: the number of columns is even, so a pair is inside or outside.
        using Words = typename PairWords<sizeof(typename Element::Storage)>::Type;
        widen_words<Element, Words, sizeof(Words) / sizeof(unsigned)>(x, values);
    } else {
        values[0] = Element::widen(x[0]);
        if (column + 1 < cast.columns) values[1] = Element::widen(x[1]);
    }
}

template <class Format, bool kVectorRoute>
__device__ __forceinline__ void store_pair(const Cast& cast, Index row, Index column, const float (&values)[2]) {
    if (row >= cast.rows || column >= cast.columns) return;
    unsigned char* codes = cast.codes + row * cast.columns + column;
    const unsigned pair = Format::pair(values[0], values[1]);
    if (kVectorRoute) {
        *reinterpret_cast<unsigned short*>(codes) = static_cast<unsigned short>(pair);
    } else {
        codes[0] = static_cast<unsigned char>(pair);
        if (column + 1 < cast.columns) codes[1] = static_cast<unsigned char>(pair >> 8);
    }
}

// A chunk of one column of a tile from shared memory to its place; rows count from 0 of the tensor.
template <bool kVectorRoute>
__device__ __forceinline__ void store_chunk(const Cast& cast, Index row, Index column, const unsigned* chunk) {
    if (row >= cast.rows || column >= cast.columns) return;
    unsigned char* codes = cast.transposed + column * cast.rows + row;
    const uint2 words = {chunk[0], chunk[1]};
    if (kVectorRoute) {
        // NOTE: the number of rows is a multiple of a chunk's, so a chunk is inside or outside.
        *reinterpret_cast<uint2*>(codes) = words;
    } else {
#pragma unroll
        for (int i = 0; i < kChunkRows; ++i) {
            const unsigned word = i < kChunkRows / 2 ? words.x : words.y;
            if (row + i < cast.rows) codes[i] = static_cast<unsigned char>(word >> i % 4 * 8);
        }
    }
}

// One tile whose first element is (row, column); returns the maximum of this thread's part.
template <class Element, class Rows, class Transposed, bool kVectorRoute>
__device__ __forceinline__ float cast_tile(const Cast& cast, Index row, Index column, float multiplier,
                                           unsigned (&columns)[kTileColumns][kPitchWords]) {
    const int lane = threadIdx.x % kLanes;
    const int warp = threadIdx.x / kLanes;
    float left[kOwnRows], right[kOwnRows], amax = 0.0f;
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
        float values[2];
        load_pair<Element, kVectorRoute>(cast, row + warp * kOwnRows + i, column + 2 * lane, values);
        amax = fmaxf(amax, largest_of(values));
        scale_all(values, multiplier);
        if constexpr (kIsWritten<Rows>) {
            store_pair<Rows, kVectorRoute>(cast, row + warp * kOwnRows + i, column + 2 * lane, values);
        }
        left[i] = values[0];
        right[i] = values[1];
    }
    columns[2 * lane][warp] = code_word<Transposed>(left);
    columns[2 * lane + 1][warp] = code_word<Transposed>(right);
    __syncthreads();
    const int own = threadIdx.x / kChunks;
    const int chunk = threadIdx.x % kChunks;
    store_chunk<kVectorRoute>(cast, row + chunk * kChunkRows, column + own, &columns[own][chunk * kChunkWords]);
    return amax;
}

template <class Element, class Rows, class Transposed, bool kVectorRoute>
__device__ __forceinline__ float cast_tiles(const Cast& cast, float multiplier) {
    __shared__ unsigned columns[kTileColumns][kPitchWords];
    float amax = 0.0f;
#pragma unroll 1
    for (Index row = static_cast<Index>(blockIdx.y) * kTileRows; row < cast.rows; row += gridDim.y * kTileRows) {
#pragma unroll 1
        for (Index column = static_cast<Index>(blockIdx.x) * kTileColumns; column < cast.columns;
             column += gridDim.x * kTileColumns) {
            const float own = cast_tile<Element, Rows, Transposed, kVectorRoute>(cast, row, column, multiplier, columns);
            amax = fmaxf(amax, own);
            // NOTE: the next tile takes the place of this one.
            __syncthreads();
        }
    }
    return amax;
}

// The maximum of a block, known to its first warp.
__device__ __forceinline__ float block_max(float value) {
    __shared__ float warp_maxima[kWarps];
    const float own = warp_max(value);
    if (threadIdx.x % kLanes == 0) warp_maxima[threadIdx.x / kLanes] = own;
    __syncthreads();
    return warp_max(threadIdx.x < kWarps ? warp_maxima[threadIdx.x] : 0.0f);
}

template <class Element, class Rows, class Transposed, bool kVectorRoute>
__device__ __forceinline__ void quantize(const Cast& cast, const Fold& fold) {
    const float multiplier = multiplier_of(cast);
    float amax;
    if constexpr (kIsWritten<Transposed>) {
        amax = cast_tiles<Element, Rows, Transposed, kVectorRoute>(cast, multiplier);
    } else {
        amax = cast_flat<Element, Rows, kVectorRoute>(cast, multiplier);
    }
    amax = block_max(amax);
    if (threadIdx.x < kLanes) join(fold, threadIdx.x, amax);
}

#define FP8_QUANTIZE_TENSOR(NAME, ELEMENT, VECTOR_ROUTE)                                                          \
    extern "C" __global__ void __launch_bounds__(kThreads) fp8_quantize_tensor_##NAME(const Cast cast,            \
                                                                                      const Fold fold) {          \
        quantize<ELEMENT, FP8_ROWS, FP8_TRANSPOSED, VECTOR_ROUTE>(cast, fold);                                    \
    }

FP8_QUANTIZE_TENSOR(bf16_vector, Bf16, true)
FP8_QUANTIZE_TENSOR(bf16_scalar, Bf16, false)
FP8_QUANTIZE_TENSOR(f16_vector, F16, true)
FP8_QUANTIZE_TENSOR(f16_scalar, F16, false)
FP8_QUANTIZE_TENSOR(f32_vector, F32, true)
FP8_QUANTIZE_TENSOR(f32_scalar, F32, false)
