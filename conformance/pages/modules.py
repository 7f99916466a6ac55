"""The kernel file of a page, compiled once for an architecture; what its PTX declares."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tileproof.conformance.pages.vocabulary import Cuda, Ptx
from tileproof.kernels.user_source import (
    CompileSettings,
    UserModule,
    compile_user_source,
    read_kernel_file,
    read_user_ptx,
)
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.parse import parse_module
from tileproof.simulators.ptx.text.syntax import Entry


@dataclass(frozen=True, eq=False)
class LoadedFile:
    """A kernel file for one architecture.

    Args:
        user: the module and the names that were asked for.
        kernels: what the PTX says of each kernel, by its name there.
        has_dynamic_shared: whether it has `extern __shared__` memory, whose size a launch gives.
    """

    user: UserModule
    kernels: Mapping[str, Entry]
    has_dynamic_shared: bool

    def mangled(self, name: str) -> str:
        """The name in the PTX of a kernel; the only one where `name` is empty. Raises: Refusal with what there is."""
        asked = self.user.entries
        if not name and len(asked) == 1:
            return next(iter(asked.values()))
        if name in asked:
            return asked[name]
        if name in self.kernels:
            return name
        known = ", ".join(dict.fromkeys([*asked, *self.kernels]))
        raise Refusal(f"no kernel {name!r} in {self.user.module.name}", hint=f"entry is one of {known}")


def load_file(kernel: Cuda | Ptx, folder: Path, arch: str) -> LoadedFile:
    """Compile or read a page's kernel file; the same file is compiled once a process.

    Raises:
        Refusal: see `kernels.user_source`; and PTX that the CPU device cannot read.
    """
    path = folder / kernel.file
    text = read_kernel_file(path)
    names = (kernel.entry,) if isinstance(kernel.entry, str) else tuple(kernel.entry)
    asked = tuple(name for name in names if name)
    if isinstance(kernel, Ptx):
        return _load_ptx(text, path, arch, asked)
    includes = tuple(folder / one for one in kernel.include)
    return _load_cuda(text, path, arch, asked, CompileSettings(includes, tuple(kernel.define), tuple(kernel.options)))


@lru_cache(maxsize=32)
def _load_ptx(text: str, path: Path, arch: str, names: tuple[str, ...]) -> LoadedFile:
    user = read_user_ptx(text, path, arch, names)
    return _loaded(user)


@lru_cache(maxsize=32)
def _load_cuda(text: str, path: Path, arch: str, names: tuple[str, ...], settings: CompileSettings) -> LoadedFile:
    user = compile_user_source(text, path, arch, names, settings)
    return _loaded(user)


def _loaded(user: UserModule) -> LoadedFile:
    module = parse_module(user.module.ptx)
    dynamic = any(variable.space == "shared" and not variable.count for variable in module.variables.values())
    return LoadedFile(user, module.entries, dynamic)
