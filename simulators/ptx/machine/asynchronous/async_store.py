"""`st.async` and `red.async`: stores to the shared memory of a block of the cluster that tell an mbarrier there."""

import numpy as np

from tileproof.simulators.ptx.async_form import StoreForm
from tileproof.simulators.ptx.machine.asynchronous.barriers import WORD_SHIFT
from tileproof.simulators.ptx.machine.asynchronous.bulk import issue
from tileproof.simulators.ptx.machine.asynchronous.places import find_shared
from tileproof.simulators.ptx.machine.asynchronous.region import Payload, Reduction, Region, Target, Value
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace, Step


def store(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Execute an ASYNC_STORE step; a store with anything illegal is reported and dropped."""
    form = step.asynchronous
    assert isinstance(form, StoreForm)
    lanes, size = wave.ids(selection), form.element_bytes
    nbytes = size * len(form.values)
    target = find_shared(wave, step, form.target, lanes, nbytes, nbytes, "writes")
    signal = find_shared(wave, step, form.barrier, lanes, 8, 8, "finds its mbarrier in")
    told = dict(zip(signal.positions.tolist(), (signal.offsets >> WORD_SHIFT).tolist(), strict=True))
    values = [wave.registers.read(slot, lanes, 8 * size) for slot in form.values]
    undefined = wave.registers.undefined(form.values, lanes, (8 * size,) * len(form.values))
    for position, offset in zip(target.positions.tolist(), target.offsets.tolist(), strict=True):
        if position not in told:
            continue
        masks = None if undefined is None else [mask[position] for mask in undefined]
        payload = Payload.of_values([value[position] for value in values], masks, size)
        region = Region(StateSpace.SHARED, wave.shared, np.array([offset]), nbytes)
        end: Target = region if form.operation is None else Reduction(region, form.operation, size)
        issue(wave, step, pc, int(lanes[position]), Value(payload), end, told[position], nbytes, generic=True)
