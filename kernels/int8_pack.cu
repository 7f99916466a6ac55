// int8_pack and int8_unpack: a weight W[K][N] of int8 into a packed order and back. INT8_LAYOUT names the order.
//
// The vector entries move patches of 16 k by 16 n, one a thread: 16 loads and 16 stores of 16 bytes each, and between
// them, where the order runs along k, a transposition in registers. They need N a multiple of 16, K too unless the order
// runs along n, and both addresses multiples of 16. The scalar entries take every shape of the order, one byte a thread.

#include "byte_transpose.cuh"
#include "int8_layout.cuh"

using Layout = INT8_LAYOUT;

constexpr unsigned kEdge = 16;       // of a patch
constexpr int kPatchThreads = 64;    // NOTE: a patch lives twice in registers, 128 of them
constexpr int kScalarThreads = 256;

struct Patch {
    unsigned k, n;   // where it begins
    unsigned depth;  // of its 16 k, how many there are

    // NOTE: where vectors hold n and n + 16, a patch has 8 columns from n on and 8 from n + 16 on.
    __device__ __forceinline__ unsigned column(unsigned i) const {
        return Layout::kPartner == 16 ? n + i % 8 + i / 8 * 16 : n + i;
    }
};

__device__ __forceinline__ Patch patch_of(Extents of, size_t number) {
    const unsigned across = of.n / kEdge;
    const unsigned k = number / across * kEdge, at = number % across;
    const unsigned n = Layout::kPartner == 16 ? at / 2 * 32 + at % 2 * 8 : at * kEdge;
    return {k, n, of.k - k < kEdge ? of.k - k : kEdge};
}

// W, 16 bytes a row, or twice 8 where the columns lie apart.
template <class Move>
__device__ __forceinline__ void walk_rows(const Patch& patch, Extents of, Move move) {
#pragma unroll
    for (unsigned row = 0; row < kEdge; ++row) {
        if (row < patch.depth) move(row, static_cast<size_t>(patch.k + row) * of.n);
    }
}

__device__ __forceinline__ Square load_rows(const unsigned char* raw, const Patch& patch, Extents of) {
    Square square = {};
    walk_rows(patch, of, [&](unsigned row, size_t line) {
        const uint2 first = *reinterpret_cast<const uint2*>(raw + line + patch.column(0));
        const uint2 second = *reinterpret_cast<const uint2*>(raw + line + patch.column(8));
        square.words[row][0] = first.x, square.words[row][1] = first.y;
        square.words[row][2] = second.x, square.words[row][3] = second.y;
    });
    return square;
}

__device__ __forceinline__ void store_rows(unsigned char* raw, const Patch& patch, Extents of, const Square& square) {
    walk_rows(patch, of, [&](unsigned row, size_t line) {
        *reinterpret_cast<uint2*>(raw + line + patch.column(0)) = {square.words[row][0], square.words[row][1]};
        *reinterpret_cast<uint2*>(raw + line + patch.column(8)) = {square.words[row][2], square.words[row][3]};
    });
}

// The packed buffer, 16 bytes each: `move` is told where they lie, and which words of the transposed square they hold.
template <class Move>
__device__ __forceinline__ void walk_runs(const Patch& patch, Extents of, Move move) {
#pragma unroll
    for (unsigned i = 0; i < kEdge; ++i) {
        if constexpr (Layout::kRun == Run::kAlongK) {
            move(Layout::offset(of, patch.k, patch.column(i)), i, 0, i, 2);
        } else {
            constexpr bool kNeighbours = Layout::kPartner == 1;
            const unsigned pair = i / 2, half = i % 2;
            const unsigned first = kNeighbours ? 2 * pair : pair, second = kNeighbours ? first + 1 : first + 8;
            move(Layout::offset(of, patch.k + 8 * half, patch.column(first)), first, 2 * half, second, 2 * half);
        }
    }
}

__device__ __forceinline__ void store_runs(unsigned char* packed, const Patch& patch, Extents of, const Square& turned) {
    walk_runs(patch, of, [&](size_t at, unsigned first, unsigned word, unsigned second, unsigned other) {
        *reinterpret_cast<uint4*>(packed + at) = {turned.words[first][word], turned.words[first][word + 1],
                                                  turned.words[second][other], turned.words[second][other + 1]};
    });
}

__device__ __forceinline__ Square load_runs(const unsigned char* packed, const Patch& patch, Extents of) {
    Square turned;
    walk_runs(patch, of, [&](size_t at, unsigned first, unsigned word, unsigned second, unsigned other) {
        const uint4 run = *reinterpret_cast<const uint4*>(packed + at);
        turned.words[first][word] = run.x, turned.words[first][word + 1] = run.y;
        turned.words[second][other] = run.z, turned.words[second][other + 1] = run.w;
    });
    return turned;
}

// Where the order runs along n, a row of the patch is 16 bytes on both sides.
template <bool kPack>
__device__ __forceinline__ void move_lines(const unsigned char* from, unsigned char* to, const Patch& patch, Extents of) {
    walk_rows(patch, of, [&](unsigned row, size_t line) {
        const size_t raw = line + patch.n, packed = Layout::offset(of, patch.k + row, patch.n);
        *reinterpret_cast<uint4*>(to + (kPack ? packed : raw)) =
            *reinterpret_cast<const uint4*>(from + (kPack ? raw : packed));
    });
}

template <bool kPack>
__device__ __forceinline__ void move_patch(const unsigned char* from, unsigned char* to, Extents of) {
    const size_t number = static_cast<size_t>(blockIdx.x) * kPatchThreads + threadIdx.x;
    if (number >= static_cast<size_t>(of.k + kEdge - 1) / kEdge * (of.n / kEdge)) return;
    const Patch patch = patch_of(of, number);
    if constexpr (Layout::kRun == Run::kAlongN) {
        move_lines<kPack>(from, to, patch, of);
    } else if constexpr (kPack) {
        store_runs(to, patch, of, load_rows(from, patch, of).transposed());
    } else {
        store_rows(to, patch, of, load_runs(from, patch, of).transposed());
    }
}

// One byte a thread, in the order of W.
template <bool kPack>
__device__ __forceinline__ void move_byte(const unsigned char* from, unsigned char* to, Extents of) {
    const size_t raw = static_cast<size_t>(blockIdx.x) * kScalarThreads + threadIdx.x;
    if (raw >= static_cast<size_t>(of.k) * of.n) return;
    const size_t packed = Layout::offset(of, raw / of.n, raw % of.n);
    to[kPack ? packed : raw] = from[kPack ? raw : packed];
}

extern "C" __global__ void __launch_bounds__(kPatchThreads)
    int8_pack_vector(const unsigned char* raw, unsigned char* packed, unsigned k, unsigned n) {
    move_patch<true>(raw, packed, {k, n});
}

extern "C" __global__ void __launch_bounds__(kPatchThreads)
    int8_unpack_vector(const unsigned char* packed, unsigned char* raw, unsigned k, unsigned n) {
    move_patch<false>(packed, raw, {k, n});
}

extern "C" __global__ void __launch_bounds__(kScalarThreads)
    int8_pack_scalar(const unsigned char* raw, unsigned char* packed, unsigned k, unsigned n) {
    move_byte<true>(raw, packed, {k, n});
}

extern "C" __global__ void __launch_bounds__(kScalarThreads)
    int8_unpack_scalar(const unsigned char* packed, unsigned char* raw, unsigned k, unsigned n) {
    move_byte<false>(packed, raw, {k, n});
}
