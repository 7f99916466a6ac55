// PTX `cp.async.bulk.tensor`: boxes of a tensor in global memory, copied to shared memory by one thread's order.
#pragma once

// What cuTensorMapEncodeTiled makes; a kernel takes it by value, as a __grid_constant__.
struct alignas(64) TensorMap {
    unsigned char bytes[128];
};

// The box whose first element is in column x of row y. What lies outside the tensor arrives as zeros, and counts among
// the box's bytes, which `barrier` is told of as they land. NOTE: `shared` is a multiple of 128.
__device__ __forceinline__ void cp_async_bulk_tensor_2d(unsigned shared, const TensorMap* map, int x, int y,
                                                        unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}
