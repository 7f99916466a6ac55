"""Triage of a crash file: its case again, from its input bits, on the simulator, and the environment beside today's."""

from dataclasses import dataclass, replace
from pathlib import Path

from tileproof.conformance.crash import CrashRecord, read_crash
from tileproof.conformance.environment import capture
from tileproof.conformance.faults import fault
from tileproof.conformance.records import to_json
from tileproof.conformance.replay import known_case
from tileproof.conformance.target import Target, open_device
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.triage import observe, triage


@dataclass(frozen=True)
class Answer:
    """What triage says of a crash file.

    Args:
        record: as read.
        explanations: the strongest first; none where the case passes today where it failed.
    """

    record: CrashRecord
    explanations: tuple[Explanation, ...]


def explain(path: Path) -> Answer:
    """Runs the case of a crash file on the simulator and explains what it finds.

    Raises:
        Refusal: the file is damaged, or its case or fault is unknown.
    """
    record, inputs = read_crash(path)
    place = record.coordinates[0]
    device = open_device(replace(place, target=Target.SIM))
    scene = observe(known_case(record), device, fault=fault(record.fault) if record.fault else None, inputs=inputs)
    if scene.findings:
        return Answer(record, triage(scene))
    return Answer(record, tuple(_unseen(record)))


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
