// Packed orders of an int8 weight W[K][N]: where W[k][n] lies, in bytes from the beginning.
//
// Each struct is one published index relation, written as it was published; oracle/layouts.py has them as digits, with
// their sources. What 16 neighbouring bytes hold decides how a kernel reads them:
//
//     kAlongK      16 neighbouring k of one n
//     kTwoOfK      8 neighbouring k of two n, which are kPartner apart
//     kAlongN      16 neighbouring n of one k
#pragma once

enum class Run { kAlongK, kTwoOfK, kAlongN };

// What a run asks of those who read it.
struct AlongN {
    static constexpr Run kRun = Run::kAlongN;
    static constexpr unsigned kPartner = 1;
};

template <bool kNextIsColumn>
struct AlongK {
    static constexpr Run kRun = Run::kAlongK;
    static constexpr unsigned kPartner = 1;
    static constexpr bool kColumnsFirst = kNextIsColumn;  // whether the next 16 bytes hold the next n, not the next k
};

template <unsigned kDistance>
struct TwoOfK {
    static constexpr Run kRun = Run::kTwoOfK;
    static constexpr unsigned kPartner = kDistance;
};

// K and N.
struct Extents {
    unsigned k, n;
};

struct Contiguous : AlongN {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        return static_cast<size_t>(k) * of.n + n;
    }
};

struct NMajor : AlongK<false> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        return static_cast<size_t>(n) * of.k + k;
    }
};

struct Panel64 : AlongN {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        return static_cast<size_t>(n >> 6) * (of.k * size_t{64}) + k * size_t{64} + (n & 63);
    }
};

struct Panel64K16 : AlongK<true> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        return static_cast<size_t>(n >> 6) * (of.k * size_t{64}) + (k >> 4) * size_t{1024} + (n & 63) * 16 + (k & 15);
    }
};

struct Stage64N128K8 : TwoOfK<1> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        const size_t tile = static_cast<size_t>(k / 64) * (of.n / 128) + n / 128;
        return ((tile * 8 + k % 64 / 8) * 128 + n % 128) * 8 + k % 8;
    }
};

struct Stage64K8 : TwoOfK<1> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        return ((k / 64 * size_t{8} + k % 64 / 8) * of.n + n) * 8 + k % 8;
    }
};

struct Tile128x64 : AlongK<false> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        return (static_cast<size_t>(n / 128) * (of.k / 64) + k / 64) * 8192 + n % 128 * 64 + k % 64;
    }
};

struct Fragment : TwoOfK<1> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        const unsigned lane = (k & 31) / 8 * 16 + (n & 15);
        return (static_cast<size_t>(n / 16) * (of.k / 32) + k / 32) * 512 + lane * 8 + (k & 7);
    }
};

struct FragmentPairs : TwoOfK<16> {
    static __device__ __forceinline__ size_t offset(Extents of, unsigned k, unsigned n) {
        const unsigned lane = (k & 31) / 8 * 16 + (n & 15), step = k / 32;
        const size_t pair = n / 16 / 2, group = step / 8;
        return group * (of.n / 32) * 8192 + pair * 8192 + step % 8 * 1024 + lane * 16 + n / 16 % 2 * 8 + (k & 7);
    }
};

// The first of the two n that vector number `pair` of a row of them holds.
template <class Layout>
__device__ __forceinline__ unsigned first_of_pair(unsigned pair) {
    return Layout::kPartner == 1 ? 2 * pair : pair / 16 * 32 + pair % 16;
}
