// What becomes of a sum: one policy a call site, a structure of static members.
//
//     Parameters                      what the kernel takes by value; strides count elements
//     kPaired                         whether a tile holds gate rows and the up rows of the same outputs
//     place(p, token, row)            where an output lies; `row` counts weight rows, or outputs if paired
//     finish(p, x, w, token, row)     x = sum * activation scale, w = weight scale: the value that is rounded to bf16
//     combine(gate, up)               if paired: the output of two values that were rounded to bf16
//
// `place` and `finish` are called for tokens below T only.
#pragma once

#include "cvt.cuh"
#include "fp8_a8_product.cuh"

struct Matrix {
    Bf16* out;
    Index stride;
};

__device__ __forceinline__ Bf16* element(const Matrix& matrix, Index token, Index column) {
    return matrix.out + token * matrix.stride + column;
}

struct Linear {
    using Parameters = Matrix;
    static constexpr bool kPaired = false;
    static __device__ Bf16* place(const Parameters& p, Index token, Index row) { return element(p, token, row); }
    static __device__ float finish(const Parameters&, float x, float w, Index, Index) { return __fmul_rn(x, w); }
};

// The residual is the output buffer itself.
struct LinearAdd {
    using Parameters = Matrix;
    static constexpr bool kPaired = false;
    static __device__ Bf16* place(const Parameters& p, Index token, Index row) { return element(p, token, row); }
    // NOTE: the last product and the sum are one fused operation, here and nowhere else: left to a compiler, the
    // branch for whole tiles and the one for partial tiles may round differently.
    static __device__ float finish(const Parameters& p, float x, float w, Index token, Index row) {
        return __fmaf_rn(x, w, widen(*place(p, token, row)));
    }
};

// Rows from begin[i] on belong to output i, as its columns from 0 on; a part that does not exist begins at no row.
struct Split {
    static constexpr int kParts = 4;
    struct Parameters {
        Bf16* out[kParts];
        Index stride[kParts];
        Index begin[kParts];
    };
    static constexpr bool kPaired = false;
    static __device__ Bf16* place(const Parameters& p, Index token, Index row) {
        Matrix part = {p.out[0], p.stride[0]};
        Index begin = 0;
#pragma unroll
        for (int i = 1; i < kParts; ++i) {
            if (row >= p.begin[i]) {
                part = {p.out[i], p.stride[i]};
                begin = p.begin[i];
            }
        }
        return element(part, token, row - begin);
    }
    static __device__ float finish(const Parameters&, float x, float w, Index, Index) { return __fmul_rn(x, w); }
};

struct SwiGlu {
    using Parameters = Matrix;
    static constexpr bool kPaired = true;
    static __device__ Bf16* place(const Parameters& p, Index token, Index column) { return element(p, token, column); }
    static __device__ float finish(const Parameters&, float x, float w, Index, Index) { return __fmul_rn(x, w); }
    // NOTE: expf ends in ex2.approx, the one step here whose result is not defined to the bit.
    static __device__ Bf16 combine(Bf16 gate, Bf16 up) {
        const float x = widen(gate);
        const float silu = __fdiv_rn(x, __fadd_rn(1.0f, expf(-x)));
        return cvt_rn_bf16_f32(__fmul_rn(silu, widen(up)));
    }
};

// The policy of a module that names none.
#ifndef FP8_A8_OUTPUT
#define FP8_A8_OUTPUT Linear
#endif
