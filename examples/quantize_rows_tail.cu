// Wrong on purpose: the last, incomplete step of a row is left out of its maximum.
// One block a row: float32 to e4m3 codes and one scale a row. The absolute maximum is found by warp, then by block.
#include <cuda_fp8.h>

constexpr int THREADS = 256;
constexpr float LARGEST = 448.0f;

extern "C" __global__ void __launch_bounds__(THREADS)
quantize_rows_tail(const float* __restrict__ x, __nv_fp8_storage_t* codes, float* scales, int columns) {
  __shared__ float maxima[THREADS / 32];
  const float* row = x + static_cast<long long>(blockIdx.x) * columns;
  float largest = 0.0f;
  for (int k = threadIdx.x; k < columns / THREADS * THREADS; k += THREADS) {
    largest = fmaxf(largest, fabsf(row[k]));
  }
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  }
  if (threadIdx.x % 32 == 0) {
    maxima[threadIdx.x / 32] = largest;
  }
  __syncthreads();
  for (int warp = 0; warp < THREADS / 32; ++warp) {
    largest = fmaxf(largest, maxima[warp]);
  }
  const float scale = __fdiv_rn(largest, LARGEST);
  const float inverse = scale > 0.0f ? __frcp_rn(scale) : 0.0f;
  if (threadIdx.x == 0) {
    scales[blockIdx.x] = scale;
  }
  __nv_fp8_storage_t* out = codes + static_cast<long long>(blockIdx.x) * columns;
  for (int k = threadIdx.x; k < columns; k += THREADS) {
    out[k] = __nv_cvt_float_to_fp8(row[k] * inverse, __NV_SATFINITE, __NV_E4M3);
  }
}
