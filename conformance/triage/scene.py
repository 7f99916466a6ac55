"""All that triage looks at: one failed case with its inputs, what came out, and what should have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tileproof.conformance.allowed import settle
from tileproof.conformance.bits import Raw
from tileproof.conformance.case import Case
from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Arrays, Contract, Mask, Right, TensorSpec
from tileproof.conformance.finding import Finding
from tileproof.conformance.layout import POISONS


@dataclass(frozen=True)
class Scene:
    """One failed case.

    Args:
        contract: of the case.
        case: what ran.
        arch: of the device.
        values: the inputs.
        outputs: of the first launch, by tensor name; empty where nothing was launched.
        findings: of the run.
        expected: the reference that the run was held to.
        second: another reference; None if there is none.
    """

    contract: Contract
    case: Case
    arch: str
    values: Arrays
    outputs: Arrays
    findings: tuple[Finding, ...]
    expected: Callable[[Arrays, str], Right]
    second: Callable[[Arrays, str], Right] | None = None

    @cached_property
    def right(self) -> Right:
        """What should have come out."""
        return self.expected(self.values, self.arch)

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        """Outputs that were observed."""
        return {spec.name: spec for spec in self.contract.tensors(self.case.shape) if spec.name in self.outputs}

    @cached_property
    def differing(self) -> Mapping[str, Mask]:
        """Where each output is not as it should be."""
        return {name: self.disagrees(name, self.right) for name in self.specs}

    @cached_property
    def unwritten(self) -> Mapping[str, Mask]:
        """Elements that hold the first launch's poison and that a finding calls unwritten."""
        said = {finding.tensor for finding in self.findings if finding.kind == "unwritten"}
        return {name: _poisoned(self.outputs[name]) & (name in said) for name in self.specs}

    def disagrees(self, name: str, given: Right) -> Mask:
        """Where an output's bits are not the given ones, or not in the given sets."""
        wanted, seen = settle(self.specs[name].format, given[name], [raw_bits(self.outputs[name])])
        return np.asarray(wanted != seen)

    @property
    def count(self) -> int:
        """Elements that differ and were written."""
        return sum(int((self.differing[name] & ~self.unwritten[name]).sum()) for name in self.specs)


def _poisoned(values: Raw) -> Mask:
    each = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, values.dtype.itemsize)
    return np.asarray((each == POISONS[0]).any(axis=-1))
