"""What one operator must do, as a record that the runner can use without knowing the operator.

A contract is data and a few pure functions: its rules (printed with each failure), its tensors for a shape, its
cases by tier, the inputs of a case, the expected outputs of given inputs, and how to launch its kernels. An operator
is added by a further file that builds such a record and a line in `registry`; the runner stays as it is.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case, Shape
from tileproof.conformance.division import Divides
from tileproof.conformance.properties.declaration import Declarations
from tileproof.conformance.space import Space
from tileproof.kernels.device import Device
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

Arrays = Mapping[str, NDArray[Any]]
Mask = NDArray[np.bool_]
Run = Callable[[Case, Mapping[str, Tensor]], Launch]
"""Launches a case on tensors, on its route where the kernel lets one choose."""

FILE_FAMILY = "file"
"""The family of cases whose inputs are a user's own tensors: they come with the run, not from a generator."""

REFUSED = "refused"
"""The route of a case that the launcher must refuse."""


class Tier(StrEnum):
    """How much is run, each containing the one before.

    Smoke with every change, in a minute; full takes some twenty on two cores. Soak is full, and shapes that take three
    seconds and more each; its runs have no end: pass after pass, with other seeds.
    """

    SMOKE = "smoke"
    FULL = "full"
    SOAK = "soak"


class Comparison(StrEnum):
    """How a verdict is reached; there is no percentage and no tuned tolerance."""

    BITS = "bits"
    ROUTE_BITS = "route-bits"
    SET = "set"
    BOUND = "bound"
    REPEAT = "repeat"
    """Nothing says what is right: outputs are held to a second run with other poison alone."""


class Role(StrEnum):
    """What the kernel may do with a tensor."""

    INPUT = "input"
    OUTPUT = "output"
    IN_PLACE = "in place"

    @property
    def is_read(self) -> bool:
        """Whether the tensor holds values before the launch."""
        return self is not Role.OUTPUT

    @property
    def is_written(self) -> bool:
        """Whether the tensor holds results after it."""
        return self is not Role.INPUT


@dataclass(frozen=True, eq=False)
class Allowed:
    """Sets of right results: every value from `lower` to `upper`, element by element; alike where there is one."""

    lower: NDArray[Any]
    upper: NDArray[Any]


Right = Mapping[str, NDArray[Any] | Allowed]
"""The right outputs by tensor name, contiguous."""


@dataclass(frozen=True)
class EditedSource:
    """A kernel's file with other text than the shipped one, for seeding a fault.

    Args:
        name: stem of a kernel's file, or the name of a host file, which ends in ".py".
        text: CUDA C++, or Python.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Rule:
    """One declared choice, for example rounding: nearest, ties to even. `source` says who decided."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of one shape: what it holds and how it lies in its allocation.

    Args:
        name: the key in inputs, outputs and launch.
        short: the name in the shape token's views.
        role: input or output.
        dtype: element type (ml_dtypes.bfloat16 for bf16; uint8 for 8-bit codes).
        format: name of the number format, for the report: a key of FORMATS or INTEGER_FORMATS, "BFLOAT16", "FLOAT16",
            "FLOAT32".
        shape: extents; only the first dimension can have a row stride of its own.
        pad: elements from the end of a row to the next row.
        offset: elements from an aligned address to the first element.
    """

    name: str
    short: str
    role: Role
    dtype: np.dtype[Any]
    format: str
    shape: tuple[int, ...]
    pad: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Contract:
    """One operator's contract; the module docstring says what for.

    Args:
        name: stable name, the first part of its case ids.
        summary: one line.
        comparison: how outputs are judged.
        rules: declared choices, printed with each failure.
        properties: what it says of each property of the catalogue; nothing for a page of a user's.
        routes: kernel name to the routes that it can take.
        dimensions: names of the shape's dimensions, in order.
        dtypes: element types of the shape token; "" alone for shapes that name none.
        families: names of the input families (FILE_FAMILY is understood besides).
        generator_version: raised whenever a family gives other data for the same id.
        tensors: shape to its tensors, in launch order.
        cases: the cases of a tier, in a fixed order.
        inputs: the generated inputs of a case, by tensor name, contiguous.
        expected: the right outputs of a case for given inputs, on an architecture such as "sm_90a".
        expected_routes: the routes that a shape can take, from the rule in the contract, not from the kernel's
            selector; REFUSED alone where the launcher must refuse. More than one where the caller may choose.
        classes: inputs and right outputs to input classes for each output, as masks of that output's shape: which
            elements are ties, ... Where a set is right, one of its values is given.
        witnesses: an output's name and an index in it, to the values that explain that element: (tensor name, index).
        kernel: device, kernel name and an edited source (None: all as shipped) to a function that launches on tensors.
        any_nan: formats of which any NaN is right where one is expected: sign and payload are nobody's rule.
        obstacle: why a case cannot run on an architecture, in words; None where it can.
        like: the contract of ours that judges a user's page, whose wrong rules triage tries; empty for others.
        divisions: a case to how its kernel divides its outputs among tiles, warps and lanes, by output, where that is
            known.
        space: from where a search draws parameters; None where nothing is said: only what the full tier has.
    """

    name: str
    summary: str
    comparison: Comparison
    rules: tuple[Rule, ...]
    properties: Declarations
    routes: Mapping[str, tuple[str, ...]]
    dimensions: tuple[str, ...]
    dtypes: tuple[str, ...]
    families: tuple[str, ...]
    generator_version: int
    tensors: Callable[[Shape], tuple[TensorSpec, ...]]
    cases: Callable[[Tier], Sequence[Case]]
    inputs: Callable[[Case], Arrays]
    expected: Callable[[Case, Arrays, str], Right]
    expected_routes: Callable[[Shape], tuple[str, ...]]
    classes: Callable[[Arrays, Arrays], Mapping[str, Mapping[str, Mask]]]
    witnesses: Callable[[str, tuple[int, ...]], tuple[tuple[str, tuple[int, ...]], ...]]
    kernel: Callable[[Device, str, EditedSource | None], Run]
    any_nan: tuple[str, ...] = ()
    obstacle: Callable[[Case, str], str | None] = lambda case, arch: None
    like: str = ""
    divisions: Callable[[Case], Mapping[str, Divides]] = lambda case: {}
    space: Space | None = None

    def check(self, case: Case) -> None:
        """Refuse a case whose parts this contract does not know, with near matches.

        Raises:
            Refusal: naming the part and what is known.
        """
        _known("kernel", case.kernel, self.routes)
        _known("route", case.route, self.routes[case.kernel])
        _known("input family", case.family, (*self.families, FILE_FAMILY))
        self._check_dtype(case.shape)
        names = tuple(dimension.name for dimension in case.shape.dimensions)
        if names != self.dimensions:
            raise Refusal(
                f"shape {case.shape} has dimensions {names}, not {self.dimensions}", hint=f"as {self._example()}"
            )
        specs = {spec.short: spec for spec in self.tensors(case.shape)}
        for view in case.shape.views:
            _known("tensor in a view", view.tensor, specs)
            if view.pad and len(specs[view.tensor].shape) < 2:
                raise Refusal(f"shape {case.shape} pads {specs[view.tensor].name}, which has no rows")
        routes = self.expected_routes(case.shape)
        if case.route not in routes:
            known = " or ".join(routes)
            raise Refusal(
                f"case {case} cannot take route {case.route}: its shape takes {known}", hint=f"use route {known}"
            )

    def _check_dtype(self, shape: Shape) -> None:
        if bool(shape.dtype) == any(self.dtypes):
            return _known("element type", shape.dtype, self.dtypes)
        wrong = f"has element type {shape.dtype}" if shape.dtype else "has no element type"
        raise Refusal(f"shape {shape} {wrong}", hint=f"as {self._example()}")

    def _example(self) -> str:
        return str(self.cases(Tier.SMOKE)[0].shape)


def _known(what: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=3) or names
    raise Refusal(f"unknown {what} {name!r}", hint="did you mean " + ", ".join(near))
