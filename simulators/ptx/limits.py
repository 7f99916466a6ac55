"""What an architecture has and which PTX targets it runs."""

import re
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal

# Shared memory that one block may use, in KiB (CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability": 163 KB on 8.0 and 8.7, 99 KB on 8.6, 8.9 and 12.0, 227 KB on 9.0, 10.0 and 10.3).
_SHARED_KIB = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
# Multiprocessors of one part of each architecture (A100, GA102, Orin, AD102, H100 SXM and H200, B200, B300, Thor,
# GB202, GB10): what %nsmid says here. The ISA promises no number.
_MULTIPROCESSORS = {80: 108, 86: 84, 87: 16, 89: 142, 90: 132, 100: 148, 103: 148, 110: 20, 120: 188, 121: 48}
# Static shared memory of a kernel: ptxas refuses more (CUDA C++ Programming Guide, "Shared Memory").
STATIC_SHARED_BYTES = 48 * 1024
# Of one module's constants, and of one thread's local memory (same guide, same table).
CONSTANT_BYTES = 64 * 1024
LOCAL_BYTES = 512 * 1024
# Of a kernel's parameters (PTX ISA, "Kernel Function Parameters": 32,764 bytes from PTX 8.1 and sm_70 on).
PARAMETER_BYTES = 32_764
# Warps that one multiprocessor holds (same guide, same table): %nwarpid (measured for 9.0 on H200).
_WARPS = {80: 64, 86: 48, 87: 48, 89: 48, 90: 64, 100: 64, 103: 64, 110: 48, 120: 48, 121: 48}
GRID_LIMIT = (2**31 - 1, 65535, 65535)
BLOCK_LIMIT = (1024, 1024, 64)
THREAD_LIMIT = 1024
# Clusters (same guide, "Thread Block Clusters"): from 9.0 on; 8 blocks are portable, 16 on 9.0 and 10.x by opt-in.
FIRST_WITH_CLUSTERS = 90
PORTABLE_CLUSTER = 8
_LARGEST_CLUSTER = {90: 16, 100: 16, 103: 16}


@dataclass(frozen=True)
class Limits:
    """One architecture.

    Attributes:
        arch: such as "sm_90a".
        number: compute capability times ten: 90.
        suffix: "", "a" or "f".
        shared_bytes_per_block: static and dynamic together.
        multiprocessors: how many the modelled part has.
        warps: that one of them holds.
        largest_cluster: blocks of a cluster at most, with the opt-in; 1 where there are no clusters.
    """

    arch: str
    number: int
    suffix: str
    shared_bytes_per_block: int
    multiprocessors: int
    warps: int
    largest_cluster: int

    @classmethod
    def of(cls, arch: str) -> "Limits":
        """The limits of an architecture name.

        Raises:
            Refusal: the name is not one of the modelled architectures.
        """
        match = re.fullmatch(r"sm_(\d+)([af]?)", str(arch))
        if match is None or int(match[1]) not in _SHARED_KIB:
            known = ", ".join(f"sm_{number}" for number in _SHARED_KIB)
            raise Refusal(f"unknown architecture {arch!r}", hint=f"one of {known}, with its letter where PTX uses it")
        number = int(match[1])
        largest = _LARGEST_CLUSTER.get(number, PORTABLE_CLUSTER) if number >= FIRST_WITH_CLUSTERS else 1
        return cls(
            arch, number, match[2], _SHARED_KIB[number] * 1024, _MULTIPROCESSORS[number], _WARPS[number], largest
        )

    def check_target(self, target: str) -> None:
        """Whether PTX for `target` runs here (PTX ISA, ".target": architecture-specific targets run on that one only).

        Raises:
            Refusal: it does not.
        """
        wanted = Limits.of(target)
        if wanted.suffix == "a":
            fits = wanted.number == self.number and self.suffix == "a"
        elif wanted.suffix == "f":
            fits = wanted.number // 10 == self.number // 10 and wanted.number <= self.number
        else:
            fits = wanted.number <= self.number
        if not fits:
            raise Refusal(f"PTX for {target} does not run on {self.arch}", hint=f"use Device(arch={target!r})")
