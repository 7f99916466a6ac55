// The sums of a tile over stages of K.
//
// While a stage is multiplied, the next one is on its way to registers. With one slot it is published behind a second
// barrier; with two it goes into the other slot, and one barrier a stage is enough.
#pragma once

#include "int8_operand.cuh"
#include "mma.cuh"

constexpr int kStepK = 32;  // of one mma

template <class Tile>
struct Sums {
    int of[Tile::kMs][Tile::kNs][4];
};

// Where the part of a warp begins in the tile; `thread` counts among the threads that make the tile.
template <class Tile>
struct WarpPlace {
    int row, column;
    __device__ __forceinline__ explicit WarpPlace(int thread)
        : row(thread / kLanes / Tile::kWarpsAcross * Tile::kWarpRows),
          column(thread / kLanes % Tile::kWarpsAcross * Tile::kWarpColumns) {}
};

template <class Tile>
__device__ __forceinline__ void multiply(Sums<Tile>& sums, const Slot<Tile>& slot, WarpPlace<Tile> place) {
#pragma unroll
    for (int k = 0; k < Tile::kDepth; k += kStepK) {
        unsigned a[Tile::kMs][4], b[Tile::kNs / 2][4];
#pragma unroll
        for (int m = 0; m < Tile::kMs; ++m) load_fragments(a[m], slot.x, place.row + 16 * m, k);
#pragma unroll
        for (int n = 0; n < Tile::kNs / 2; ++n) load_fragments(b[n], slot.w, place.column + 16 * n, k);
#pragma unroll
        for (int m = 0; m < Tile::kMs; ++m) {
#pragma unroll
            for (int n = 0; n < Tile::kNs; ++n) mma_m16n8k32_s32_s8(sums.of[m][n], a[m], b[n / 2][n % 2], b[n / 2][n % 2 + 2]);
        }
    }
}

// A block's tile, or the tile of one of its groups of threads.
struct Origin {
    int row, column;
};

struct Stages {
    int first, end;
};

// `barrier` lets all threads that make the tile meet.
template <class Tile, class Layout, int kSlots, class Barrier>
__device__ __forceinline__ Sums<Tile> accumulate(const Problem& problem, Slot<Tile> (&slots)[kSlots], Origin origin,
                                                 Stages stages, int thread, Barrier barrier) {
    Sums<Tile> sums = {};
    Activations<Tile> activations;
    Weights<Tile, Layout> weights;
    const WarpPlace<Tile> place(thread);
    const auto fetch = [&](int stage) {
        if (stage >= stages.end) return;
        activations.fetch(problem, origin.row, stage * Tile::kDepth, thread);
        weights.fetch(problem, origin.column, stage * Tile::kDepth, thread);
    };
    fetch(stages.first);
#pragma unroll 1
    for (int stage = stages.first; stage < stages.end; ++stage) {
        Slot<Tile>& slot = slots[(stage - stages.first) % kSlots];
        // NOTE: with one slot, others may still be reading it. With two, the slot's last readers passed the barrier below.
        if (kSlots == 1 && stage > stages.first) barrier();
        activations.publish(slot, thread);
        weights.publish(slot, thread);
        barrier();
        fetch(stage + 1);
        multiply(sums, slot, place);
    }
    return sums;
}
