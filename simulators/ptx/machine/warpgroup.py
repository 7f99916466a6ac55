"""Warpgroups: four neighbouring warps of a block, the first of them a multiple of four (PTX ISA, "Warpgroup")."""

import numpy as np

from tileproof.simulators.ptx.machine.collective import present_bits
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Wave

WARPS = 4
LANES = WARPS * WARP


def peers(wave: Wave, warps: Lanes) -> Lanes:
    """All warps of the warpgroups of these warps, ascending."""
    group = _groups(wave)
    return np.flatnonzero(np.isin(group, group[warps]))


def complete(wave: Wave, lanes: Lanes) -> Mask:
    """For each lane whether every lane of its warpgroup that has not exited is among them."""
    missing = (wave.alive & ~present_bits(wave, lanes)) != 0
    group = _groups(wave)
    ready: Mask = np.bincount(group, missing)[group[lanes >> WARP_SHIFT]] == 0
    return ready


def full(wave: Wave, warps: Mask) -> Mask:
    """For each warp whether its warpgroup has four warps of which each is in `warps`."""
    group = _groups(wave)
    whole: Mask = np.bincount(group, warps)[group] == WARPS
    return whole


def _groups(wave: Wave) -> Lanes:
    """Each warp's warpgroup."""
    per_block = wave.geometry.warps_per_block
    block, warp = np.divmod(np.arange(wave.alive.size), per_block)
    group: Lanes = block * -(-per_block // WARPS) + warp // WARPS
    return group
