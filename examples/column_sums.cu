// Sums of columns in two launches: blocks sum STRIP rows each into `partial`, then one block adds the strips up.

constexpr int STRIP = 32;
constexpr int WIDTH = 32;

extern "C" __global__ void __launch_bounds__(WIDTH * 8)
sum_strips(const float* __restrict__ x, float* partial, int rows, int columns) {
  __shared__ float sums[8][WIDTH];
  const int column = blockIdx.x * WIDTH + threadIdx.x;
  float sum = 0.0f;
  for (int row = blockIdx.y * STRIP + threadIdx.y; row < rows && row < (blockIdx.y + 1) * STRIP; row += 8) {
    sum += column < columns ? x[static_cast<long long>(row) * columns + column] : 0.0f;
  }
  sums[threadIdx.y][threadIdx.x] = sum;
#ifndef WITHOUT_BARRIER
  __syncthreads();
#endif
  if (threadIdx.y == 0 && column < columns) {
    for (int other = 1; other < 8; ++other) {
      sum += sums[other][threadIdx.x];
    }
    partial[static_cast<long long>(blockIdx.y) * columns + column] = sum;
  }
}

extern "C" __global__ void add_strips(const float* __restrict__ partial, float* y, int strips, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < columns) {
    float sum = 0.0f;
    for (int strip = 0; strip < strips; ++strip) {
      sum += partial[static_cast<long long>(strip) * columns + column];
    }
    y[column] = sum;
  }
}
