"""Why two targets give different outputs for one case.

Which side is as the reference says is counted, and said with every explanation. The rest the CPU device shows, where it
is one of the two, by running the case once more:

    what differs was left open by an approximate function, and the other target's bits lie within   seen
    under another order of threads it gives other bits                                               seen
    with multiplications and additions fused it gives the other target's bits, every one            proved
    the kernel has a form that ptxas is known to change                                              a hint

None of this says that a target is at fault beyond what is counted: where nothing of it holds, only the sides are told.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tileproof.conformance.allowed import contains
from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Allowed
from tileproof.conformance.target import Schedule
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength, rank
from tileproof.conformance.triage.known_forms import known_forms
from tileproof.conformance.triage.pair import Again, Pair
from tileproof.conformance.triage.patience import Patience
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.machine.budget import BudgetExceeded

ORDERS = 8
"""Seeds of the hostile schedule that are tried, beside the friendly one."""

FUSIONS = ("first", "last")


def between(pair: Pair, patience: Patience | None = None) -> tuple[Explanation, ...]:
    """Explanations of a difference, the strongest first; never empty.

    Args:
        pair: the case.
        patience: how long the CPU device may run it again; None for as long as it takes.
    """
    patience = patience or Patience()
    said = sides(pair)
    found = list(_shown(pair, patience))
    if sum(one.strength is Strength.PROVED for one in found) and patience.was_short:
        found = [replace(one, strength=Strength.EARLY) if one.strength is Strength.PROVED else one for one in found]
    told = sorted((replace(one, text=f"{one.text}; {said.text}") for one in found), key=rank)
    first = sum(one.strength is not Strength.HINT for one in told)
    return (*told[:first], said, *told[first:])


def sides(pair: Pair) -> Explanation:
    """Which target is as the reference says; it is counted, so it is seen, and says nothing of why."""
    if pair.right is None:
        return Explanation(Cause.UNJUDGED, "the contract has no reference", Strength.HINT, 0, pair.count)
    wrong = {side.name: pair.wrong(side) for side in pair.sides}
    text = " and ".join(
        f"{name} is as the reference says" if not count else f"{name} differs from the reference in {count} elements"
        for name, count in wrong.items()
    )
    cause = (Cause.EITHER_SIDE, Cause.ONE_SIDE, Cause.NO_SIDE)[sum(map(bool, wrong.values()))]
    strength = Strength.SEEN if cause is not Cause.NO_SIDE else Strength.HINT
    return Explanation(cause, text, strength, pair.count, pair.count)


def _shown(pair: Pair, patience: Patience) -> Iterator[Explanation]:
    side = pair.simulated
    if side is None or not pair.count or not patience.lasts():
        return
    place = side.place
    again = _run(pair, Device(place.arch, place.schedule.value, place.seed))
    if again is None or not pair.same(again.outputs, side):
        return  # what is not repeated here is not explained here
    open_ends = tuple(left_open(pair, again))
    yield from open_ends
    if any(one.is_proof for one in open_ends):
        return
    yield from other_orders(pair, patience)
    yield from fused(pair, patience)
    yield from known_forms(again.launched, pair.count)


def left_open(pair: Pair, again: Again) -> Iterator[Explanation]:
    """Elements that the CPU device leaves open, of those that differ; within are the other target's bits."""
    within = 0
    for name, spec in pair.specs.items():
        if name not in again.ends:
            continue
        low, high = again.ends[name]
        dtype = spec.dtype
        allowed = Allowed(low.view(dtype), high.view(dtype))
        holds = contains(spec.format, allowed, raw_bits(pair.other.outputs[name])) & (low != high)
        within += int((holds & pair.differing[name]).sum())
    if within:
        text = f"of {pair.count} elements that differ PTX leaves {within} open, and {pair.other.name} is within"
        strength = Strength.SEEN if within == pair.count else Strength.PARTIAL
        yield Explanation(Cause.APPROXIMATE, text, strength, within, pair.count)


def other_orders(pair: Pair, patience: Patience) -> Iterator[Explanation]:
    """The first other schedule under which the CPU device gives other bits; the other target's, if any does."""
    side = pair.simulated
    assert side is not None
    places = [replace(side.place, schedule=Schedule.FRIENDLY, seed=0)]
    places += [replace(side.place, schedule=Schedule.ADVERSARIAL, seed=seed) for seed in range(ORDERS)]
    found = None
    for place in places:
        if place == side.place or not patience.lasts():
            continue
        again = _run(pair, Device(place.arch, place.schedule.value, place.seed))
        if again is None or not again.outputs or pair.same(again.outputs, side):
            continue
        which = f"schedule {place.schedule}, seed {place.seed}"
        if pair.same(again.outputs, pair.other):
            text = f"under {which} {side.name} gives what {pair.other.name} gave, bit by bit"
            yield Explanation(Cause.SCHEDULE, text, Strength.SEEN, pair.count, pair.count)
            return
        found = found or f"under {which} {side.name} gives other bits, though not those of {pair.other.name}"
    if found:
        yield Explanation(Cause.SCHEDULE, found, Strength.SEEN, 0, pair.count)


def fused(pair: Pair, patience: Patience) -> Iterator[Explanation]:
    """Whether pairs that the assembler may fuse, fused, give the other target's bits."""
    side = pair.simulated
    assert side is not None
    for which in FUSIONS:
        if not patience.lasts():
            return
        place = side.place
        again = _run(pair, Device(place.arch, place.schedule.value, place.seed, contraction=which))
        if again is None or pair.same(again.outputs, side) or not again.outputs:
            continue
        explained = sum(int((pair.differing[name] & _equal(again, pair, name)).sum()) for name in pair.specs)
        if not explained:
            continue
        whole = pair.same(again.outputs, pair.other)
        text = f"with each such pair fused, of two products the {which}, {side.name} gives {pair.other.name}'s bits"
        strength = Strength.PROVED if whole else Strength.HINT
        against = sum(int((~_equal(again, pair, name)).sum()) for name in pair.specs)
        yield Explanation(Cause.FUSED, text, strength, explained, pair.count, against)
        return


def _equal(again: Again, pair: Pair, name: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    return np.asarray(raw_bits(again.outputs[name]) == raw_bits(pair.other.outputs[name]))


def _run(pair: Pair, device: Device) -> Again | None:
    """None where the device cannot run it."""
    try:
        return pair.again(device)
    except (Refusal, BudgetExceeded, MemoryError):
        return None
