"""The trace of one element, as a launch returns it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.arguments import Argument
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.machine.memory import Allocation, GlobalMemory, Lanes
from tileproof.simulators.ptx.program import Kind, Program
from tileproof.simulators.ptx.trace.contribution import Contribution
from tileproof.simulators.ptx.trace.demand import Demand
from tileproof.simulators.ptx.trace.recorder import Recorder
from tileproof.simulators.ptx.trace.slicing import RULES, Rule, follow_back


@dataclass(frozen=True)
class Element:
    """One element of a buffer argument.

    Attributes:
        argument: which argument, from 0.
        index: one number for each axis.
    """

    argument: int
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"argument {self.argument} [{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Input:
    """Bytes of a buffer that stood there before the launch and went into the element.

    Attributes:
        argument: which argument; None for other memory of the device.
        address: of the memory's first byte.
        elements: flat indices, ascending; bytes where there is no argument.
        shape: of the buffer.
    """

    argument: int | None
    address: int
    elements: Lanes
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    """Where an element came from.

    Attributes:
        element: which one.
        report: of the launch.
        steps: the instructions that made it, in the order of first execution.
        inputs: what of global memory it came from.
        parameters: names of kernel parameters whose values, not as addresses, went into it.
        constants: immediates and special registers that did.
        unwritten: something that nothing wrote did.
    """

    element: Element
    report: Report
    steps: tuple[Contribution, ...]
    inputs: tuple[Input, ...]
    parameters: tuple[str, ...]
    constants: tuple[str, ...]
    unwritten: bool


def locate(element: Element, args: Sequence[Argument]) -> tuple[Buffer, int]:
    """The buffer and the byte offset of an element.

    Raises:
        Refusal: there is no such argument or element, or the argument is no buffer.
    """
    buffer = args[element.argument] if 0 <= element.argument < len(args) else None
    if not isinstance(buffer, Buffer):
        raise Refusal(f"argument {element.argument} is no buffer", hint="count from 0")
    inside = len(element.index) == len(buffer.shape) and all(
        0 <= place < extent for place, extent in zip(element.index, buffer.shape, strict=False)
    )
    if not inside:
        raise Refusal(f"{element} is no element of a buffer of shape {buffer.shape}")
    flat = 0
    for place, extent in zip(element.index, buffer.shape, strict=True):
        flat = flat * extent + place
    return buffer, flat * buffer.dtype.itemsize


def explain(
    program: Program,
    recorder: Recorder,
    memory: GlobalMemory,
    args: Sequence[Argument],
    element: Element,
    report: Report,
    rules: Mapping[Kind, Rule] = RULES,
) -> Trace:
    """The trace of an element of a recorded launch.

    Raises:
        Refusal: no such element.
    """
    buffer, offset = locate(element, args)
    allocation = memory.find(buffer.address)
    assert allocation is not None
    demand = Demand(program)
    demand.want_bytes(allocation, np.array([offset]), np.ones((1, buffer.dtype.itemsize), np.bool_))
    steps = follow_back(program, recorder, demand, rules).listed()
    buffers = {a.address: (i, a) for i, a in reversed(list(enumerate(args))) if isinstance(a, Buffer)}
    left = [(backing, np.flatnonzero(marks)) for backing, marks in demand.memory.values()]
    inputs = [
        _input(backing, places, buffers) for backing, places in left if isinstance(backing, Allocation) and places.size
    ]
    inputs.sort(key=lambda each: each.address)
    parameters = [places for backing, places in left if recorder.waves and backing is recorder.waves[0].parameters]
    return Trace(
        element,
        report,
        steps,
        tuple(inputs),
        _parameters(program, parameters),
        _constants(program, demand.fixed),
        demand.unwritten,
    )


def _input(backing: Allocation, places: Lanes, buffers: Mapping[int, tuple[int, Buffer]]) -> Input:
    argument, buffer = buffers.get(backing.base, (None, None))
    if buffer is None:
        return Input(None, backing.base, places, (backing.nbytes,))
    return Input(argument, backing.base, np.unique(places // buffer.dtype.itemsize), buffer.shape)


def _parameters(program: Program, found: Sequence[Lanes]) -> tuple[str, ...]:
    names = []
    for parameter, start in zip(program.parameters, program.parameter_offsets, strict=True):
        end = start + parameter.size_bytes
        if any(((places >= start) & (places < end)).any() for places in found):
            names.append(parameter.name)
    return tuple(names)


def _constants(program: Program, fixed: set[int]) -> tuple[str, ...]:
    texts = {program.specials.get(slot) or _constant(program, slot) for slot in fixed}
    return tuple(sorted(texts))


def _constant(program: Program, slot: int) -> str:
    if slot in program.shared_symbols:
        return f"address of {program.shared_symbols[slot][0]}"
    if slot in program.globals_used:
        return f"address of {program.globals_used[slot][0].name}"
    return f"0x{program.constants[slot]:x}"
