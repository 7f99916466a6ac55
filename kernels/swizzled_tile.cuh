// Tiles in shared memory whose rows are whole segments of 16 bytes, put in another order from row to row.
//
// Eight neighbouring rows of one column of segments then lie in different banks: for ldmatrix, and for fragments that are
// written row by row.
#pragma once

constexpr int kSegment = 16;  // bytes

// Byte offset of a segment in a tile of kRowBytes a row. Rows of less than 128 bytes share a line of the banks.
template <int kRowBytes>
__device__ __forceinline__ int place_of(int row, int segment) {
    constexpr int kSegments = kRowBytes / kSegment;
    constexpr int kRowsOfLine = kSegments < 8 ? 8 / kSegments : 1;
    return row * kRowBytes + (segment ^ row / kRowsOfLine % (kSegments < 8 ? kSegments : 8)) * kSegment;
}
