"""Steps that work on each lane alone: one function a step, made once for all waves of a launch."""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.machine import (
    access,
    atomic,
    block_barrier,
    bracket,
    clock,
    cluster_address,
    cluster_barrier,
    collective,
    trap,
)
from tileproof.simulators.ptx.machine.asynchronous.steps import HANDLERS as ASYNCHRONOUS
from tileproof.simulators.ptx.machine.memory import Bits
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import FenceKind, Kind, Program, Step

Handler = Callable[[Wave, Selection], None]


def handlers(program: Program) -> list[Handler | None]:
    """For each step the function that executes it; None where a step decides who runs."""
    return [_handler(step, pc) for pc, step in enumerate(program.steps)]


def _handler(step: Step, pc: int) -> Handler | None:
    execute = ASYNCHRONOUS.get(step.kind)
    if execute is not None:
        return lambda wave, selection: execute(wave, step, pc, selection)
    match step.kind:
        case Kind.ARITHMETIC:
            return _arithmetic(step)
        case Kind.PACK:
            return lambda wave, selection: _pack(wave, step, selection)
        case Kind.UNPACK:
            return lambda wave, selection: _unpack(wave, step, selection)
        case Kind.LOAD:
            return lambda wave, selection: access.load(wave, step, pc, selection)
        case Kind.STORE:
            return lambda wave, selection: access.store(wave, step, pc, selection)
        case Kind.ATOMIC:
            return lambda wave, selection: atomic.atomic(wave, step, pc, selection)
        case Kind.ACTIVE_MASK:
            return lambda wave, selection: collective.active_mask(wave, step, selection)
        case Kind.FRESH:
            return lambda wave, selection: access.forget(wave, step, selection)
        case Kind.DISCARD:
            return lambda wave, selection: access.discard(wave, step, pc, selection)
        case Kind.PRINT:
            return lambda wave, selection: trap.printed(wave, step, selection)
        case Kind.FENCE:
            return _fence(step, pc)
        case Kind.NOTHING:
            return _nothing
        case Kind.CLUSTER_ADDRESS:
            return lambda wave, selection: cluster_address.answer(wave, step, selection)
        case Kind.BARRIER_ARRIVE if step.barrier is not None and not step.barrier.aligned:
            return lambda wave, selection: block_barrier.arrive(wave, step, pc, selection)
        case Kind.CLUSTER_ARRIVE if step.cluster is not None and not step.cluster.aligned:
            return lambda wave, selection: cluster_barrier.arrive(wave, step, pc, selection)
        case Kind.CLOCK:
            return lambda wave, selection: clock.read(wave, step, selection)
    return None


def _nothing(wave: Wave, selection: Selection) -> None:
    """Hints: they change no value and order nothing."""


def _fence(step: Step, pc: int) -> Handler:
    form = step.fence
    assert form is not None

    def threads(wave: Wave, selection: Selection) -> None:
        lanes = wave.ids(selection)
        wave.order.fence(lanes, form.acquires, form.releases, form.scope, form.sequential)
        if wave.weak is None:
            return
        if form.sequential:
            wave.weak.sequential(lanes)
        if form.releases:
            wave.release(lanes, form.scope)
        if form.acquires:
            wave.acquire(lanes, form.scope)

    def inits(wave: Wave, selection: Selection) -> None:
        wave.order.init_fence(wave.ids(selection))

    def async_proxy(wave: Wave, selection: Selection) -> None:
        wave.order.proxy_fence(wave.ids(selection), form.spaces)
        if wave.weak is not None:
            wave.weak.fence_async(wave.ids(selection), form.spaces)

    def tensor_maps(wave: Wave, selection: Selection) -> None:
        if wave.weak is not None:
            wave.weak.release(wave.ids(selection))  # maps are read from memory itself
        if form.acquires and step.sources:
            wave.asynchronous.maps.acquire(wave, step, pc, wave.ids(selection))

    handlers = {
        FenceKind.THREADS: threads,
        FenceKind.MBARRIER_INIT: inits,
        FenceKind.ASYNC_PROXY: async_proxy,
        FenceKind.TENSOR_MAP_PROXY: tensor_maps,
    }
    return handlers.get(form.kind, _nothing)


def _arithmetic(step: Step) -> Handler:
    operation = step.operation
    assert operation is not None
    compute, sources, narrow = operation.compute, step.sources, step.narrow
    reads = tuple(zip(sources, narrow, strict=True))
    writes = tuple(zip(step.destinations, step.sign_from, strict=True))
    undefined_result, approximate = operation.undefined, operation.allowed is not None

    def execute(wave: Wave, selection: Selection) -> None:
        registers = wave.registers
        values = [registers.read(slot, selection, bits) for slot, bits in reads]
        results = compute(values)
        undefined = registers.undefined(sources, selection, narrow)
        masks: Sequence[Bits | None] = (None,) * len(writes)
        if undefined is not None:
            masks = undefined_result(values, undefined)
        carried = bracket.results(wave, step, selection, values) if approximate or registers.brackets.live else None
        for (slot, sign), result, mask in zip(writes, results, masks, strict=True):
            registers.write(slot, selection, result, mask, sign)
        if carried is not None:
            bracket.write(wave, step, selection, carried)

    return execute


def _pack(wave: Wave, step: Step, selection: Selection) -> None:
    registers = wave.registers
    values = [registers.read(s, selection, n) for s, n in zip(step.sources, step.narrow, strict=True)]
    undefined = registers.undefined(step.sources, selection, step.narrow)
    mask = None if undefined is None else _join(undefined, step.element_bits)
    carried = bracket.pack(wave, step, selection, values) if registers.brackets.live else None
    registers.write(step.destinations[0], selection, _join(values, step.element_bits), mask)
    bracket.write(wave, step, selection, carried)


def _join(elements: Sequence[Bits], bits: int) -> Bits:
    word = elements[0]
    for index, element in enumerate(elements[1:], start=1):
        word = word | (element << np.uint64(index * bits))
    return word


def _unpack(wave: Wave, step: Step, selection: Selection) -> None:
    registers = wave.registers
    value = registers.read(step.sources[0], selection)
    undefined = registers.undefined(step.sources, selection)
    carried = bracket.unpack(wave, step, selection, value) if registers.brackets.live else None
    field = np.uint64((1 << step.element_bits) - 1)
    for index, slot in enumerate(step.destinations):
        shift = np.uint64(index * step.element_bits)
        mask = None if undefined is None else (undefined[0] >> shift) & field
        registers.write(slot, selection, (value >> shift) & field, mask)
    bracket.write(wave, step, selection, carried)
