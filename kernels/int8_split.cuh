// A product whose K is split: which stages a part has, and how the last block to arrive learns of all the others.
#pragma once

#include "int8_mainloop.cuh"

// Part `part` of `parts`: boundaries at whole stages, as even as these allow.
__device__ __forceinline__ Stages stages_of(int part, int parts, int stages) {
    return {part * stages / parts, (part + 1) * stages / parts};
}

// Whether this block is the last of `parts` to arrive in this launch; by one thread, behind a barrier of the block.
//
// NOTE: arrivals are counted over all launches and never set back, so nothing is cleared between launches; 64 bits,
// because 2^32 is no multiple of every number of parts and a counter that wrapped would choose a wrong block. The fence
// before releases what the block has stored, the fence behind acquires what earlier arrivals released.
__device__ __forceinline__ bool arrives_last(unsigned long long* arrivals, int parts) {
    __threadfence();
    const unsigned long long arrived = atomicAdd(arrivals, 1ull);
    __threadfence();
    return arrived % parts == parts - 1;
}

// The sum of one pair over all planes, ascending.
__device__ __forceinline__ int2 sum_of_planes(const Problem& problem, size_t at) {
    const size_t plane = problem.at(problem.rows, 0);
    int2 sum = {};
    for (int part = 0; part < problem.splits; ++part) {
        const int2 one = *reinterpret_cast<const int2*>(problem.planes + part * plane + at);
        sum.x += one.x, sum.y += one.y;
    }
    return sum;
}
