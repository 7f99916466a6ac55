// The formats of operands, one structure each: the matrix instruction, and the value of a code.
#pragma once

#include "cvt.cuh"
#include "mma.cuh"

struct E4m3 {
    static __device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        mma_m16n8k32_f32_e4m3(sum, a, b0, b1);
    }
    // NOTE: every value of the format is one of f16, so both conversions are exact.
    static __device__ __forceinline__ float widen(unsigned char code) {
        return cvt_f32_f16(static_cast<unsigned short>(cvt_rn_f16x2_e4m3x2(code)));
    }
};

struct E5m2 {
    static __device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        mma_m16n8k32_f32_e5m2(sum, a, b0, b1);
    }
    static __device__ __forceinline__ float widen(unsigned char code) {
        return cvt_f32_f16(static_cast<unsigned short>(cvt_rn_f16x2_e5m2x2(code)));
    }
};
