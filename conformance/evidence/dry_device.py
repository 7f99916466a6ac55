"""A device on which nothing runs: it says which kernels a call launches, without data and without compiling.

Launchers choose their kernels by shapes, types and addresses alone, so what they launch here they launch anywhere.
Modules come from the file of known kernels as long as their sources are those of the file; others are compiled.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileproof.conformance.evidence.kernel_file import KnownModule, known_module, source_digest
from tileproof.conformance.evidence.launch_form import Passed
from tileproof.conformance.mutation.variant import Variant
from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Report


@dataclass(frozen=True)
class _Idle:
    """A kernel that does nothing but to note what it is passed."""

    passed: list[Passed]

    def launch(
        self, *, grid: Any, block: Any, args: Sequence[Any], shared_bytes: int = 0, cluster: Any = (1, 1, 1)
    ) -> Report:
        """Note it."""
        self.passed.append(Passed(tuple(grid), tuple(block), tuple(cluster), shared_bytes, tuple(args)))
        return Report()


class DryDevice(Device):
    """See the module.

    Attributes:
        modules: those that were asked for, by variant.
        compiled: how many of them had to be compiled.
        passed: to launches, since somebody last emptied it.

    Args:
        known: rows of the file of known kernels.
        arch: architecture.
    """

    def __init__(self, known: Iterable[KnownModule] = (), arch: str = "sm_90a") -> None:
        super().__init__(arch)
        self.modules: dict[Variant, KnownModule] = {}
        self.compiled = 0
        self.passed: list[Passed] = []
        self._known = {one.variant: one for one in known if one.arch == arch}

    def compile(self, source: str, *, name: str, arch: str, defines: tuple[str, ...]) -> CompiledModule:
        """The module of a source, without code where it is known."""
        variant = Variant(name.removesuffix(".cu"), defines)
        known = self._known.get(variant)
        if known is None or known.source != source_digest(source):
            known = known_module(compile_source(source, name=name, arch=arch, defines=defines), source)
            self.compiled += 1
        self.modules[variant] = known
        options = tuple(f"--define-macro={define}" for define in defines)
        return CompiledModule(name, arch, options, "", b"", known.compiler, known.source)

    def load(self, module: Any) -> Mapping[str, Any]:
        """Idle kernels of the module's names."""
        return {name: _Idle(self.passed) for name in self.modules[Variant.of(module)].entries}
