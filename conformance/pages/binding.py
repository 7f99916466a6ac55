"""A page at its place: what its functions say for one shape, checked, so that a slip is told before anything runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.case import Case, Shape
from tileproof.conformance.contract import REFUSED, Allowed, Arrays, Contract, TensorSpec
from tileproof.conformance.layout import strides_of
from tileproof.conformance.pages.types import element_type
from tileproof.conformance.pages.user_code import PageError, call_named, defined_at
from tileproof.conformance.pages.vocabulary import Launch, Page, Placed, Python, TensorDeclaration
from tileproof.conformance.registry import built_in
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.oracle.refusal import Refusal

OWN = "own"
"""The route of a user's kernel: what it does inside is not known here."""

_NOT_A_LETTER = re.compile(r"[^a-z]+")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, eq=False)
class BoundPage:
    """A page and the file that it stands in.

    Args:
        page: as written.
        path: of the file; paths in the page begin at its folder.
    """

    page: Page
    path: Path

    @property
    def folder(self) -> Path:
        """Where the page's paths begin."""
        return self.path.parent

    @cached_property
    def kernel_name(self) -> str:
        """The kernel in case ids: the file's stem, or the function's name."""
        kernel = self.page.kernel
        name = getattr(kernel.function, "__name__", "") if isinstance(kernel, Python) else Path(kernel.file).stem
        return _NOT_IN_A_NAME.sub("_", name.lower()).strip("_") or "kernel"

    @cached_property
    def taken_from(self) -> "TakenFrom | None":
        """The contract of ours that judges, where the page names one."""
        return TakenFrom.of(self.page.like) if self.page.like else None

    def sizes(self, shape: Shape) -> dict[str, int]:
        """Sizes by name."""
        return {dimension.name: dimension.size for dimension in shape.dimensions}

    def declarations(self, shape: Shape) -> tuple[TensorDeclaration, ...]:
        """The tensors that the page declares, scratch included. Raises: PageError."""
        if self.page.tensors is None:
            return ()
        made = call_named(self.page.tensors, self.sizes(shape))
        listed = [made] if isinstance(made, TensorDeclaration) else list(made)
        at = defined_at(self.page.tensors)
        for one in listed:
            if not isinstance(one, TensorDeclaration):
                raise PageError(f"{at} gives {one!r}", hint='tensors are Input("x", "f32", (T, K)), Output(...), ...')
            _check_declaration(at, one)
        names = [one.name for one in listed]
        if twice := next((name for name in names if names.count(name) > 1 or name in self.page.sizes), None):
            raise PageError(
                f"{at}: the name {twice!r} is taken twice", hint="tensors and sizes have names of their own"
            )
        return tuple(listed)

    def specs(self, shape: Shape) -> tuple[TensorSpec, ...]:
        """The tensors that are laid out and judged."""
        if self.taken_from is not None:
            return self.taken_from.contract.tensors(shape)
        declared = [one for one in self.declarations(shape) if one.role is not None]
        shorts = _shorts([one.name for one in declared])
        return tuple(_spec(one, short, shape) for one, short in zip(declared, shorts, strict=True))

    def scratch(self, shape: Shape) -> tuple[TensorDeclaration, ...]:
        """Working memory, which is not."""
        return tuple(one for one in self.declarations(shape) if one.role is None)

    def launches(self, shape: Shape) -> tuple[Launch, ...]:
        """The launches of one shape, in order. Raises: PageError."""
        if self.page.launch is None:
            return ()
        known: dict[str, Any] = dict(self.sizes(shape))
        known |= {spec.name: Placed(spec.name, spec.shape, strides_of(spec), spec.offset) for spec in self.specs(shape)}
        known |= {one.name: Placed(one.name, one.shape, _strides(one.shape)) for one in self.scratch(shape)}
        made = call_named(self.page.launch, known)
        listed = [] if made is None else [made] if isinstance(made, Launch) else list(made)
        for one in listed:
            if not isinstance(one, Launch):
                raise PageError(
                    f"{defined_at(self.page.launch)} gives {one!r}", hint="it returns Launch(...), or several"
                )
        return tuple(listed)

    def route(self, shape: Shape) -> str:
        """`own`, or `empty` where the page launches nothing."""
        is_callable = isinstance(self.page.kernel, Python)
        return OWN if is_callable or self.launches(shape) else NOTHING_TO_LAUNCH

    def right(self, case: Case, values: Arrays) -> Mapping[str, NDArray[Any] | Allowed]:
        """What the page's `expected` gives, checked. Raises: PageError."""
        function = self.page.expected
        assert function is not None
        given = {name: array.copy() for name, array in values.items()}
        made = call_named(function, {**self.sizes(case.shape), **given})
        outputs = [spec for spec in self.specs(case.shape) if spec.role.is_written]
        at = defined_at(function)
        named = by_name(made, [spec.name for spec in outputs], at)
        return {spec.name: _checked_output(at, spec, named[spec.name]) for spec in outputs}


@dataclass(frozen=True, eq=False)
class TakenFrom:
    """A contract of ours, and the kernel and route whose right outputs are meant."""

    contract: Contract
    kernel: str
    route: str

    @classmethod
    def of(cls, text: str) -> "TakenFrom":
        """From `contract`, `contract/kernel` or `contract/kernel/route`. Raises: PageError with what is known."""
        name, _, rest = text.partition("/")
        known = built_in()
        if name not in known:
            raise PageError(f"like={text!r}: no contract {name!r}", hint="contracts are " + ", ".join(known))
        contract = known[name]
        kernel, _, route = rest.partition("/")
        kernel = kernel or next(iter(contract.routes))
        if kernel not in contract.routes:
            raise PageError(f"like={text!r}: no kernel {kernel!r}", hint="it has " + ", ".join(contract.routes))
        if route and route not in contract.routes[kernel]:
            raise PageError(f"like={text!r}: no route {route!r}", hint="it has " + ", ".join(contract.routes[kernel]))
        return cls(contract, kernel, route)

    def case(self, case: Case) -> Case:
        """Our case with the same inputs and the same right outputs. Raises: PageError where there is none."""
        try:
            routes = [route for route in self.contract.expected_routes(case.shape) if route != REFUSED]
            if not routes:
                raise PageError(f"{self.contract.name} refuses the shape {case.shape}")
            route = self.route or routes[0]
            ours = Case(self.contract.name, self.kernel, route, case.shape, case.family, case.seed)
            self.contract.check(ours)
        except PageError:
            raise
        except Refusal as refusal:
            raise PageError(f"like {self.contract.name}: {refusal.message}", hint=refusal.hint) from None
        return ours


def by_name(made: Any, outputs: Sequence[str], at: str) -> dict[str, Any]:
    """What a function returned, by output: one array, a tuple in order, or a mapping. Raises: PageError."""
    if isinstance(made, Mapping):
        named = dict(made)
    elif isinstance(made, tuple | list):
        if len(made) != len(outputs):
            raise PageError(f"{at} gives {len(made)} arrays", hint=f"outputs are {', '.join(outputs)}")
        named = dict(zip(outputs, made, strict=True))
    elif len(outputs) == 1:
        named = {outputs[0]: made}
    else:
        raise PageError(f"{at} gives one {type(made).__name__}", hint=f"outputs are {', '.join(outputs)}")
    if set(named) != set(outputs):
        raise PageError(
            f"{at} gives {', '.join(map(str, named)) or 'nothing'}", hint=f"outputs are {', '.join(outputs)}"
        )
    return named


def _check_declaration(at: str, one: TensorDeclaration) -> None:
    if not isinstance(one.name, str) or not one.name.isidentifier():
        raise PageError(f"{at}: {one.name!r} is no name of a tensor", hint="a name that Python takes as a parameter")
    try:
        element_type(one.type)
    except Refusal as refusal:
        raise PageError(f"{at}: tensor {one.name}: {refusal.message}", hint=refusal.hint) from None
    if not all(isinstance(extent, int | np.integer) and extent >= 0 for extent in one.shape):
        raise PageError(f"{at}: tensor {one.name} has shape {one.shape}", hint="extents are whole numbers from 0 on")


def _spec(one: TensorDeclaration, short: str, shape: Shape) -> TensorSpec:
    kind, view = element_type(one.type), shape.view(short)
    assert one.role is not None
    extents = tuple(map(int, one.shape))
    return TensorSpec(one.name, short, one.role, kind.dtype, kind.format, extents, view.pad, view.offset)


def _shorts(names: Sequence[str]) -> list[str]:
    """What views call the tensors: the letters of their names, made different by an x."""
    shorts: list[str] = []
    for name in names:
        short = _NOT_A_LETTER.sub("", name.lower()) or "x"
        while short in shorts:
            short += "x"
        shorts.append(short)
    return shorts


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))


def _checked_output(at: str, spec: TensorSpec, value: Any) -> NDArray[Any] | Allowed:
    if isinstance(value, Allowed):
        return Allowed(_checked_array(at, spec, value.lower), _checked_array(at, spec, value.upper))
    return _checked_array(at, spec, value)


def _checked_array(at: str, spec: TensorSpec, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.shape != spec.shape:
        raise PageError(f"{at} gives {spec.name} the shape {array.shape}", hint=f"{spec.name} is {spec.shape}")
    if array.dtype != spec.dtype:
        raise PageError(
            f"{at} gives {spec.name} as {array.dtype.name}; it is {spec.dtype.name}",
            hint=f"round it yourself: {_conversion(spec)}",
        )
    return array


def _conversion(spec: TensorSpec) -> str:
    if spec.dtype.kind == "u" and not spec.format.startswith("UINT"):
        return f"tileproof.oracle.formats.{spec.format}.encode({spec.name})"
    return f"{spec.name}.astype({'ml_dtypes.bfloat16' if spec.format == 'BFLOAT16' else f'np.{spec.dtype.name}'})"
