// Where a pointer into shared memory points, as PTX addresses shared memory.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
