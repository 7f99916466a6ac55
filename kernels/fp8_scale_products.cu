// fp8_scale_products: scalars that later launches take, made by one thread: out = first * second, to nearest even, or a
// copy of first where there is no second.
//
// A copy is what a scale ring asks for: its current pair is written again two folds later.

constexpr int kMost = 3;

// What a launch is given; a null output is a place that is not used.
struct Scalars {
    const float* first[kMost];
    const float* second[kMost];
    float* out[kMost];
};

extern "C" __global__ void __launch_bounds__(1) fp8_scale_products(const Scalars scalars) {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
        if (scalars.out[i] == nullptr) continue;
        const float first = *scalars.first[i];
        *scalars.out[i] = scalars.second[i] == nullptr ? first : __fmul_rn(first, *scalars.second[i]);
    }
}
