"""Backwards through memory: from a loaded register to bytes, from stored bytes to registers, through copies."""

import numpy as np

from tileproof.simulators.ptx.async_form import StoreForm
from tileproof.simulators.ptx.machine.addressing import access_of
from tileproof.simulators.ptx.machine.asynchronous.bulk import BulkCopy
from tileproof.simulators.ptx.machine.asynchronous.region import Reduction, Region, Value
from tileproof.simulators.ptx.machine.asynchronous.small_flights import SmallCopy
from tileproof.simulators.ptx.machine.asynchronous.tensor_copy import BoxSource
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.trace.demand import EVERY_BIT, bits_of_bytes, bytes_of_bits
from tileproof.simulators.ptx.trace.look import Look


def load(look: Look) -> None:
    """The bytes of the wanted bits."""
    step, size = look.step, access_of(look.step).size
    for touched in look.event.touched:
        for index, slot in enumerate(step.destinations):
            wanted = bytes_of_bits(look.result(slot)[touched.lanes], size)
            look.follow(touched.backing, touched.offsets + index * size, wanted)
    look.count(look.results())


def store(look: Look) -> None:
    """The registers whose bytes were the last to be written there."""
    step, size = look.step, access_of(look.step).size
    for touched in look.event.touched:
        wanted = look.demand.take_bytes(touched.backing, touched.offsets, step.access_bytes)
        for index, slot in enumerate(step.sources[1:]):
            part = wanted[:, index * size : (index + 1) * size]
            look.demand.want(slot, touched.lanes, bits_of_bytes(part))
        look.note(touched.backing, touched.offsets, wanted)
        look.count(touched.lanes[wanted.any(axis=1)])


def discard(look: Look) -> None:
    """The bytes have no value."""
    for touched in look.event.touched:
        if look.demand.take_bytes(touched.backing, touched.offsets, access_of(look.step).size).any():
            look.demand.unwritten = True


def atomic(look: Look) -> None:
    """What was there before, and what the lanes that met there brought: all of them, whatever their order."""
    step, values = look.step, look.step.sources[1:]
    for touched in look.event.touched:
        cells = look.demand.wanted_bytes(touched.backing, touched.offsets, step.access_bytes).any(axis=1)
        for slot in step.destinations:
            cells |= look.result(slot)[touched.lanes] != 0
        met = np.isin(touched.offsets, touched.offsets[cells])
        every = np.repeat(met[:, np.newaxis], step.access_bytes, axis=1)
        look.follow(touched.backing, touched.offsets, every)
        for slot in values:
            look.demand.want(slot, touched.lanes[met], np.full(int(met.sum()), EVERY_BIT))
        look.count(touched.lanes[met])


def copies(look: Look) -> None:
    """Asynchronous copies: bytes at the source for bytes at the target."""
    for flight in look.event.flights:
        if isinstance(flight, SmallCopy):
            _small_copy(look, flight)
        elif isinstance(flight, BulkCopy):
            _bulk_copy(look, flight)


def _small_copy(look: Look, flight: SmallCopy) -> None:
    wanted = look.demand.take_bytes(flight.target, flight.target_offsets, flight.nbytes)
    look.note(flight.target, flight.target_offsets, wanted)
    if flight.source_bytes:  # what lies behind is zero
        look.follow(flight.source, flight.source_offsets, wanted[:, : flight.source_bytes])
    look.count(flight.lanes[wanted.any(axis=1)])


def _bulk_copy(look: Look, flight: BulkCopy) -> None:
    target = flight.target.region
    wanted = look.demand.take_bytes(target.backing, target.offsets, target.nbytes)
    if not wanted.any():
        return
    look.note(target.backing, target.offsets, wanted)
    if isinstance(flight.target, Reduction):
        whole = np.repeat(wanted.reshape(-1, flight.target.size).any(axis=1), flight.target.size)
        wanted = whole.reshape(wanted.shape)
        look.follow(target.backing, target.offsets, wanted)
    payload: Mask = wanted.reshape(-1)
    match flight.source:
        case Region() as source:
            look.follow(source.backing, source.offsets, payload.reshape(-1, source.nbytes))
        case BoxSource(region, _, places):
            index: Lanes = places[:, np.newaxis] + np.arange(region.nbytes)
            look.follow(region.backing, region.offsets, payload[index])
        case Value():
            _registers(look, flight.lane, payload)
    look.count(flight.issuers())


def _registers(look: Look, lane: int, payload: Mask) -> None:
    form = look.step.asynchronous
    assert isinstance(form, StoreForm)
    for slot, part in zip(form.values, payload.reshape(-1, form.element_bytes), strict=True):
        look.demand.want(slot, np.array([lane]), bits_of_bytes(part[np.newaxis]))
