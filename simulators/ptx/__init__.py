"""The CPU device: executes compiled PTX and checks every access.

Its names are loaded at first use: who needs only a table or the parser does not wait for the compiler of machine code.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileproof.simulators.ptx.device import Device
    from tileproof.simulators.ptx.findings import Finding, FindingKind, Report
else:

    def __getattr__(name):
        home = {"Device": "device", "Finding": "findings", "FindingKind": "findings", "Report": "findings"}.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{home}"), name)


__all__ = ["Device", "Finding", "FindingKind", "Report"]
