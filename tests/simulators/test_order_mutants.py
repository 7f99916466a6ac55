"""Every small fault of the rule files is missed by a pair of kernels or another claim, or is known and argued.

Cases are tried as they are, and kernels of pairs also with clocks made scarce. A fault that stops a kernel for good
counts as missed.
"""

import signal
from functools import lru_cache

import pytest
from order_cases import Case, Traced, scarce
from order_claims import claims
from order_edit import exchanged, function_at
from order_mutants import Mutant, mutants, places
from order_survivors import SURVIVORS
from test_order_deletions import KERNELS

#: What an adversarial schedule may show by them is held by `tests/litmus`.
ELSEWHERE = ("order.order:Order.knows_any", "order.order:Order._foreign_rows")
PLACES = [place for place in places() if place not in ELSEWHERE]
MOST_SECONDS = 10  # of the processor


@lru_cache(maxsize=1)
def cases() -> list[Traced]:
    made: list[Traced] = [Case(name, pair, right) for name, pair in KERNELS.items() for right in (True, False)]
    made += [Case(name, pair, right=True, order=False) for name, pair in KERNELS.items()]
    made += claims()
    for case in made:
        case.trace()
        if case.keeps_clocks:
            with scarce():
                case.trace()
    return made


class TooLongError(Exception):
    """The kernel does not come to an end."""


def stop(*_: object) -> None:
    raise TooLongError


def fails(case: Traced) -> bool:
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        return not case.holds()
    except Exception:
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def survives(mutant: Mutant, concerned: list[Traced]) -> bool:
    """Cases that miss a fault come first for the next one."""
    with exchanged(function_at(mutant.place), mutant.code):
        for case in concerned:
            if fails(case):
                concerned.remove(case)
                concerned.insert(0, case)
                return False
        with scarce():
            return not any(fails(case) for case in concerned if case.keeps_clocks)


@pytest.mark.slow
def test_all_cases_hold() -> None:
    assert [case.name for case in cases() if not case.holds()] == []
    with scarce():
        assert [case.name for case in cases() if case.keeps_clocks and not case.holds()] == []


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_fault_is_missed_or_known(place: str) -> None:
    before = signal.signal(signal.SIGPROF, stop)
    try:
        concerned = [case for case in cases() if function_at(place).__code__ in case.codes]
        known = SURVIVORS.get(place, {})
        found = [each.fault for each in mutants(place) if each.fault not in known and survives(each, concerned)]
    finally:
        signal.signal(signal.SIGPROF, before)
    assert found == []


def test_survivors_are_mutants() -> None:
    for place, faults in SURVIVORS.items():
        assert set(faults) <= {mutant.fault for mutant in mutants(place)}
