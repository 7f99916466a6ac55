// Element types that are quantised, and the formats that they become: one structure each, for templates to take.
#pragma once

#include "cvt.cuh"

constexpr int kPairBits = 16;  // two codes, as one conversion delivers them

struct Bf16 {
    using Storage = unsigned short;
    // NOTE: bf16 is the upper half of a float32, so widening is exact and needs no conversion.
    static __device__ float widen(Storage bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
    static __device__ void widen_word(unsigned word, float* values) {
        values[0] = __uint_as_float(word << 16);
        values[1] = __uint_as_float(word & 0xFFFF0000u);
    }
};

struct F16 {
    using Storage = unsigned short;
    static __device__ float widen(Storage bits) { return cvt_f32_f16(bits); }
    static __device__ void widen_word(unsigned word, float* values) {
        values[0] = cvt_f32_f16(static_cast<unsigned short>(word));
        values[1] = cvt_f32_f16(static_cast<unsigned short>(word >> 16));
    }
};

struct F32 {
    using Storage = float;
    static __device__ float widen(Storage value) { return value; }
    static __device__ void widen_word(unsigned word, float* values) { values[0] = __uint_as_float(word); }
};

// Elements of `kCount` consecutive words of memory, the first of them aligned to all of them.
template <class Element, class Words, int kCount>
__device__ __forceinline__ void widen_words(const typename Element::Storage* source, float* values) {
    constexpr int kPerWord = sizeof(unsigned) / sizeof(typename Element::Storage);
    union {
        Words vector;
        unsigned words[kCount];
    } loaded;
    loaded.vector = *reinterpret_cast<const Words*>(source);
#pragma unroll
    for (int i = 0; i < kCount; ++i) Element::widen_word(loaded.words[i], values + i * kPerWord);
}

struct E4m3 {
    // Two codes, that of `first` in the lower byte.
    static __device__ unsigned pair(float first, float second) { return cvt_rn_satfinite_e4m3x2_f32(second, first); }
};

struct E5m2 {
    static __device__ unsigned pair(float first, float second) { return cvt_rn_satfinite_e5m2x2_f32(second, first); }
};

// In place of the format of an output that is not written.
struct Nothing {};

template <class Format>
constexpr bool kIsWritten = true;
template <>
constexpr bool kIsWritten<Nothing> = false;

template <class Format>
__device__ __forceinline__ unsigned char code(float value) {
    return static_cast<unsigned char>(Format::pair(value, 0.0f));
}

// Four codes as one little-endian word, that of values[0] in the lowest byte.
template <class Format>
__device__ __forceinline__ unsigned code_word(const float* values) {
    return Format::pair(values[0], values[1]) | Format::pair(values[2], values[3]) << kPairBits;
}
