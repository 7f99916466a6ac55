"""Pages of tests: a page's text in a file, judged case by case in this process."""

from pathlib import Path

from tileproof.conformance.contract import Contract, Tier
from tileproof.conformance.finding import Finding
from tileproof.conformance.pages.page_file import checked_contract, load_pages
from tileproof.conformance.pages.single import SingleVerdict, judge
from tileproof.conformance.target import Coordinates, Target

HEAD = """
import numpy as np
from tileproof.conformance.pages import *
"""

DOUBLE = (
    HEAD
    + """
def double(x):
    return 2 * x

def tensors(N):
    return Input("x", "f32", (N,)), Output("y", "f32", (N,))

def expected(x):
    return 2 * x

PAGE = Page("double", Python(double), {"N": (5,)}, tensors=tensors, expected=expected, families=("normal",))
"""
)
"""A right page, from which wrong ones are made by replacing a piece."""


def written(folder: Path, text: str, name: str = "a_page.py") -> Path:
    """A page's file."""
    path = folder / name
    path.write_text(text)
    return path


def contract_in(folder: Path, text: str) -> Contract:
    """The contract of the first page in a text."""
    return checked_contract(load_pages(written(folder, text))[0])


def verdicts(folder: Path, text: str, target: Target = Target.HOST) -> list[SingleVerdict]:
    """What each smoke case of a page came to."""
    contract = contract_in(folder, text)
    place = Coordinates(target)
    page = folder / "a_page.py"
    return [judge(case, contract, place, page, folder / "crashes") for case in contract.cases(Tier.SMOKE)]


def findings(folder: Path, text: str, target: Target = Target.HOST) -> list[Finding]:
    """All findings of all smoke cases; every case must have come to a result."""
    results = [verdict.result for verdict in verdicts(folder, text, target)]
    assert None not in results
    return [finding for result in results if result is not None for finding in result.findings]
