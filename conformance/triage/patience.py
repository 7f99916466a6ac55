"""How long triage may try: asked between one rule and the next, so that it is over by a rule at most."""

import time
from dataclasses import dataclass, field


@dataclass
class Patience:
    """Time to try rules in.

    Args:
        seconds: from now on; infinity for all that there are.
    """

    seconds: float = float("inf")
    #: Whether something was left out for want of time; then nothing that was found is a proof.
    was_short: bool = False
    _began: float = field(default_factory=lambda: time.monotonic())

    def lasts(self) -> bool:
        """Whether one more may be tried; what is not tried is remembered."""
        if time.monotonic() - self._began < self.seconds:
            return True
        self.was_short = True
        return False
