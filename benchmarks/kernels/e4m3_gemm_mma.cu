// C = A * B^T of e4m3 codes, a [M, K] and b [N, K], c float32 [M, N]: cp.async in two stages, ldmatrix, mma m16n8k32.
//
// A block of four warps makes 64 x 64 outputs, a warp 32 x 32 of them. K goes by in stages of kDepth codes, of which the
// next one is on its way while one is multiplied. M and N are multiples of 64, K of kDepth.
//
// A tile's row is kDepth bytes, in chunks of 16. Chunk j of row r lies in place j ^ (r / kRowsPerLine % kChunks), so that
// the eight rows of a matrix that ldmatrix loads lie in different banks.

constexpr int kTile = 64;
constexpr int kDepth = 128;
constexpr int kStages = 2;
constexpr int kThreads = 128;
constexpr int kChunk = 16;
constexpr int kChunks = kDepth / kChunk;
constexpr int kLine = 128;  // bytes of all banks
constexpr int kRowsPerLine = kLine / kDepth;
constexpr int kStep = 32;  // the k of one mma
constexpr int kWarpTile = 32;

struct Stage {
    unsigned char a[kTile][kDepth];
    unsigned char b[kTile][kDepth];
};

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ int place(int row, int chunk) { return (chunk ^ (row / kRowsPerLine % kChunks)) * kChunk; }

__device__ __forceinline__ void copy_chunk(const void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}

__device__ __forceinline__ void copy_tile(unsigned char (&tile)[kTile][kDepth], const unsigned char* source, int depth) {
#pragma unroll
    for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
        const int row = i * (kThreads / kChunks) + threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
        copy_chunk(&tile[row][place(row, chunk)], source + static_cast<size_t>(row) * depth + chunk * kChunk);
    }
}

// Four 8 x 16-byte matrices: rows `row` .. `row` + 15, bytes `byte` .. `byte` + 31.
__device__ __forceinline__ void load_matrices(unsigned (&registers)[4], const unsigned char (&tile)[kTile][kDepth], int row,
                                              int byte) {
    const int lane = threadIdx.x % 32;
    row += lane % 16;
    const unsigned address = shared_address(&tile[row][place(row, byte / kChunk + lane / 16)]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(kThreads)
    e4m3_gemm_mma(const unsigned char* a, const unsigned char* b, float* c, int columns, int depth) {
    __shared__ __align__(128) Stage stages[kStages];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / 2 * kWarpTile, warp_column = warp % 2 * kWarpTile;
    a += static_cast<size_t>(blockIdx.y) * kTile * depth;
    b += static_cast<size_t>(blockIdx.x) * kTile * depth;
    float sum[2][4][4] = {};
    copy_tile(stages[0].a, a, depth);
    copy_tile(stages[0].b, b, depth);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int k = 0; k < depth; k += kDepth) {
        const Stage& stage = stages[k / kDepth % kStages];
        if (k + kDepth < depth) {
            Stage& next = stages[(k / kDepth + 1) % kStages];
            copy_tile(next.a, a + k + kDepth, depth);
            copy_tile(next.b, b + k + kDepth, depth);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int step = 0; step < kDepth; step += kStep) {
            unsigned x[2][4], y[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrices(x[i], stage.a, warp_row + 16 * i, step);
                load_matrices(y[i], stage.b, warp_column + 16 * i, step);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply(sum[i][j], x[i], y[j / 2][j % 2], y[j / 2][j % 2 + 2]);
        }
        __syncthreads();
    }
    const int group = lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const size_t row = static_cast<size_t>(blockIdx.y) * kTile + warp_row + 16 * i + group + 8 * half;
                const int column = blockIdx.x * kTile + warp_column + 8 * j + pair;
                *reinterpret_cast<float2*>(&c[row * columns + column]) =
                    make_float2(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
            }
}
