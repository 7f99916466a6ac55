"""The contracts that this suite knows, by name, and the cases that ids name."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from tileproof.conformance.astrai_linear import CONTRACTS as ASTRAI_LINEAR
from tileproof.conformance.astrai_mm_fp8 import ASTRAI_MM_FP8
from tileproof.conformance.astrai_quantize import ASTRAI_QUANTIZE
from tileproof.conformance.astrai_scale_products import ASTRAI_SCALE_PRODUCTS
from tileproof.conformance.case import Case, parse_case
from tileproof.conformance.contract import Contract
from tileproof.conformance.metainfer_pack import METAINFER_PACK
from tileproof.conformance.metainfer_w8a8_gemm import METAINFER_W8A8_GEMM
from tileproof.conformance.ninfer_gemm import CONTRACTS as NINFER_GEMM
from tileproof.conformance.ninfer_quantize import NINFER_QUANTIZE
from tileproof.oracle.refusal import Refusal

_pages: dict[str, Contract] = {}
"""Contracts of pages that this process was told to load."""


def contracts() -> Mapping[str, Contract]:
    """All contracts by name, in the order in which they run: the suite's own, then those of loaded pages."""
    return {**built_in(), **_pages} if _pages else built_in()


@contextmanager
def registered(made: Sequence[Contract]) -> Iterator[None]:
    """Let these contracts be known too.

    Raises:
        Refusal: a name is taken.
    """
    for contract in made:
        if contract.name in contracts():
            raise Refusal(f"the contract name {contract.name!r} is taken", hint="give the page another name")
        _pages[contract.name] = contract
    try:
        yield
    finally:
        for contract in made:
            _pages.pop(contract.name, None)


@cache
def built_in() -> Mapping[str, Contract]:
    """The suite's own contracts by name."""
    metainfer = (METAINFER_PACK, METAINFER_W8A8_GEMM)
    astrai = (ASTRAI_QUANTIZE, ASTRAI_MM_FP8, *ASTRAI_LINEAR, ASTRAI_SCALE_PRODUCTS)
    known = (NINFER_QUANTIZE, *NINFER_GEMM, *astrai, *metainfer)
    return {contract.name: contract for contract in known}


def contract_of(case: Case) -> Contract:
    """The contract of a case. Raises: Refusal for an unknown name, with near matches."""
    known = contracts()
    if case.contract not in known:
        near = difflib.get_close_matches(case.contract, known, n=3) or list(known)
        raise Refusal(f"unknown contract {case.contract!r}", hint="did you mean " + ", ".join(near))
    return known[case.contract]


def find_case(text: str) -> Case:
    """The case that an id names, with every part known to its contract. Raises: Refusal naming the part."""
    case = parse_case(text)
    contract_of(case).check(case)
    return case
