"""The first explanation of a failure, for the failure's own report: bounded in time, and no proof where time was short.

What was seen costs nothing and comes first. Else wrong rules are tried for `CASE_S` seconds, in a run for `RUN_S` in
all, and once for each signature. A rule takes up to a tenth of a second at `LARGEST` products; larger cases are left to
`tileproof triage`, as is what there was no time for.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.fault import Fault
from tileproof.conformance.finding import Finding, Proof, Why
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import CaseResult
from tileproof.conformance.target import Coordinates
from tileproof.conformance.triage.between import between
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.pair import Pair, Side
from tileproof.conformance.triage.patience import Patience
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.seen import seen
from tileproof.conformance.triage.triage import triage

CASE_S, RUN_S = 4.0, 12.0
LARGEST = 1 << 23
"""The product of a case's dimensions up to which rules are tried: 8 million multiplications of a product."""

ELSEWHERE = "`tileproof triage` with the crash file tries all rules"


class Reasons:
    """Why the cases of one run fail.

    Args:
        fault: the deliberate defect that is in, if one is.
        case_s: seconds for one case.
        run_s: seconds for all of them.
    """

    def __init__(self, fault: Fault | None = None, *, case_s: float = CASE_S, run_s: float = RUN_S) -> None:
        self._model = fault.model if fault else None
        self._fault = fault
        self._case_s, self._left_s = case_s, run_s
        self._told: set[tuple[str, str, str]] = set()

    def of(self, result: CaseResult, inputs: Arrays, arch: str) -> Why | None:
        """The first explanation of a failed case; None where all its signatures have been explained before."""
        case = result.case
        keys = {(case.contract, case.kernel, finding.signature) for finding in result.findings}
        if keys <= self._told:
            return None
        self._told |= keys
        return self._timed(lambda: self._first(self._scene(result, inputs, arch)))

    def of_difference(
        self, results: Mapping[Coordinates, CaseResult], findings: Sequence[Finding], inputs: Arrays
    ) -> Why | None:
        """The first explanation of a difference between two targets; None where all its signatures have been."""
        (first, ours), (second, theirs) = list(results.items())[:2]
        case = ours.case
        keys = {(case.contract, case.kernel, finding.signature) for finding in findings}
        if keys <= self._told:
            return None
        self._told |= keys
        sides = Side(first, ours.outputs), Side(second, theirs.outputs)
        return self._timed(lambda: self._between(self._pair(case, sides, inputs)))

    def _timed(self, explain: Callable[[], Why]) -> Why:
        began = time.monotonic()
        try:
            return explain()
        except Exception as error:  # the verdict stands without a reason
            return Why(Proof.NONE, "", f"triage ended in {type(error).__name__}: {error}")
        finally:
            self._left_s -= time.monotonic() - began

    def _between(self, pair: Pair) -> Why:
        if _is_large(pair.case):
            return Why(Proof.NONE, "", f"the case is too large to be run again beside it; {ELSEWHERE}")
        return why(between(pair, Patience(max(0.0, min(self._case_s, self._left_s))))[0])

    def _pair(self, case: Case, sides: tuple[Side, Side], inputs: Arrays) -> Pair:
        contract = contract_of(case)
        oracle = partial(contract.expected, case)
        source = self._fault.kernel_source() if self._fault else None
        return Pair(contract, case, inputs, sides, self._model or oracle, source)

    def _first(self, scene: Scene) -> Why:
        for one in seen(scene):
            return why(one, scene.findings)
        if _is_large(scene.case):
            return Why(Proof.NONE, "", f"the case is too large to try rules beside it; {ELSEWHERE}")
        if self._left_s <= 0:
            return Why(Proof.NONE, "", f"the time for this in a run is used up; {ELSEWHERE}")
        patience = Patience(min(self._case_s, self._left_s))
        found = triage(scene, patience)[0]
        if found.cause is Cause.UNEXPLAINED and patience.was_short:
            return Why(Proof.NONE, "", f"nothing that was tried in {patience.seconds:.0f} s fits; {ELSEWHERE}")
        return why(found, scene.findings)

    def _scene(self, result: CaseResult, inputs: Arrays, arch: str) -> Scene:
        contract = contract_of(result.case)

        def oracle(given: Arrays, of: str) -> Right:
            return contract.expected(result.case, given, of)

        return Scene(
            contract=contract,
            case=result.case,
            arch=arch,
            values=inputs,
            outputs=result.outputs,
            findings=result.findings,
            expected=self._model or oracle,
            second=oracle if self._model else None,
        )


def _is_large(case: Case) -> bool:
    return math.prod(max(1, dimension.size) for dimension in case.shape.dimensions) > LARGEST


def why(explanation: Explanation, findings: Sequence[Finding] = ()) -> Why:
    """An explanation as reports have it; what a finding says anyway is not said twice."""
    if explanation.cause is Cause.UNEXPLAINED:
        return Why(Proof.NONE, "", str(explanation.cause))
    states = {Strength.SEEN: Proof.SEEN, Strength.PROVED: Proof.PROVED}
    said = {finding.message.splitlines()[0] for finding in findings}
    text = str(explanation.cause) + ("" if explanation.text in said else f": {explanation.text}")
    return Why(states.get(explanation.strength, Proof.GUESS), text, explanation.proof)
