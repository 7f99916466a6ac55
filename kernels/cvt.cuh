// PTX `cvt`: one function an instruction form, named after it. Operands in PTX order, 16-bit values as raw bits.
#pragma once

// NOTE: the first operand lands in the upper byte (PTX ISA 9.0, "cvt", .e4m3x2). To nearest, ties to even; finite
// values and infinities beyond the largest finite value become +-448, every NaN becomes 0x7F.
__device__ __forceinline__ unsigned cvt_rn_satfinite_e4m3x2_f32(float upper, float lower) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
    return pair;
}

__device__ __forceinline__ unsigned short cvt_rn_f16_f32(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float cvt_f32_f16(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// NOTE: every NaN becomes 0x7FFF (PTX ISA 9.0, "cvt").
__device__ __forceinline__ unsigned short cvt_rn_bf16_f32(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// NOTE: the first operand lands in the upper half.
__device__ __forceinline__ unsigned cvt_rn_bf16x2_f32(float upper, float lower) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
    return pair;
}

// The lower code becomes the lower half; exact.
__device__ __forceinline__ unsigned cvt_rn_f16x2_e4m3x2(unsigned short codes) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(codes));
    return pair;
}

__device__ __forceinline__ unsigned cvt_rn_f16x2_e5m2x2(unsigned short codes) {
    unsigned pair;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(codes));
    return pair;
}

// NOTE: as its e4m3 twin; finite values and infinities beyond the largest finite value become +-57,344, every NaN 0x7F.
__device__ __forceinline__ unsigned cvt_rn_satfinite_e5m2x2_f32(float upper, float lower) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
    return pair;
}
