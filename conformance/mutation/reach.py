"""Which cases reach which instructions, and what they cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tileproof.conformance.case import Case
from tileproof.conformance.mutation.devices import CoveringDevice, EntryPoint
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import run_case
from tileproof.conformance.target import Coordinates
from tileproof.conformance.worker import step_budget
from tileproof.kernels.compile import CompiledModule
from tileproof.oracle.refusal import Refusal


@dataclass
class Reach:
    """What the cases of a kernel run.

    Attributes:
        modules: of the kernel, by variant.
        lines: PTX lines that some case reaches, by entry.
        cost: thread instructions of each case that runs the kernel at all.
    """

    modules: dict[Variant, CompiledModule] = field(default_factory=dict)
    lines: dict[EntryPoint, set[int]] = field(default_factory=lambda: defaultdict(set))
    cost: dict[Case, int] = field(default_factory=dict)
    _by_case: dict[Case, Mapping[EntryPoint, set[int]]] = field(default_factory=dict)

    def add(self, case: Case, device: CoveringDevice, kernel: str) -> None:
        """What one case did on a device."""
        lines = {point: found for point, found in device.lines.items() if point.variant.kernel == kernel}
        if not lines:
            return
        self.cost[case] = device.thread_instructions
        self._by_case[case] = lines
        for point, found in lines.items():
            self.modules[point.variant] = device.modules[point.variant]
            self.lines[point] |= found

    def cases(self, mutant: Mutant) -> tuple[Case, ...]:
        """The cases that reach a mutant's instruction, the cheapest first."""
        point = EntryPoint(mutant.variant, mutant.entry)
        found = [case for case, lines in self._by_case.items() if mutant.ptx_line in lines.get(point, ())]
        return tuple(sorted(found, key=lambda case: (self.cost[case], str(case))))


def reach(kernel: str, cases: Iterable[Case], coordinates: Coordinates) -> Reach:
    """Run every case once on the kernel as shipped.

    Raises:
        Refusal: a case has a finding, so that nothing it says of a mutant would mean anything.
    """
    found = Reach()
    for case in cases:
        if contract_of(case).obstacle(case, coordinates.arch) is not None:
            continue
        device = CoveringDevice(coordinates)
        device.step_budget = step_budget(case)
        result = run_case(case, device)
        if result.findings:
            raise Refusal(f"case {case} fails with the kernel as shipped: {result.findings[0].message}")
        found.add(case, device, kernel)
    return found
