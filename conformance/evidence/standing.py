"""Whether what a GPU confirmed still stands for the code of today.

A case's mark stands where some recording of it ran every kernel that the case launches today, each with today's PTX,
and where the launcher passes today what it passed then, as far as that was kept. An edited kernel so loses the marks of
its cases until they run again, and so does a launcher with another grid or argument; a renamed register or a moved
line does not.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from tileproof.conformance.evidence.kernel_key import KernelKey
from tileproof.conformance.evidence.recordings import Confirmation


class Standing(StrEnum):
    """CONFIRMED: as today. LOST: it ran with other PTX, or it is not known with which. NEVER: no recording has it."""

    CONFIRMED = "confirmed"
    LOST = "lost"
    NEVER = "never"


def standing(
    today: Sequence[KernelKey], confirmed: Iterable[Confirmation], *, form: str = "", kept: str = ""
) -> Standing:
    """The standing of a case.

    Args:
        today: the kernels that it launches today; none where nothing is launched, so that there is nothing to lose.
        confirmed: the recordings of it.
        form: digest of what the launcher passes them today.
        kept: the digest that was kept when it was confirmed; "" where none was.
    """
    known = list(confirmed)
    if kept not in ("", form):
        return Standing.LOST
    if any(all(one.kernels.get(key.instance) == key.digest for key in today) for one in known):
        return Standing.CONFIRMED
    return Standing.LOST if known else Standing.NEVER


def lost_kernels(today: Sequence[KernelKey], confirmed: Iterable[Confirmation]) -> tuple[str, ...]:
    """The instances of today's kernels that no recording of the case ran as they are."""
    known: list[Mapping[str, str]] = [one.kernels for one in confirmed]
    return tuple(key.instance for key in today if all(one.get(key.instance) != key.digest for one in known))
