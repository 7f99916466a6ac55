// An operand on its way into the fragments of a warp: memory, a slot of a ring in shared memory, registers.
//
// In a slot a row of the operand (of A, or a column of B) is kStageK codes of contiguous k, whatever it is in memory.
#pragma once

#include "cp_async.cuh"
#include "ldmatrix.cuh"
#include "mm_fp8_problem.cuh"
#include "shared_address.cuh"
#include "swizzled_tile.cuh"

constexpr int kSegments = kStageK / kSegment;  // of a row of a slot

// What a block needs to know of an operand: where its matrix of the batch begins, and where that ends.
struct Matrix {
    const unsigned char* codes;
    Index line_stride;
    Index rows, depth;
    bool aligned;  // whether every line begins at a multiple of 16 bytes
};

__device__ __forceinline__ Matrix matrix_of(const Source& source, Index rows, Index depth) {
    const unsigned char* codes = source.codes + blockIdx.z * source.matrix_stride;
    const bool aligned = ((reinterpret_cast<Index>(codes) | source.line_stride) % kSegment) == 0;
    return {codes, source.line_stride, rows, depth, aligned};
}

// As many of 16 bytes as there are before the end of a line, at most `left`; zeros behind them.
__device__ __forceinline__ uint4 load_bytes(const unsigned char* bytes, Index left) {
    unsigned words[4] = {};
#pragma unroll
    for (int i = 0; i < kSegment; ++i) {
        if (i < left) words[i / 4] |= static_cast<unsigned>(bytes[i]) << 8 * (i % 4);
    }
    return {words[0], words[1], words[2], words[3]};
}

template <int kRows>
struct Slot {
    unsigned char bytes[kRows * kStageK];
};

// Memory [rows][K]: a segment of a row is one copy of 16 bytes, or single bytes where it is not aligned or not whole.
template <int kRows, int kThreads>
__device__ __forceinline__ void copy_congruous(Slot<kRows>& slot, const Matrix& matrix, Index first_row, Index k) {
#pragma unroll
    for (int i = threadIdx.x; i < kRows * kSegments; i += kThreads) {
        const int row = i / kSegments, segment = i % kSegments;
        const Index left = first_row + row < matrix.rows ? matrix.depth - k - segment * kSegment : 0;
        const unsigned char* from = matrix.codes + (first_row + row) * matrix.line_stride + k + segment * kSegment;
        unsigned char* to = slot.bytes + place_of<kStageK>(row, segment);
        if (matrix.aligned && left >= kSegment) {
            cp_async_cg_16(shared_address(to), from);
        } else {
            *reinterpret_cast<uint4*>(to) = load_bytes(from, left);
        }
    }
}

// Byte i of each of four words, the first word's in the lowest byte.
__device__ __forceinline__ unsigned gather_bytes(const unsigned (&words)[4], int i) {
    const unsigned selector = i | (i + 4) << 4;
    const unsigned low = __byte_perm(words[0], words[1], selector);
    const unsigned high = __byte_perm(words[2], words[3], selector);
    return __byte_perm(low, high, 0x5410);
}

// Memory [K][rows]: four neighbouring k of 16 rows go through registers, which turn them into 16 words along k.
template <int kRows, int kThreads>
__device__ __forceinline__ void copy_crosswise(Slot<kRows>& slot, const Matrix& matrix, Index first_row, Index k) {
    constexpr int kQuads = kStageK / 4;
#pragma unroll
    for (int i = threadIdx.x; i < kRows / kSegment * kQuads; i += kThreads) {
        const int row = i / kQuads * kSegment, quad = i % kQuads;
        uint4 lines[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const Index at = k + 4 * quad + j;
            const Index left = at < matrix.depth ? matrix.rows - first_row - row : 0;
            const unsigned char* from = matrix.codes + at * matrix.line_stride + first_row + row;
            if (matrix.aligned && left >= kSegment) {
                lines[j] = *reinterpret_cast<const uint4*>(from);
            } else {
                lines[j] = load_bytes(from, left);
            }
        }
        const unsigned words[4][4] = {{lines[0].x, lines[1].x, lines[2].x, lines[3].x},
                                      {lines[0].y, lines[1].y, lines[2].y, lines[3].y},
                                      {lines[0].z, lines[1].z, lines[2].z, lines[3].z},
                                      {lines[0].w, lines[1].w, lines[2].w, lines[3].w}};
#pragma unroll
        for (int j = 0; j < kSegment; ++j) {
            unsigned char* to = slot.bytes + place_of<kStageK>(row + j, quad / 4) + quad % 4 * 4;
            *reinterpret_cast<unsigned*>(to) = gather_bytes(words[j / 4], j % 4);
        }
    }
}

template <bool kCrosswise, int kThreads, int kRows>
__device__ __forceinline__ void copy_tile(Slot<kRows>& slot, const Matrix& matrix, Index first_row, Index k) {
    if constexpr (kCrosswise) {
        copy_crosswise<kRows, kThreads>(slot, matrix, first_row, k);
    } else {
        copy_congruous<kRows, kThreads>(slot, matrix, first_row, k);
    }
}

// Rows `row` .. `row` + 15, codes `k` .. `k` + 31: rows 0-7 and 8-15 of the first 16 codes, then of the others.
template <int kRows>
__device__ __forceinline__ void load_fragments(unsigned (&fragments)[4], const Slot<kRows>& slot, int row, int k) {
    const int lane = threadIdx.x % kLanes;
    const int place = place_of<kStageK>(row + lane % 16, k / kSegment + lane / 16);
    ldmatrix_x4(fragments, shared_address(slot.bytes + place));
}
