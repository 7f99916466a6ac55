// PTX `mma`: D = A * B + C on the fragments of a warp.
#pragma once

// A is 16 x 32 and B 32 x 8 e4m3 codes, C 16 x 8 float32. Lane l holds, four codes a register from the lowest byte on:
//     a[j]  row l / 4 + 8 * (j % 2),  k from 4 * (l % 4) + 16 * (j / 2)
//     bj    column l / 4,             k from 4 * (l % 4) + 16 * j
//     c[j]  row l / 4 + 8 * (j / 2),  column 2 * (l % 4) + j % 2
// NOTE: what is added how is the unit's own and differs by architecture; oracle/matrix_unit.py says it.
__device__ __forceinline__ void mma_m16n8k32_f32_e4m3(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same of e5m2 codes.
__device__ __forceinline__ void mma_m16n8k32_f32_e5m2(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same of signed bytes, to int32 sums that wrap: exact, whatever the order.
__device__ __forceinline__ void mma_m16n8k32_s32_s8(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
