// e4m3_gemm: A * B^T of e4m3 codes, a [M, K] and b [N, K], in integers and without a matrix unit.
//
//     exact             out int64 [M, N]: the exact sum in units of 2^-18; the smallest int64 where a NaN takes part
//     wgmma_sm90        out float32 [M, N]: wgmma on sm_90, k = 32, chained in the order of k
//     mma_sm90          out float32 [M, N]: mma m16n8k32 on sm_90 as ptxas 12.8 to 13.0 expand it, chained likewise
//     mma_sm90_early    out float32 [M, N]: the same as ptxas 12.4 and 12.6 expand it
//
// The accumulator starts at +0 and a ragged K is filled with zeros. A block computes kTile * kTile outputs, a thread
// one of them; K goes by in steps of kDepth elements, whose codes are decoded once into shared memory. Strides count
// elements.
//
// The definitions are oracle/products/exact_product.py and oracle/gemm.py; the unit's rules stand in oracle/units/fused_sum.py.

using Index = long long;

constexpr int kTile = 16;
constexpr int kDepth = 32;  // the k of both instructions
constexpr int kThreads = kTile * kTile;
constexpr int kUnroll = 4;  // PTX short enough to read, and quick to simulate

constexpr unsigned kSignBit = 0x80;
constexpr unsigned kNanMagnitude = 0x7F;
constexpr int kMantissaBits = 3;
constexpr int kBias = 7;
constexpr int kLeastExponent = 1 - kBias;
constexpr int kProductBits = 2 * kMantissaBits;  // fraction bits of a product's significand

constexpr int kFloatMantissaBits = 23;
constexpr int kFloatBias = 127;
constexpr int kFloatNan = 0x7FFFFFFF;
constexpr int kIntBits = 32;

constexpr long long kNotANumber = -0x7FFFFFFFFFFFFFFF - 1;

// A decoded code in one word: the signed significand above the low byte, in it the exponent plus kExponentOffset, and
// kNan. A finite value is significand * 2^(exponent - kMantissaBits).
constexpr int kSignificandShift = 8;
constexpr int kExponentOffset = 16;
constexpr int kNan = 0x80;

__device__ __forceinline__ int significand_of(int word) { return word >> kSignificandShift; }
__device__ __forceinline__ int exponent_of(int word) { return (word & (kNan - 1)) - kExponentOffset; }

// NOTE: a unit that reads e4m3 keeps a subnormal as it stands, 0.xxx * 2^-6; one that is given f16 sees it normalised.
template <bool kNormalised>
__device__ __forceinline__ int decode(unsigned code) {
    const unsigned magnitude = code & (kSignBit - 1);
    if (magnitude == kNanMagnitude) return kNan;
    const int field = static_cast<int>(magnitude >> kMantissaBits);
    int significand = static_cast<int>(magnitude & ((1u << kMantissaBits) - 1));
    int exponent = kLeastExponent;
    if (field > 0) {
        significand |= 1 << kMantissaBits;
        exponent = field - kBias;
    } else if (kNormalised && significand > 0) {
        const int places = __clz(significand) - (kIntBits - 1 - kMantissaBits);
        significand <<= places;
        exponent -= places;
    }
    const int value = code & kSignBit ? -significand : significand;
    return value * (1 << kSignificandShift) + exponent + kExponentOffset;
}

// The value in units of 2^-9.
__device__ __forceinline__ int integer_of(int word) {
    return significand_of(word) * (1 << (exponent_of(word) - kLeastExponent));
}

// A unit's accumulator: significand * 2^(exponent - kKeptBits), the magnitude of the significand in [1, 2) or zero.
// NOTE: an exponent is that of a multiple of 2^-18 below K * 2^18, so float32 never overflows and is never subnormal.
struct Accumulator {
    int significand;
    int exponent;
};

// Fraction bits that a term keeps below the largest exponent, and that a result keeps.
struct Wgmma {
    static constexpr int kFractionBits = 13;
    static constexpr int kKeptBits = 13;
};

struct HalfMma {
    static constexpr int kFractionBits = 25;
    static constexpr int kKeptBits = 23;
};

// The elements of a step that are added at once.
struct All {
    static constexpr int kCount = kDepth;
    static __device__ int element(int i) { return i; }
};

// Registers hold four codes: their low halves are the elements with k mod 4 in {0, 1}, the high halves the others.
template <int kWhich>
struct Half {
    static constexpr int kCount = kDepth / 2;
    static __device__ int element(int i) { return i / 2 * 4 + i % 2 + 2 * kWhich; }
};

// significand * 2^places, cut toward zero: by magnitude, then the sign.
__device__ __forceinline__ int cut(int significand, int places) {
    const unsigned magnitude = static_cast<unsigned>(abs(significand));
    const unsigned moved = places >= 0 ? magnitude << places : magnitude >> min(-places, kIntBits - 1);
    return significand < 0 ? -static_cast<int>(moved) : static_cast<int>(moved);
}

// total * 2^step, cut to the bits that the unit keeps.
template <class Unit>
__device__ __forceinline__ Accumulator convert(int total, int step) {
    if (total == 0) return {0, 0};
    const int top = kIntBits - 1 - __clz(abs(total));
    return {cut(total, Unit::kKeptBits - top), step + top};
}

// One fused group: products and accumulator aligned to the largest exponent, cut, added, converted.
// NOTE: int holds the sum. HalfMma's is the larger: 16 * 225 * 2^(25 - 6) + 2^(24 + 2) = 1,954,545,664 < 2^31.
template <class Unit, class Elements>
__device__ __forceinline__ Accumulator add_group(const int* a, const int* b, Accumulator c) {
    constexpr int kNone = -1000;  // below every exponent
    int largest = c.significand != 0 ? c.exponent : kNone;
#pragma unroll kUnroll
    for (int i = 0; i < Elements::kCount; ++i) {
        const int x = a[Elements::element(i)], y = b[Elements::element(i)];
        if (significand_of(x) * significand_of(y) != 0) largest = max(largest, exponent_of(x) + exponent_of(y));
    }
    if (largest == kNone) return {0, 0};
    int total = cut(c.significand, Unit::kFractionBits - Unit::kKeptBits + c.exponent - largest);
#pragma unroll kUnroll
    for (int i = 0; i < Elements::kCount; ++i) {
        const int x = a[Elements::element(i)], y = b[Elements::element(i)];
        const int exponent = exponent_of(x) + exponent_of(y);
        total += cut(significand_of(x) * significand_of(y), Unit::kFractionBits - kProductBits + exponent - largest);
    }
    return convert<Unit>(total, largest - Unit::kFractionBits);
}

template <class Unit>
__device__ __forceinline__ float float_of(Accumulator value) {
    if (value.significand == 0) return 0.0f;
    const int fraction = abs(value.significand) - (1 << Unit::kKeptBits);
    const int magnitude = ((value.exponent + kFloatBias) << kFloatMantissaBits) +
                          (fraction << (kFloatMantissaBits - Unit::kKeptBits));
    return __int_as_float(value.significand < 0 ? magnitude | 1 << (kIntBits - 1) : magnitude);
}

// The four arithmetics: `step` takes kDepth decoded elements of a row of A and of a row of B.
struct Exact {
    using Result = long long;
    static constexpr bool kNormalised = false;
    long long total = 0;
    __device__ void step(const int* a, const int* b) {
#pragma unroll kUnroll
        for (int k = 0; k < kDepth; ++k) total += static_cast<long long>(integer_of(a[k])) * integer_of(b[k]);
    }
    __device__ long long result(bool is_nan) const { return is_nan ? kNotANumber : total; }
};

struct WgmmaSm90 {
    using Result = float;
    static constexpr bool kNormalised = false;
    Accumulator total = {0, 0};
    __device__ void step(const int* a, const int* b) { total = add_group<Wgmma, All>(a, b, total); }
    __device__ float result(bool is_nan) const { return is_nan ? __int_as_float(kFloatNan) : float_of<Wgmma>(total); }
};

// NOTE: the additions that ptxas writes beside the f16 unit are ordinary ones, to nearest even.
template <bool kChained>
struct MmaSm90 {
    using Result = float;
    static constexpr bool kNormalised = true;
    float total = 0.0f;
    __device__ void step(const int* a, const int* b) {
        const Accumulator low = add_group<HalfMma, Half<0>>(a, b, {0, 0});
        const Accumulator high = add_group<HalfMma, Half<1>>(a, b, kChained ? low : Accumulator{0, 0});
        const float product = float_of<HalfMma>(high);
        total = __fadd_rn(total, kChained ? product : __fadd_rn(float_of<HalfMma>(low), product));
    }
    __device__ float result(bool is_nan) const { return is_nan ? __int_as_float(kFloatNan) : total; }
};

// Decodes kTile rows from `first_row` and kDepth elements from `first` on; zeros beyond the matrix.
template <bool kNormalised>
__device__ __forceinline__ void load_tile(int (&tile)[kTile][kDepth + 1], const unsigned char* codes, Index stride,
                                          Index first_row, Index rows, Index first, Index depth) {
    for (int i = threadIdx.y * kTile + threadIdx.x; i < kTile * kDepth; i += kThreads) {
        const int row = i / kDepth, k = i % kDepth;
        const bool inside = first_row + row < rows && first + k < depth;
        tile[row][k] = decode<kNormalised>(inside ? codes[(first_row + row) * stride + first + k] : 0);
    }
}

template <class Arithmetic>
__device__ __forceinline__ void gemm(const unsigned char* a, Index a_stride, const unsigned char* b, Index b_stride,
                                     typename Arithmetic::Result* out, Index out_stride, Index rows, Index columns,
                                     Index depth) {
    // NOTE: one word more a row, so that the 16 rows of B that a half-warp reads lie in different banks.
    __shared__ int a_tile[kTile][kDepth + 1];
    __shared__ int b_tile[kTile][kDepth + 1];
    const Index first_row = static_cast<Index>(blockIdx.y) * kTile, first_column = static_cast<Index>(blockIdx.x) * kTile;
    Arithmetic arithmetic;
    int seen = 0;
    for (Index k = 0; k < depth; k += kDepth) {
        load_tile<Arithmetic::kNormalised>(a_tile, a, a_stride, first_row, rows, k, depth);
        load_tile<Arithmetic::kNormalised>(b_tile, b, b_stride, first_column, columns, k, depth);
        __syncthreads();
        const int* a_row = a_tile[threadIdx.y];
        const int* b_row = b_tile[threadIdx.x];
#pragma unroll kUnroll
        for (int i = 0; i < kDepth; ++i) seen |= a_row[i] | b_row[i];
        arithmetic.step(a_row, b_row);
        __syncthreads();
    }
    const Index row = first_row + threadIdx.y, column = first_column + threadIdx.x;
    if (row < rows && column < columns) out[row * out_stride + column] = arithmetic.result(seen & kNan);
}

#define E4M3_GEMM(NAME, ARITHMETIC)                                                                                  \
    extern "C" __global__ void __launch_bounds__(kThreads)                                                           \
        e4m3_gemm_##NAME(const unsigned char* a, Index a_stride, const unsigned char* b, Index b_stride,             \
                         ARITHMETIC::Result* out, Index out_stride, Index rows, Index columns, Index depth) {        \
        gemm<ARITHMETIC>(a, a_stride, b, b_stride, out, out_stride, rows, columns, depth);                           \
    }

E4M3_GEMM(exact, Exact)
E4M3_GEMM(wgmma_sm90, WgmmaSm90)
E4M3_GEMM(mma_sm90, MmaSm90<true>)
E4M3_GEMM(mma_sm90_early, MmaSm90<false>)
