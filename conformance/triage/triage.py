"""Why a case fails: explanations, the strongest first.

Asked in this order: was it seen (`seen`); is the reference wrong (`references`); does a wrong rule of the contract
predict the outputs (`what_if`); does what is right stand elsewhere (`moved`); is it a partial tile (`seen.tail`).

An explanation is a proof only if the cause itself was observed, or if it predicts every bit of every output. All others
say so, with how much they explain.
"""

from collections.abc import Iterator
from dataclasses import replace

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Right
from tileproof.conformance.fault import Fault
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.definitions import definitions
from tileproof.conformance.triage.explanation import Explanation, Strength, rank
from tileproof.conformance.triage.moved import moved
from tileproof.conformance.triage.patience import Patience
from tileproof.conformance.triage.ratio import ratio
from tileproof.conformance.triage.references import references
from tileproof.conformance.triage.rules import rules_of
from tileproof.conformance.triage.scene import Scene
from tileproof.conformance.triage.seen import seen, tail
from tileproof.conformance.triage.state import state
from tileproof.conformance.triage.what_if import weigh
from tileproof.kernels.device import Device


def triage(scene: Scene, patience: Patience | None = None) -> tuple[Explanation, ...]:
    """Explanations of a failed case, the strongest first; `UNEXPLAINED` alone where there is none.

    Args:
        scene: the case.
        patience: how long rules may be tried; None for all of them.
    """
    patience = patience or Patience()
    found = tuple(sorted(_told_apart(list(_explanations(scene, patience)), patience), key=rank))
    return found or (
        Explanation(Cause.UNEXPLAINED, "nothing that was tried predicts it", Strength.HINT, 0, scene.count),
    )


def _told_apart(found: list[Explanation], patience: Patience) -> list[Explanation]:
    """Where several causes predict every bit, none of them is proved, unless the reference itself is wrong.

    Nor is one where not every rule was tried: another might predict as much.
    """
    proved = {one.cause for one in found if one.strength is Strength.PROVED}
    if len(proved) < 2 and not patience.was_short:
        return found
    return [
        replace(one, strength=Strength.ALIKE if len(proved) > 1 else Strength.EARLY)
        if one.strength is Strength.PROVED and one.cause is not Cause.ORACLE
        else one
        for one in found
    ]


def _explanations(scene: Scene, patience: Patience) -> Iterator[Explanation]:
    yield from seen(scene)
    if not scene.outputs or not scene.count:
        return
    yield from definitions(scene)
    yield from references(scene)
    yield from weigh(scene, rules_of(scene), patience)
    yield from moved(scene)
    yield from state(scene)
    yield from ratio(scene)
    yield from tail(scene)


def observe(case: Case, device: Device, *, fault: Fault | None = None, inputs: Arrays | None = None) -> Scene:
    """Runs a case, with a deliberate defect if one is given, and keeps what triage looks at."""
    contract = contract_of(case)
    values = case_inputs(case) if inputs is None else inputs

    def oracle(given: Arrays, arch: str) -> Right:
        return contract.expected(case, given, arch)

    model = fault.model if fault else None
    result = run_case(
        case, device, inputs=inputs, expected=model, kernel_source=fault.kernel_source() if fault else None
    )
    return Scene(
        contract=contract,
        case=case,
        arch=device.arch,
        values=values,
        outputs=result.outputs,
        findings=result.findings,
        expected=model or oracle,
        second=oracle if model else None,
    )
