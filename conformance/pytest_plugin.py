"""pytest: one decorator makes a test of each case of a page, and a failure of it ends in its replay command.

    from tileproof.conformance.pytest_plugin import judged

    @judged("scale_rows_page.py")
    def test_scale_rows(result):
        '''The case is judged before this body, which may ask more of its result.'''

The page is a file beside the test, or a `Page` at the top of the test file itself. Cases run in this process, on a GPU
in a worker. `pytest --help` lists the options of the group "tileproof".

pytest loads this file in every run where tileproof is installed, so it imports nothing heavy before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from tileproof.conformance.case import Case
    from tileproof.conformance.contract import Contract
    from tileproof.conformance.pages import Page
    from tileproof.conformance.pages.binding import BoundPage

Test = TypeVar("Test", bound=Callable[..., Any])

MARK = "tileproof"
TARGETS, TIERS, SCHEDULES = ("sim", "gpu", "host"), ("smoke", "full", "soak"), ("adversarial", "friendly")
"""As `Target`, `Tier` and `Schedule` have them, which are not imported yet: a test holds them together."""

ARGUMENT = "result"
"""What a judged test takes: the case's `CaseResult`."""


@dataclass(frozen=True)
class PageCase:
    """One case of a page: the parameter of one test.

    Args:
        case: it.
        contract: the page's.
        path: the page's file.
        target: where it runs.
    """

    case: Case
    contract: Contract
    path: Path
    target: str

    def __str__(self) -> str:
        return str(self.case)


def judged(page: str | Path | Page, *, tier: str = "smoke", target: str = "") -> Callable[[Test], Test]:
    """Make a test of each case of a page.

    Args:
        page: its file, from the test's folder; or the page, which stands at the top of the test's own file.
        tier: "smoke", "full" or "soak", where the command line does not say.
        target: "sim", "gpu" or "host", where the command line does not say; empty for the usual one of the kernel.
    """
    return pytest.mark.tileproof(page=page, tier=tier, target=target)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the group tileproof."""
    group = parser.getgroup("tileproof", "kernels judged by contract pages")
    group.addoption("--tileproof-target", default="", choices=TARGETS, help="instead of what the tests say")
    group.addoption("--tileproof-tier", default="", choices=TIERS, help="instead of what the tests say")
    group.addoption("--tileproof-schedule", default="adversarial", choices=SCHEDULES, help="of the simulator")
    group.addoption("--tileproof-seed", default=0, type=int, help="of the simulator's schedule")
    group.addoption("--tileproof-arch", default="sm_90a", help="to compile for and to simulate")
    group.addoption("--tileproof-crash-dir", default=".tileproof/crashes", help="folder of crash files")


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark."""
    config.addinivalue_line("markers", f"{MARK}(page, tier, target): a test of each case of a contract page")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each case; what is wrong with a page is an error of collection in one line."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    if ARGUMENT not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: a judged test takes `{ARGUMENT}`")
    from tileproof.oracle.refusal import Refusal

    try:
        cases = list(_cases(metafunc, **mark.kwargs))
    except (Refusal, ValueError) as refusal:  # ValueError: another word for tier than there is
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {refusal}") from None
    metafunc.parametrize(ARGUMENT, cases, ids=str)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Judge the case, then run the test's body on its result."""
    one = pyfuncitem.funcargs.get(ARGUMENT)
    if isinstance(one, PageCase):
        from tileproof.conformance.pages.single import judge
        from tileproof.conformance.target import Coordinates, Schedule, Target

        option = pyfuncitem.config.getoption
        arch, schedule, seed = (option(f"tileproof_{name}") for name in ("arch", "schedule", "seed"))
        place = Coordinates(Target(one.target), arch, Schedule(schedule), seed)
        verdict = judge(one.case, one.contract, place, one.path, Path(option("tileproof_crash_dir")))
        if verdict.report:
            pytest.fail(verdict.report, pytrace=False)
        pyfuncitem.funcargs[ARGUMENT] = verdict.result
    return (yield)


def _cases(metafunc: pytest.Metafunc, page: str | Path | Page, tier: str, target: str) -> Iterator[PageCase]:
    """The cases of the pages that a mark names. Raises: Refusal."""
    from tileproof.conformance.contract import Tier
    from tileproof.conformance.pages.page_file import checked_contract

    option = metafunc.config.getoption
    for bound in _pages(metafunc, page):
        contract = checked_contract(bound)
        where = option("tileproof_target") or target or _usual_target(bound)
        for case in contract.cases(Tier(option("tileproof_tier") or tier)):
            yield PageCase(case, contract, bound.path, where)


def _pages(metafunc: pytest.Metafunc, page: str | Path | Page) -> tuple[BoundPage, ...]:
    from tileproof.conformance.pages.binding import BoundPage
    from tileproof.conformance.pages.page_file import load_pages
    from tileproof.oracle.refusal import Refusal

    file = metafunc.definition.path
    if isinstance(page, str | Path):
        return load_pages(_short(file.parent / page))
    if not any(value is page for value in vars(metafunc.module).values()):
        raise Refusal("the page stands in no name of the test's file", hint="as PAGE = Page(...): a replay looks there")
    return (BoundPage(page, _short(file)),)


def _usual_target(bound: BoundPage) -> str:
    from tileproof.conformance.pages.vocabulary import Python

    return "host" if isinstance(bound.page.kernel, Python) else "sim"


def _short(path: Path) -> Path:
    """From the working directory, where it lies in it: replay commands are shorter, and crash files name no machine."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
