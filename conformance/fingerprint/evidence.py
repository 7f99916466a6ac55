"""What a fingerprint rests on: probes with what they showed, and the one that nothing explains."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Proof:
    """One experiment.

    Args:
        field: what it decides.
        probe: what was asked, in words.
        observed: what came out.
        rules_out: the hypotheses that it leaves no room for.
    """

    field: str
    probe: str
    observed: str
    rules_out: str


class Unexplained(Exception):
    """A probe that no hypothesis of the model explains.

    Args:
        probe: what was asked, in words.
        observed: what came out.
        model: what the model could have explained, or gave.
    """

    def __init__(self, probe: str, observed: str, model: str) -> None:
        super().__init__(f"{probe}: {observed}; {model}")
        self.probe, self.observed, self.model = probe, observed, model
