"""Which PTX targets have an instruction (the "Target ISA Notes" of the PTX ISA, checked against ptxas 13.0)."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """What a target must be.

    Attributes:
        least: compute capability times ten from which on every target has it.
        families: targets that have it with their letter only, such as sm_100a and sm_100f; empty if any letter does.
    """

    least: int
    families: tuple[int, ...] = ()

    def met_by(self, target: str) -> bool:
        """Whether a target such as "sm_90a" has the instruction."""
        match = re.fullmatch(r"sm_(\d+)([af]?)", target)
        if match is None:
            return False
        number = int(match[1])
        return number >= self.least and (not self.families or (number in self.families and bool(match[2])))

    def __str__(self) -> str:
        if self.families:
            return " or ".join(f"sm_{number}a" for number in self.families)
        return f"sm_{self.least} or higher"


ALWAYS = Requirement(0)
BLACKWELL = Requirement(100)
BLACKWELL_FAMILIES = Requirement(100, (100, 101, 103, 110, 120, 121))
