"""One case that gave different outputs on two targets, and how the CPU device runs it once more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tileproof.conformance.allowed import settle
from tileproof.conformance.bits import Raw
from tileproof.conformance.case import Case
from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Arrays, Comparison, Contract, EditedSource, Mask, Right, TensorSpec
from tileproof.conformance.layout import lay_out
from tileproof.conformance.run_case import launcher, observe, outputs_of
from tileproof.conformance.target import Coordinates, Target
from tileproof.kernels.watch import Launched, watched
from tileproof.simulators.ptx.device import Device


@dataclass(frozen=True)
class Side:
    """What one target gave.

    Args:
        place: where.
        outputs: of the first launch, by tensor name.
    """

    place: Coordinates
    outputs: Arrays

    @property
    def name(self) -> str:
        """Of the target."""
        return str(self.place.target)


@dataclass(frozen=True)
class Again:
    """One more launch on the CPU device.

    Args:
        outputs: by tensor name.
        ends: for each output the smallest and the largest bits that approximate functions leave open.
        launched: what ran.
    """

    outputs: Arrays
    ends: Mapping[str, tuple[Raw, Raw]]
    launched: tuple[Launched, ...]


@dataclass(frozen=True)
class Pair:
    """One case with two outcomes.

    Args:
        contract: of the case.
        case: what ran.
        values: the inputs.
        sides: what both targets gave.
        expected: the reference that the run was held to.
        source: the edited kernel, where a deliberate defect is in.
    """

    contract: Contract
    case: Case
    values: Arrays
    sides: tuple[Side, Side]
    expected: Callable[[Arrays, str], Right]
    source: EditedSource | None = None

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        """Outputs that both have."""
        written = [spec for spec in self.contract.tensors(self.case.shape) if spec.role.is_written]
        return {spec.name: spec for spec in written if all(spec.name in side.outputs for side in self.sides)}

    @cached_property
    def right(self) -> Right | None:
        """What should have come out; None where the contract knows nothing of it."""
        if self.contract.comparison is Comparison.REPEAT:
            return None
        return self.expected(self.values, self.sides[0].place.arch)

    @cached_property
    def differing(self) -> Mapping[str, Mask]:
        """Where the two differ."""
        ours, theirs = (side.outputs for side in self.sides)
        return {name: np.asarray(raw_bits(ours[name]) != raw_bits(theirs[name])) for name in self.specs}

    @property
    def count(self) -> int:
        """Elements that differ."""
        return sum(int(mask.sum()) for mask in self.differing.values())

    @property
    def simulated(self) -> Side | None:
        """The CPU device's, if one of them is."""
        return next((side for side in self.sides if side.place.target is Target.SIM), None)

    @property
    def other(self) -> Side:
        """The one beside the CPU device's; the second where there is none."""
        return next((side for side in self.sides if side.place.target is not Target.SIM), self.sides[1])

    def wrong(self, side: Side) -> int:
        """Elements of a side that are not as the reference says."""
        assert self.right is not None
        count = 0
        for name, spec in self.specs.items():
            expected, seen = settle(spec.format, self.right[name], [raw_bits(side.outputs[name])])
            count += int((expected != seen).sum())
        return count

    def again(self, device: Device) -> Again:
        """The case once more on a CPU device, with the poison and the place of shared memory of a first launch."""
        layouts = tuple(lay_out(spec, exact_bounds=True) for spec in self.contract.tensors(self.case.shape))
        run = partial(launcher(self.contract.name, device, self.case.kernel, self.source), self.case)
        with watched() as launched:
            seen = observe(layouts, self.values, device, run, 0, True)
        ends = {
            layout.spec.name: (layout.elements(low), layout.elements(high))
            for layout in layouts
            if layout.spec.name in seen.ends
            for low, high in (seen.ends[layout.spec.name],)
        }
        return Again(outputs_of(layouts, seen), ends, tuple(launched))

    def same(self, outputs: Arrays, side: Side) -> bool:
        """Whether outputs are a side's, bit by bit."""
        return bool(outputs) and all(
            np.array_equal(raw_bits(outputs[name]), raw_bits(side.outputs[name])) for name in self.specs
        )
