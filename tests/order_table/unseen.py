"""Wrong kernels of which no schedule of the CPU device shows a wrong value, and why. All of them are found."""

from collections.abc import Mapping

_NO_WORD = "no word of the result depends on it"
_BLOCK = "inside a block every store to shared memory is seen at once"
_CLUSTER = "inside a cluster every store to shared memory is seen at once"
_WARP = (
    "the instruction between holds the warp together, and inside a block every store to shared memory is seen at once"
)
_LATE_LOADS = "loads never come late"

UNSEEN: Mapping[str, str] = {
    "bar.warp.sync of a mask": _WARP,
    "shuffle": _WARP,
    "relaxed arrival": _BLOCK,
    "relaxed wait": _BLOCK,
    "arrival of copies alone": _BLOCK,
    "relaxed cluster arrival": _CLUSTER,
    "relaxed cluster arrival after a fence": _CLUSTER,
    "arrival at a peer's barrier": _CLUSTER,
    "wait of the block's scope": _CLUSTER,
    "fence.mbarrier_init": _CLUSTER,
    "peer not started": "shared memory of a block that has not started takes stores all the same",
    "slot released without a proxy fence": _LATE_LOADS,
    "global read and a bulk store": _LATE_LOADS,
    "operands overwritten": "operands of wgmma in shared memory are read where it is issued",
    "tensor map in global memory": "what a copy does with an old map, which here is none, is not modelled",
    "bulk reduction and atomics": "the sum is the same in every order",
    "mbarrier.inval": _NO_WORD,
    "initialisation and atomics of two blocks": _NO_WORD,
    "atomics of the block's scope": _NO_WORD,
    "plain store and atomic": _NO_WORD,
    "atomics of different sizes": _NO_WORD,
}
