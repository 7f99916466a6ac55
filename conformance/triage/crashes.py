"""Triage of a crash file: its case again, from its input bits, on the simulator, and the environment beside today's.

Where two targets differed it runs on both, if both can run here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tileproof.conformance.contract import Arrays
from tileproof.conformance.crash import CrashRecord, read_crash
from tileproof.conformance.environment import capture
from tileproof.conformance.faults import fault as find_fault
from tileproof.conformance.records import to_json
from tileproof.conformance.registry import contract_of
from tileproof.conformance.replay import known_case
from tileproof.conformance.session import differences, runners_for
from tileproof.conformance.target import Target, open_device
from tileproof.conformance.triage.between import between
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.pair import Pair, Side
from tileproof.conformance.triage.triage import observe, triage
from tileproof.conformance.worker import DeviceLost, InternalError, Job, Runner
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Answer:
    """What triage says of a crash file.

    Args:
        record: as read.
        explanations: the strongest first; none where the case passes today where it failed.
    """

    record: CrashRecord
    explanations: tuple[Explanation, ...]


def explain(path: Path, runners: Mapping[Target, Runner] | None = None, pages: Sequence[Path] = ()) -> Answer:
    """Runs the case of a crash file on the simulator and explains what it finds.

    Args:
        path: of the file.
        runners: for a difference between targets, one for each; None for the usual ones.
        pages: of users, which these load.

    Raises:
        Refusal: the file is damaged, or its case or fault is unknown.
    """
    record, inputs = read_crash(path)
    if len(record.coordinates) > 1 and inputs is not None:
        return Answer(record, _difference(record, inputs, runners, pages))
    return _on_simulator(record, inputs)


def _on_simulator(record: CrashRecord, inputs: Arrays | None) -> Answer:
    place = record.coordinates[0]
    device = open_device(replace(place, target=Target.SIM))
    chosen = find_fault(record.fault) if record.fault else None
    scene = observe(known_case(record), device, fault=chosen, inputs=inputs)
    if scene.findings:
        return Answer(record, triage(scene))
    return Answer(record, tuple(_unseen(record)))


def _difference(
    record: CrashRecord, inputs: Arrays, runners: Mapping[Target, Runner] | None, pages: Sequence[Path]
) -> tuple[Explanation, ...]:
    """Of two targets; where one cannot run here, of the simulator alone and what was told when they differed."""
    case, chosen = known_case(record), find_fault(record.fault) if record.fault else None
    used = runners or runners_for(record.coordinates, deadline_s=None, pages=pages)
    try:
        found = {}
        for place in record.coordinates:
            used[place.target].open(place)
            found[place] = used[place.target].run(Job(case, place, inputs, record.fault))
    except (Refusal, InternalError, DeviceLost) as error:
        reason = error.message if isinstance(error, Refusal) else str(error)
        then = f"; told then: {record.why}" if record.why else ""
        missing = Explanation(Cause.ELSEWHERE, f"not both targets run here ({reason}){then}", Strength.HINT)
        return (*_on_simulator(record, inputs).explanations, missing)
    finally:
        if runners is None:
            for runner in used.values():
                runner.close()
    if not any(differences(case, found)):
        return tuple(_unseen(record))
    contract = contract_of(case)
    expected = (chosen.model if chosen else None) or partial(contract.expected, case)
    (first, ours), (second, theirs) = list(found.items())[:2]
    sides = Side(first, ours.outputs), Side(second, theirs.outputs)
    return between(Pair(contract, case, inputs, sides, expected, chosen.kernel_source() if chosen else None))


def _unseen(record: CrashRecord) -> list[Explanation]:
    """The simulator finds nothing today: what is another, the device or the environment. No proof of either."""
    now, then = to_json(capture()), to_json(record.environment)
    found = []
    if any(place.target is Target.GPU for place in record.coordinates):
        text = "it failed on a GPU, and on the simulator it passes with the same input bits"
        found.append(Explanation(Cause.ELSEWHERE, text, Strength.HINT))
    if isinstance(now, dict) and isinstance(then, dict):
        other = [f"{key}: {then[key]} became {now[key]}" for key in then if key in now and then[key] != now[key]]
        if other:
            found.append(Explanation(Cause.ENVIRONMENT, "; ".join(other), Strength.HINT))
    return found
