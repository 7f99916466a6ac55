// Bytes turned from rows to columns in registers.
#pragma once

// Byte i of each of four words, the first word's in the lowest byte.
__device__ __forceinline__ unsigned bytes_of(unsigned first, unsigned second, unsigned third, unsigned fourth, int i) {
    const unsigned selector = i | (i + 4) << 4;
    return __byte_perm(__byte_perm(first, second, selector), __byte_perm(third, fourth, selector), 0x5410);
}

// A square of 16 x 16 bytes, a row in four words from the lowest byte on; its own inverse.
struct Square {
    unsigned words[16][4];

    __device__ __forceinline__ Square transposed() const {
        Square turned;
#pragma unroll
        for (int column = 0; column < 16; ++column) {
#pragma unroll
            for (int quad = 0; quad < 4; ++quad) {
                const int from = column / 4;
                turned.words[column][quad] = bytes_of(words[4 * quad][from], words[4 * quad + 1][from],
                                                      words[4 * quad + 2][from], words[4 * quad + 3][from], column % 4);
            }
        }
        return turned;
    }
};
