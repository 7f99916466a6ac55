"""The CPU device: executes compiled PTX and checks every access."""

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind, Report

__all__ = ["Device", "Finding", "FindingKind", "Report"]
