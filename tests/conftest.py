"""Hypothesis without a clock and with fixed examples: the gate's outcome must not depend on the machine's load."""

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate")
