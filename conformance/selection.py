"""Which cases run: by exact id, by glob, by tier, or made from a user's own tensors."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from tileproof.conformance.case import Case, Dimension, Shape, parse_case
from tileproof.conformance.contract import FILE_FAMILY, REFUSED, Contract, TensorSpec, Tier
from tileproof.conformance.input_file import InputFile, NamedTensor
from tileproof.conformance.registry import contract_of, contracts
from tileproof.conformance.session import GivenInputs
from tileproof.oracle.refusal import Refusal

_GLOB = frozenset("*?[")


def select(
    selectors: Sequence[str],
    tier: Tier | None = None,
    *,
    contract: str | None = None,
    among: Sequence[Contract] | None = None,
) -> tuple[Case, ...]:
    """The cases that the selectors name, each once, in the order of the contracts.

    Args:
        selectors: exact ids or globs; none for the whole tier. An exact id may also be one that no tier lists,
            with another seed or shape for instance, if its contract knows the parts.
        tier: smoke where nothing is said; with selectors, full.
        contract: only cases of this one.
        among: contracts to select from; None for all.

    Raises:
        Refusal: a selector that matches nothing, with near matches; nothing collected.
    """
    listed = _catalogue(tier or (Tier.FULL if selectors else Tier.SMOKE), among or list(contracts().values()))
    catalogue = {str(case): case for case in listed}
    chosen = {case for selector in selectors for case in _matching(selector, catalogue)}
    extra = [case for case in chosen if str(case) not in catalogue]
    ordered = [case for case in catalogue.values() if not selectors or case in chosen] + sorted(extra, key=str)
    cases = tuple(case for case in ordered if contract in (None, case.contract))
    if chosen and not cases:
        raise Refusal(f"no selected case is of {contract}", hint=f"select cases of it, for example '{contract}/*'")
    if not cases:
        raise Refusal(f"no case collected for {contract or 'any contract'}", hint="`tileproof list` shows all cases")
    return cases


def cases_for_file(
    file: InputFile, selectors: Sequence[str] = (), *, contract: str | None = None
) -> Mapping[Case, GivenInputs]:
    """One case for each tensor of the file and each contract and kernel that takes one such input.

    The seed of such an id is the tensor's place in the file. Selectors narrow the choice down, and so does the name of
    a contract.

    Raises:
        Refusal: no contract takes the file's tensors, or no selector matches.
    """
    made = {
        case: GivenInputs({spec.name: tensor.array}, f"{file.path}:{tensor.name}")
        for known in contracts().values()
        if contract in (None, known.name)
        for tensor in file.tensors
        for case, spec in _cases_for_tensor(known, tensor)
    }
    ids = {str(case): case for case in made}
    if not made:
        who = "no contract takes its tensors" if contract is None else f"{contract} takes none of its tensors"
        raise Refusal(f"{file.path}: {who}", hint="`tileproof list` shows the contracts")
    if not selectors:
        return made
    chosen = {case for selector in selectors for case in _matching(selector, ids)}
    return {case: given for case, given in made.items() if case in chosen}


def near_matches(name: str, known: Iterable[str]) -> str:
    """A hint with the known names nearest to `name`."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return "did you mean " + ", ".join(near) if near else "`tileproof list` shows what there is"


def _catalogue(tier: Tier, among: Sequence[Contract]) -> list[Case]:
    return [case for contract in among for case in contract.cases(tier)]


def _matching(selector: str, catalogue: Mapping[str, Case]) -> list[Case]:
    if _GLOB.intersection(selector):
        found = [case for name, case in catalogue.items() if fnmatchcase(name, selector)]
        if not found:
            raise Refusal(f"no case matches {selector!r}", hint=_near_part(selector, catalogue))
        return found
    if selector in catalogue:
        return [catalogue[selector]]
    if any(name.startswith(f"{selector.rstrip('/')}/") for name in catalogue):
        raise Refusal(f"{selector!r} is the beginning of case ids", hint=f"use the glob '{selector.rstrip('/')}/*'")
    return [_unlisted(selector, catalogue)]


def _near_part(selector: str, catalogue: Iterable[str]) -> str:
    """A hint with the first part of a glob that no id has beside the parts before it, and what is near to it."""
    ids = [name.split("/") for name in catalogue]
    for at, part in enumerate(selector.split("/")):
        there = [one for one in ids if at < len(one)]
        left = [one for one in there if fnmatchcase(one[at], part)]
        if not left:
            known = dict.fromkeys(one[at] for one in there)
            return f"{part!r} is no part of an id there; {near_matches(part, known)}"
        ids = left
    return near_matches(selector, catalogue)


def _unlisted(selector: str, catalogue: Mapping[str, Case]) -> Case:
    if Path(selector).is_file():
        raise Refusal(f"{selector!r} is a file, not a case id", hint=f"your own tensors: --input {selector}")
    case = _parsed(selector, catalogue)
    try:
        contract_of(case).check(case)
    except Refusal as refusal:
        hint = "; ".join(text for text in (near_matches(selector, catalogue), refusal.hint) if text)
        raise Refusal(f"unknown case {selector!r}: {refusal.message}", hint=hint) from None
    return case


def _parsed(selector: str, catalogue: Mapping[str, Case]) -> Case:
    """The case that a text spells. Raises: Refusal with the nearest ids."""
    try:
        return parse_case(selector)
    except Refusal as refusal:
        why = refusal.message.removeprefix(f"case id {selector!r} ")
        raise Refusal(f"unknown case {selector!r}: {why}", hint=_of_contract(selector, catalogue)) from None


def _of_contract(selector: str, catalogue: Mapping[str, Case]) -> str:
    """A hint for what is no id: the glob of the contract or kernel that is called nearly so, or the nearest ids."""
    globs = {case.kernel: f"*/{case.kernel}/*" for case in catalogue.values()}
    globs |= {case.contract: f"{case.contract}/*" for case in catalogue.values()}
    near = difflib.get_close_matches(selector, globs, n=1)
    return f"did you mean the glob '{globs[near[0]]}'" if near else near_matches(selector, catalogue)


def _cases_for_tensor(contract: Contract, tensor: NamedTensor) -> list[tuple[Case, TensorSpec]]:
    """The cases of one contract for one tensor: its only input must have the tensor's shape and type."""
    for dtype in contract.dtypes:
        if len(contract.dimensions) != tensor.array.ndim:
            continue
        extents = zip(contract.dimensions, tensor.array.shape, strict=True)
        shape = Shape(tuple(Dimension(name, size) for name, size in extents), dtype)
        try:
            inputs = [spec for spec in contract.tensors(shape) if spec.role.is_read]
            routes = [route for route in contract.expected_routes(shape) if route != REFUSED]
        except Refusal:  # extents that mean nothing to this contract
            continue
        if len(inputs) == 1 and _fits(inputs[0], tensor.array) and routes:
            return [
                (Case(contract.name, name, route, shape, FILE_FAMILY, tensor.index), inputs[0])
                for name in contract.routes
                for route in routes
            ]
    return []


def _fits(spec: TensorSpec, array: np.ndarray[Any, Any]) -> bool:
    return bool(spec.dtype == array.dtype) and spec.shape == array.shape
