"""The names of a warp under the file that they used to stand in; `machine.warp` is their place."""

from tileproof.simulators.ptx.machine.warp import ALL_LANES, WARP, WARP_SHIFT

__all__ = ["ALL_LANES", "WARP", "WARP_SHIFT"]
