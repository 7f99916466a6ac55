// c = a * b of float32, all [n, n], n a multiple of kTile: the tiled product of benchmarks/numba_matmul.py in CUDA C++.

constexpr int kTile = 16;

extern "C" __global__ void __launch_bounds__(kTile* kTile) matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float left[kTile][kTile], right[kTile][kTile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
    float total = 0.0f;
    for (int start = 0; start < n; start += kTile) {
        left[y][x] = a[row * n + start + x];
        right[y][x] = b[(start + y) * n + column];
        __syncthreads();
        for (int k = 0; k < kTile; ++k) total += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * n + column] = total;
}
