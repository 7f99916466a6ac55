"""What an architecture has and which PTX targets it runs."""

import re
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal

# Shared memory that one block may use, in bytes (CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability": 163 KB on 8.0 and 8.7, 99 KB on 8.6, 8.9 and 12.0, 227 KB on 9.0, 10.0 and 10.3).
_SHARED_KIB = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}


@dataclass(frozen=True)
class Limits:
    """One architecture.

    Attributes:
        arch: such as "sm_90a".
        number: compute capability times ten: 90.
        suffix: "", "a" or "f".
        shared_bytes_per_block: static and dynamic together.
    """

    arch: str
    number: int
    suffix: str
    shared_bytes_per_block: int

    @classmethod
    def of(cls, arch: str) -> "Limits":
        """The limits of an architecture name.

        Raises:
            Refusal: the name is not one of the modelled architectures.
        """
        match = re.fullmatch(r"sm_(\d+)([af]?)", arch)
        if match is None or int(match[1]) not in _SHARED_KIB:
            known = ", ".join(f"sm_{number}" for number in _SHARED_KIB)
            raise Refusal(f"unknown architecture {arch!r}", hint=f"one of {known}, with its letter where PTX uses it")
        return cls(arch, int(match[1]), match[2], _SHARED_KIB[int(match[1])] * 1024)

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
