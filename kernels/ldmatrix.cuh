// PTX `ldmatrix`: 8 x 8 matrices of 16-bit elements from shared memory to the fragments of a warp.
#pragma once

// Four matrices; lane l gives the address of row l % 8 of matrix l / 8, which is 16 bytes at a multiple of 16.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&matrices)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
}
