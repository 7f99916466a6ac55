#pragma once

// The rectifier that keeps NaN.
__device__ __forceinline__ float rectified(float value) { return value < 0.0f ? 0.0f : value; }
