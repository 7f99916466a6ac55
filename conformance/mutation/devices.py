"""Two CPU devices: one says which lines of PTX a case reaches, the other runs a mutant in its kernel's place.

Both stand where any device stands, below the launcher: launcher, contract and cases do not know of them.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tileproof.conformance.mutation.lockstep.fact import broken
from tileproof.conformance.mutation.lockstep.premises import premises
from tileproof.conformance.mutation.mutant import Mutant, find
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.target import Coordinates
from tileproof.kernels.compile import CompiledModule
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.device import Device, Function, HasPtx, decoded
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.text.syntax import Module


@dataclass(frozen=True, order=True)
class EntryPoint:
    """An entry of a variant."""

    variant: Variant
    entry: str


class CoveringDevice(Device):
    """A CPU device that remembers which modules it loaded and which lines ran.

    Attributes:
        modules: what was loaded, by variant.
        lines: lines of the PTX text that at least one thread reached, by entry.
        thread_instructions: of all launches.

    Args:
        coordinates: where it stands in a run.
    """

    def __init__(self, coordinates: Coordinates) -> None:
        super().__init__(coordinates.arch, coordinates.schedule.value, coordinates.seed, profile=True)
        self.modules: dict[Variant, CompiledModule] = {}
        self.lines: dict[EntryPoint, set[int]] = defaultdict(set)
        self.thread_instructions = 0
        self._points: dict[int, EntryPoint] = {}

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        """See `Device.load`."""
        assert isinstance(module, CompiledModule)
        variant = Variant.of(module)
        self.modules[variant] = module
        _, programs = decoded(module.ptx, self.contraction)
        self._points |= {id(program): EntryPoint(variant, name) for name, program in programs.items()}
        return super().load(module)

    def run(self, prepared: Prepared, recorder: Any = None) -> Report:
        """See `Device.run`."""
        hold_to_premises(self._points[id(prepared.program)], prepared)
        report = super().run(prepared, recorder)
        self.lines[self._points[id(prepared.program)]] |= report.counters.lines.keys()
        self.thread_instructions += report.counters.thread_instructions
        return report


class MutatedDevice(Device):
    """A CPU device on which one entry of one module is a mutant.

    Args:
        coordinates: where it stands in a run.
        mutant: what to put in.
        program: the mutant's entry, decoded (see `mutated_program`).
        ptx: of the module that the mutant was made from.
    """

    def __init__(self, coordinates: Coordinates, mutant: Mutant, program: Program, ptx: str) -> None:
        super().__init__(coordinates.arch, coordinates.schedule.value, coordinates.seed)
        self._mutant = mutant
        self._program = program
        self._ptx = ptx

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        """See `Device.load`. Raises: Refusal where the module is not the one that the mutant was made from."""
        assert isinstance(module, CompiledModule)
        if Variant.of(module) != self._mutant.variant:
            return super().load(module)
        if module.ptx != self._ptx:
            raise Refusal(f"mutant {self._mutant.id} was made from another text of {module.name}")
        parsed, programs = decoded(module.ptx, self.contraction)
        return self.load_programs(parsed, {**programs, self._mutant.entry: self._program})


class SeekingDevice(Device):
    """A CPU device that puts a mutant in wherever it finds its id: for one that is known by name alone.

    Attributes:
        found: the mutant, once a module has it.
        module: that has it.

    Args:
        coordinates: where it stands in a run.
        name: id of the mutant.
        entry: the kernel that it lies in.
    """

    def __init__(self, coordinates: Coordinates, name: str, entry: str) -> None:
        super().__init__(coordinates.arch, coordinates.schedule.value, coordinates.seed)
        self.found: Mutant | None = None
        self.module: CompiledModule | None = None
        self._name = name
        self._entry = entry

    def load(self, module: HasPtx) -> Mapping[str, Function]:
        """See `Device.load`."""
        assert isinstance(module, CompiledModule)
        mutant = find(module, self._name, self._entry)
        if mutant is None:
            return super().load(module)
        self.found, self.module = mutant, module
        parsed, programs = decoded(module.ptx, self.contraction)
        return self.load_programs(parsed, {**programs, mutant.entry: mutated_program(mutant, parsed)})


def hold_to_premises(point: EntryPoint, prepared: Prepared) -> None:
    """Raises: Refusal where a launch is not as proofs take every launch of this entry to be."""
    shape, program = prepared.shape, prepared.program
    extents = {
        f"%{name}.{axis}": extent
        for name, three in (("ntid", shape.block), ("nctaid", shape.grid))
        for axis, extent in zip("xyz", three, strict=True)
    }
    parameters = prepared.parameters.data[: program.parameter_bytes].tobytes()
    found = broken(premises(point.variant, point.entry), parameters, program.parameter_offsets, extents)
    for words in found:
        raise Refusal(f"{point.entry}: {words}", hint="proofs of mutants rest on it: mend `lockstep.premises`")


def mutated_program(mutant: Mutant, module: Module) -> Program:
    """The mutant's entry, decoded. Raises: Refusal where it is nothing that the device models."""
    return decode_entry(module, mutant.patch.entry(module.entries[mutant.entry]))
