"""Deliberate defects: the proof that the suite can fail, and fails for the right reason.

A fault is a named edit of a kernel's source, or of the model that the kernel is held to, with the public report that
it restates. `tileproof check --fault NAME` runs the cases with it; a suite that then finds nothing is broken.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tileproof.conformance.contract import Arrays, EditedSource, Right
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.host_module import SUFFIX, host_text
from tileproof.kernels.source import expanded
from tileproof.oracle.refusal import Refusal

MISMATCH = frozenset({FindingKind.MISMATCH})


@dataclass(frozen=True)
class Edit:
    """Replace a text of the kernel's source that occurs exactly once."""

    old: str
    new: str

    def apply(self, source: str) -> str:
        """The edited source. Raises: Refusal where `old` does not occur exactly once: the kernel has moved on."""
        found = source.count(self.old)
        if found != 1:
            raise Refusal(f"fault's text occurs {found} times in the kernel, not once: {self.old!r}")
        return source.replace(self.old, self.new)


@dataclass(frozen=True)
class Fault:
    """One deliberate defect.

    Args:
        name: stable name for the command line.
        contract: whose suite must find it.
        what: the defect, one line.
        precedent: public report or bug history that it restates.
        expected: kinds of findings that the CPU device must give, each at least once over the smoke tier.
        possible: further kinds that follow from the same cause on some cases; what a misaligned or out-of-bounds
            load would have brought is undefined, for example, and may decide an output.
        file: stem of the kernel's file, or a host file such as "fp8_linear.py".
        edits: of that file, a kernel's with our headers in it, in order; empty for a fault of the model.
        route: the only route on which it shows; None where every case may show it.
        model: what stands in for the contract's expected outputs; None for a fault of the kernel.
    """

    name: str
    contract: str
    what: str
    precedent: str
    expected: frozenset[FindingKind]
    possible: frozenset[FindingKind] = frozenset()
    file: str = "fp8_quantize_rows"
    edits: tuple[Edit, ...] = ()
    route: str | None = None
    model: Callable[[Arrays, str], Right] | None = None

    def kernel_source(self) -> EditedSource | None:
        """The edited kernel; None where the kernel stays as shipped. Raises: Refusal, as `Edit.apply`."""
        if not self.edits:
            return None
        source = host_text(self.file) if self.file.endswith(SUFFIX) else expanded(self.file)
        for edit in self.edits:
            source = edit.apply(source)
        return EditedSource(self.file, source)

    def caught(self, kinds: Iterable[FindingKind]) -> bool:
        """Whether the kinds found are the right ones: every expected one, and none that is not possible."""
        found = frozenset(kinds)
        return self.expected <= found <= self.expected | self.possible
