"""The protocols inside the kernels: models by name, with the constants of the kernels that they stand for.

`tileproof model NAME` decides one of them. Extents that multiply states are small unless they are given: blocks, tiles,
warps. What a kernel fixes is the kernel's own: stages of a ring, pairs of scales, whether the host clears maxima.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any
from typing import Protocol as Interface

from tileproof.conformance.kernel_constants import kernel_constant
from tileproof.kernels.int8_arms import WGMMA
from tileproof.kernels.mm_fp8_dispatch import SCHEDULES, Route
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, SEED
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models import cp_async_ring, election, multicast_ring, split_k, tma_ring

TMA = "fp8_a8_gemm_tma"
CP_ASYNC = "fp8_a8_gemm_cp_async"


class Parametrised(Interface):
    """A model before its fault is chosen."""

    @property
    def name(self) -> str:
        """With the parameters."""

    def model(self) -> Model:
        """The model."""


@dataclass(frozen=True)
class Protocol:
    """One family of models.

    Args:
        name: for the command line.
        what: one line.
        kernels: whose protocol it is; empty where none of ours has it.
        make: a model from parameters by name and a fault.
        defaults: parameters that may be given, with what they are if they are not.
        faults: what can be wrong.
        words: of the faults.
    """

    name: str
    what: str
    kernels: tuple[str, ...]
    make: Callable[..., Parametrised]
    defaults: Mapping[str, int]
    faults: type[IntEnum]
    words: Mapping[Any, str]

    def build(self, given: Mapping[str, int], fault: str | None) -> Parametrised:
        """A model of this family.

        Raises:
            Refusal: a parameter that the family lacks, an unknown fault, or values without meaning.
        """
        for name in given:
            if name not in self.defaults:
                raise Refusal(
                    f"--{name} has no meaning for {self.name}",
                    hint=f"it takes {', '.join(map('--{}'.format, self.defaults))}",
                )
        return self.make(fault=self._fault(fault), **{**self.defaults, **given})

    def _fault(self, name: str | None) -> IntEnum:
        if name is None:
            return self.faults(0)
        known = {fault_name(fault): fault for fault in self.faults if fault}
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or list(known)
            raise Refusal(f"{self.name} has no fault {name!r}", hint=f"one of: {', '.join(near)}")
        return known[name]


def fault_name(fault: IntEnum) -> str:
    """As on the command line."""
    return fault.name.lower().replace("_", "-")


def protocol(name: str) -> Protocol:
    """The family of that name. Raises: Refusal where there is none."""
    if name not in PROTOCOLS:
        raise Refusal(f"no model {name!r}", hint=f"one of: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def tma_consumers() -> int:
    """Warps of the TMA route that read every stage."""
    return kernel_constant(TMA, "kConsumers")


def _tma(fault: tma_ring.Fault, stages: int, tiles: int, consumers: int) -> Parametrised:
    return tma_ring.TmaRing(stages, tiles, consumers, fault=fault)


def _wgmma(fault: tma_ring.Fault, stages: int, tiles: int, consumers: int) -> Parametrised:
    return tma_ring.TmaRing(stages, tiles, consumers, lag=1, overlays=False, fault=fault)


def _cp_async(fault: cp_async_ring.Fault, stages: int, tiles: int, warps: int) -> Parametrised:
    """The ring of fp8_a8_gemm_cp_async: a barrier behind the products of each stage, and no other at the end."""
    return cp_async_ring.CpAsyncRing(stages, tiles, warps, lean=True, drains=False, fault=fault)


def _mm_fp8(
    fault: cp_async_ring.Fault, stages: int, tiles: int, warps: int, *, lean: bool = False, crosswise: bool = False
) -> Parametrised:
    return cp_async_ring.CpAsyncRing(stages, tiles, warps, lean, crosswise, fault=fault)


def _families() -> list[Protocol]:
    stages_large, stages_small = SCHEDULES[Route.LARGE].stages, SCHEDULES[Route.SMALL_LEAN].stages
    quantiser, mm_fp8 = ("fp8_quantize_tensor",), ("mm_fp8",)
    elections = (election.Fault, election.WORDS)
    copies = (cp_async_ring.Fault, cp_async_ring.WORDS)
    ring = {"blocks": 4, "across": 2, "slots": 2, "launches": 2, "pairs": DOUBLE_BUFFERED.pairs}
    parts = {"parts": 4, "launches": 2}
    cluster = {"blocks": 2, "stages": 2, "tiles": 3, "consumers": 1}
    warps = {"tiles": 6, "warps": 2}
    tma = {"stages": kernel_constant(TMA, "kStages"), "tiles": 6, "consumers": 2}
    wgmma = {"stages": max(arm.stages for arm in WGMMA), "tiles": 6, "consumers": 2}
    two = {"stages": kernel_constant(CP_ASYNC, "kStages"), **warps}
    seed = partial(election.Election, host_clears=SEED.maximum_field is None)
    full = {"stages": stages_large, **warps}
    lean = {"stages": stages_small, **warps}
    return [
        Protocol("election", "the scale ring's last block", quantiser, election.Election, ring, *elections),
        Protocol(
            "election-seed",
            "the same where the host clears the maximum",
            quantiser,
            seed,
            {**ring, "slots": 1, "pairs": 1},
            *elections,
        ),
        Protocol(
            "split-k",
            "the last arrival of a split K",
            ("int8_gemm_decode",),
            split_k.SplitK,
            parts,
            split_k.Fault,
            split_k.WORDS,
        ),
        Protocol(
            "split-k-reset",
            "the same with a counter that is set back",
            (),
            partial(split_k.SplitK, resets=True),
            parts,
            split_k.Fault,
            split_k.WORDS,
        ),
        Protocol("tma-ring", "the ring of tensor copies", (TMA,), _tma, tma, tma_ring.Fault, tma_ring.WORDS),
        Protocol(
            "wgmma-ring",
            "the same, released a tile later",
            ("int8_gemm_wgmma",),
            _wgmma,
            wgmma,
            tma_ring.Fault,
            tma_ring.WORDS,
        ),
        Protocol("cp-async-ring", "the ring of cp.async, two barriers a tile", (CP_ASYNC,), _cp_async, two, *copies),
        Protocol("mm-ring", "the ring of cp.async with a slot more", mm_fp8, _mm_fp8, full, *copies),
        Protocol(
            "mm-ring-crosswise", "the same through registers", mm_fp8, partial(_mm_fp8, crosswise=True), full, *copies
        ),
        Protocol("mm-ring-lean", "the same with a second barrier", mm_fp8, partial(_mm_fp8, lean=True), lean, *copies),
        Protocol(
            "multicast-ring",
            "the ring of a cluster",
            (),
            multicast_ring.MulticastRing,
            cluster,
            multicast_ring.Fault,
            multicast_ring.WORDS,
        ),
    ]


PROTOCOLS: Mapping[str, Protocol] = {one.name: one for one in _families()}
