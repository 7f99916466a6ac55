// C = A * B^T of e4m3 codes, a [M, K] and b [N, K], c float32 [M, N]: wgmma m64n128k32 on tiles with the 128-byte swizzle.
//
// A block of two warpgroups makes 128 x 128 outputs, a warpgroup 64 rows of them. K goes by in stages of 128 codes, which
// all threads copy through registers: the stores are ordinary ones, so a proxy fence stands between them and wgmma. M, N
// and K are multiples of 128.

constexpr int kTile = 128;
constexpr int kDepth = 128;  // a row of a tile is one line of the swizzle
constexpr int kThreads = 256;
constexpr int kChunk = 16;
constexpr int kChunks = kDepth / kChunk;
constexpr int kStep = 32;  // the k of one wgmma
constexpr int kGroupRows = 64;
constexpr int kAccumulators = 64;

struct Tile {
    unsigned char rows[kTile][kDepth];
};

// PTX ISA, "Matrix Descriptor Format": fields in units of 16 bytes; eight rows are 1024 bytes; 1 is the 128-byte swizzle.
__device__ __forceinline__ unsigned long long descriptor(const void* shared) {
    const unsigned long long address = __cvta_generic_to_shared(shared);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ __forceinline__ void copy_tile(Tile& tile, const unsigned char* source, int depth) {
#pragma unroll
    for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
        const int row = i * (kThreads / kChunks) + threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
        *reinterpret_cast<uint4*>(&tile.rows[row][(chunk ^ row % kChunks) * kChunk]) =
            *reinterpret_cast<const uint4*>(source + static_cast<size_t>(row) * depth + chunk * kChunk);
    }
}

__device__ __forceinline__ void multiply(float (&d)[kAccumulators], unsigned long long a, unsigned long long b) {
    asm volatile(
        "{ .reg .pred one; setp.eq.u32 one, 0, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, one, 1, 1; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(kThreads)
    e4m3_gemm_wgmma(const unsigned char* a, const unsigned char* b, float* c, int columns, int depth) {
    __shared__ __align__(1024) Tile left, right;
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    a += static_cast<size_t>(blockIdx.y) * kTile * depth;
    b += static_cast<size_t>(blockIdx.x) * kTile * depth;
    float sum[kAccumulators] = {};
    for (int k = 0; k < depth; k += kDepth) {
        copy_tile(left, a + k, depth);
        copy_tile(right, b + k, depth);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < kDepth; step += kStep)
            multiply(sum, descriptor(&left.rows[group * kGroupRows][step]), descriptor(&right.rows[0][step]));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    // Register r: row 16 * warp + lane / 4 + 8 * (r / 2 % 2), column 8 * (r / 4) + 2 * (lane % 4) + r % 2.
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + group * kGroupRows + warp * 16 + lane / 4;
    const int column = blockIdx.x * kTile + lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < kAccumulators; r += 2)
        *reinterpret_cast<float2*>(&c[(row + r / 2 % 2 * 8) * columns + column + r / 4 * 8]) =
            make_float2(sum[r], sum[r + 1]);
}
