// fp8_a8_judge: counts the outputs of an FP8 product that are not what its sums make of them.
//
//     judge_product    out = bf16 of (sum * activation scale) * weight scale; with a residual, fused: x * w + residual
//     judge_swiglu     out = any bf16 from low to high, where both are bf16 of silu * up, silu from a table by the gate
//     judge_words      32-bit words = another buffer's, or one value
//     put_words        no judgement: sets words
//
// The sums come from another kernel (e4m3_gemm), float32 [tokens, columns], or [tokens, 2 * columns] for SwiGLU: gates
// first. Every rounding to bf16 is in integers here. The definitions are oracle/epilogues/epilogue_array.py and
// oracle/epilogues/swiglu.py. Strides count elements.

using Index = long long;
using Bf16 = unsigned short;  // raw bits

constexpr Bf16 kNan = 0x7FFF;  // the only one that `cvt` makes

struct Sums {
    const float* values;
    Index stride;
    const float* activation_scales;
    const Bf16* weight_scales;
};

struct Outputs {
    const Bf16* values;
    Index stride;
    Index tokens, columns;
};

// What was found: how many outputs are wrong, and the first one's place in row-major order.
struct Verdict {
    unsigned long long different, first;
};

__device__ float widen(Bf16 bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

// To nearest, ties to even.
__device__ Bf16 narrow(float value) {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return kNan;
    return static_cast<Bf16>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Integers in the order of the values, -0 below +0.
__device__ int key(Bf16 bits) { return bits >> 15 ? -(bits & 0x7FFF) - 1 : bits; }

__device__ float scaled(const Sums& sums, Index token, Index row) {
    return __fmul_rn(sums.values[token * sums.stride + row], sums.activation_scales[token]);
}

__device__ void judge(Verdict* verdict, bool right, Index index) {
    if (right) return;
    atomicAdd(&verdict->different, 1ull);
    atomicMin(&verdict->first, static_cast<unsigned long long>(index));
}

extern "C" __global__ void judge_product(const Sums sums, const Outputs out, const Bf16* residual, Index residual_stride,
                                         Verdict* verdict) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < out.tokens * out.columns; i += step) {
        const Index token = i / out.columns, column = i % out.columns;
        const float x = scaled(sums, token, column), w = widen(sums.weight_scales[column]);
        const float value = residual == nullptr
                                ? __fmul_rn(x, w)
                                : __fmaf_rn(x, w, widen(residual[token * residual_stride + column]));
        judge(verdict, narrow(value) == out.values[token * out.stride + column], i);
    }
}

extern "C" __global__ void judge_swiglu(const Sums sums, const Outputs out, const float* low, const float* high,
                                        Verdict* verdict) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < out.tokens * out.columns; i += step) {
        const Index token = i / out.columns, column = i % out.columns, beside = column + out.columns;
        const Bf16 gate = narrow(__fmul_rn(scaled(sums, token, column), widen(sums.weight_scales[column])));
        const Bf16 up = narrow(__fmul_rn(scaled(sums, token, beside), widen(sums.weight_scales[beside])));
        const Bf16 ends[2] = {narrow(__fmul_rn(low[gate], widen(up))), narrow(__fmul_rn(high[gate], widen(up)))};
        const Bf16 found = out.values[token * out.stride + column];
        const bool nan = ends[0] == kNan || ends[1] == kNan;
        const int first = min(key(ends[0]), key(ends[1])), last = max(key(ends[0]), key(ends[1]));
        judge(verdict, nan ? found == kNan : first <= key(found) && key(found) <= last, i);
    }
}

// Words that differ from another buffer's, or from `fill` where there is none.
extern "C" __global__ void judge_words(const unsigned* found, const unsigned* right, unsigned fill, Index count,
                                       Verdict* verdict) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        judge(verdict, found[i] == (right == nullptr ? fill : right[i]), i);
    }
}

// Sets words to another buffer's, or to `fill` where there is none.
extern "C" __global__ void put_words(unsigned* out, const unsigned* from, unsigned fill, Index count) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        out[i] = from == nullptr ? fill : from[i];
    }
}
