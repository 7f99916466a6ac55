"""P1 to P24: what goes wrong in quantised kernels in the field, each as a property that can be checked.

A property is a claim and the inputs that make it bite: a check that never sees such inputs cannot fail. Which contracts
a property applies to, and who checks it there, is said by the contracts (`declaration`).
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Property:
    """One property.

    Args:
        number: 1 to 24; its id is "P" and the number.
        name: in a few words.
        claim: what holds where it holds.
        bites: inputs or circumstances without which a check of it cannot fail.
    """

    number: int
    name: str
    claim: str
    bites: str

    @property
    def id(self) -> str:
        """As "P7"."""
        return f"P{self.number}"


_PROPERTIES = (
    Property(
        1,
        "decode and encode",
        "every code decodes exactly, and what it decodes to is encoded as that code",
        "all 256 codes, every source type",
    ),
    Property(
        2,
        "one rounding, ties to even",
        "conversions round once, to nearest even, from the source type",
        "every midpoint and its neighbours in the source type, subnormal codes included",
    ),
    Property(
        3,
        "overflow, NaN, infinity, -0",
        "special values become what the contract declares",
        "values beyond the largest code, infinities, NaN of several payloads and signs, -0",
    ),
    Property(
        4,
        "scale from amax",
        "the scale is what the contract's rule makes of the largest magnitude, at every magnitude",
        "amax of 0, subnormal, at powers of two and beside them, infinite, NaN",
    ),
    Property(
        5,
        "code and scale agree",
        "codes are made with the very scale that is returned",
        "values that are ties under that scale and under no other",
    ),
    Property(
        6,
        "state of amax and scale",
        "a step changes the state as declared, and a skipped step not at all",
        "falling and rising maxima, skipped steps, windows of 1, 2, 3",
    ),
    Property(
        7,
        "a scale for each row, column, tensor",
        "every element meets its own scale",
        "scales that are distinct powers of two, on sums that the output holds exactly",
    ),
    Property(
        8,
        "every element at its place",
        "an element of an input decides the outputs that it must, and no other",
        "one-hot operands, values that are all different",
    ),
    Property(
        9,
        "padding changes nothing",
        "bytes between and around the elements decide no output",
        "padding of NaN, of the largest value, of another value in a second run",
    ),
    Property(
        10,
        "every output written, nothing else",
        "every element of an output is written, and no other byte",
        "poisoned outputs, red zones or exact bounds, inputs held to their images",
    ),
    Property(
        11,
        "views",
        "a strided or offset view gives what a contiguous copy gives, or is refused",
        "offsets and row strides on both sides of each alignment",
    ),
    Property(12, "sizes zero and one", "empty and single sizes give what the contract says", "each extent 0 and 1"),
    Property(
        13,
        "every residue",
        "sizes at, before and after every boundary of tile, vector and stage are right",
        "each residue of an extent, each side of a route's threshold",
    ),
    Property(
        14,
        "indices of 64 bits",
        "no offset is cut to 32 bits",
        "elements more than 2^31 and 2^32 elements from the first one",
    ),
    Property(
        15,
        "equal runs, equal bits",
        "runs on equal inputs give equal bits, whatever memory held and whoever came first",
        "200 runs and more on a GPU, dirty memory, several waves, every schedule that the memory model allows",
    ),
    Property(
        16,
        "workspace",
        "a workspace is left as declared, and a launch takes it as the one before left it",
        "poison before the first use, counters that are worn, every number of splits",
    ),
    Property(
        17,
        "order of accesses",
        "conflicting accesses are ordered: barriers, fences, waits and proxies are where they must be",
        "every access of a launch, on a device that knows what is ordered",
    ),
    Property(
        18,
        "graphs",
        "a captured launch, replayed on other contents, gives what a launch on them gives",
        "a dozen replays, contents of another range each time, outputs poisoned in between",
    ),
    Property(
        19,
        "the right route",
        "the route is the contract's, every route is reached, and what no route takes is refused",
        "shapes on both sides of each threshold, shapes to refuse",
    ),
    Property(
        20,
        "epilogue",
        "what follows the sum is added, scaled and rounded as declared",
        "sums of 0 with a bias, addends that cancel, scales other than 1",
    ),
    Property(
        21,
        "integers exact",
        "integer sums are equal, not close",
        "codes of -128 and 127 in pairs, sums beyond what float32 holds",
    ),
    Property(
        22,
        "anchor row",
        "a row gives the same bits in batches of every size",
        "the same row alone, beside 16, 32 and more others, at other places",
    ),
    Property(
        23,
        "accumulator",
        "sums are those of the declared accumulator, in the declared order",
        "one large product among many small, terms that cancel, K of several stages",
    ),
    Property(
        24,
        "the gate can fail",
        "oracles that cannot be right are rejected before any kernel is judged",
        "zeros, 0.72 and 1.05 times the value, another sign, other scales, a step of K less, exchanged nibbles",
    ),
)

PROPERTIES: Mapping[str, Property] = {one.id: one for one in _PROPERTIES}
"""By id, in the order of their numbers."""
