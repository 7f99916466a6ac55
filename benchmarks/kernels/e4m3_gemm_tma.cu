// C = A * B^T of e4m3 codes, a [M, K] and b [N, K], c float32 [M, N]: tensor copies, mbarriers, wgmma m64n128k32.
//
// A block of two warpgroups makes 128 x 128 outputs, a warpgroup 64 rows of them. K goes by in stages of 128 codes, two of
// which are in shared memory: thread 0 fills a slot again as soon as the block has read it. The tensor maps have boxes of
// 128 codes x 128 rows and the 128-byte swizzle. M, N and K are multiples of 128.

constexpr int kTile = 128;
constexpr int kDepth = 128;  // a row of a tile is one line of the swizzle
constexpr int kThreads = 256;
constexpr int kStages = 2;
constexpr int kStep = 32;  // the k of one wgmma
constexpr int kGroupRows = 64;
constexpr int kAccumulators = 64;

struct alignas(64) Map {
    unsigned char bytes[128];
};

struct Tile {
    unsigned char rows[kTile][kDepth];
};

struct Stage {
    Tile left, right;
};

using Barrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// PTX ISA, "Matrix Descriptor Format": fields in units of 16 bytes; eight rows are 1024 bytes; 1 is the 128-byte swizzle.
__device__ __forceinline__ unsigned long long descriptor(const void* shared) {
    const unsigned long long address = __cvta_generic_to_shared(shared);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ __forceinline__ void copy_tile(Tile& tile, const Map& map, int k, int row, Barrier& full) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(&tile)),
        "l"(&map), "r"(k), "r"(row), "r"(shared_address(&full))
        : "memory");
}

__device__ __forceinline__ void fill(Stage& stage, Barrier& full, const Map& a, const Map& b, int k) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)),
                 "r"(static_cast<unsigned>(sizeof(Stage)))
                 : "memory");
    copy_tile(stage.left, a, k, blockIdx.y * kTile, full);
    copy_tile(stage.right, b, k, blockIdx.x * kTile, full);
}

__device__ __forceinline__ void wait(Barrier& full, unsigned parity) {
    unsigned ready = 0;
    while (!ready)
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
            : "=r"(ready)
            : "r"(shared_address(&full)), "r"(parity)
            : "memory");
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
    e4m3_gemm_tma(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int columns, int depth) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) Barrier full[kStages];
    Stage* stages = reinterpret_cast<Stage*>(memory);
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int tiles = depth / kDepth;
    if (threadIdx.x == 0)
        for (int stage = 0; stage < kStages; ++stage)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[stage])) : "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        for (int tile = 0; tile < kStages && tile < tiles; ++tile)
            fill(stages[tile], full[tile], a, b, tile * kDepth);
    float sum[kAccumulators] = {};
    for (int tile = 0; tile < tiles; ++tile) {
        const int slot = tile % kStages;
        Stage& stage = stages[slot];
        wait(full[slot], tile / kStages & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < kDepth; step += kStep)
            multiply(sum, descriptor(&stage.left.rows[group * kGroupRows][step]), descriptor(&stage.right.rows[0][step]));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0 && tile + kStages < tiles) fill(stage, full[slot], a, b, (tile + kStages) * kDepth);
    }
    // Register r: row 16 * warp + lane / 4 + 8 * (r / 2 % 2), column 8 * (r / 4) + 2 * (lane % 4) + r % 2.
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + group * kGroupRows + warp * 16 + lane / 4;
    const int column = blockIdx.x * kTile + lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < kAccumulators; r += 2)
        *reinterpret_cast<float2*>(&c[(row + r / 2 % 2 * 8) * columns + column + r / 4 * 8]) =
            make_float2(sum[r], sum[r + 1]);
}
