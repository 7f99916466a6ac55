"""The file that knows the PTX of every compiled kernel of today, so that asking for it compiles nothing.

`docs/evidence/kernels.json` has a row for each variant: its source's digest (with our headers), the compiler, and the
digest of each entry's PTX. A row holds as long as the source does; a variant whose source has changed is compiled.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.evidence.normal_ptx import ptx_digests
from tileproof.conformance.mutation.variant import Variant
from tileproof.conformance.records import from_json, parse_json, to_json
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.given_file import read_given
from tileproof.kernels.source import with_headers

FILE = "kernels.json"
MAX_FILE_BYTES = 1 << 24


@dataclass(frozen=True)
class KnownModule:
    """One variant, compiled.

    Args:
        kernel: stem of its file.
        defines: macros as "NAME=VALUE".
        arch: architecture.
        compiler: as "NVRTC 13.0.88".
        source: digest of the text that was compiled, headers included.
        entries: digest of the normal form of each kernel's PTX, by entry name.
    """

    kernel: str
    defines: tuple[str, ...]
    arch: str
    compiler: str
    source: str
    entries: Mapping[str, str]

    @property
    def variant(self) -> Variant:
        """The variant."""
        return Variant(self.kernel, self.defines)


@dataclass(frozen=True)
class _File:
    modules: tuple[KnownModule, ...]


def source_digest(source: str) -> str:
    """Of a source and of our headers in it."""
    return hashlib.sha256(with_headers(source).encode()).hexdigest()[:16]


def known_module(module: CompiledModule, source: str) -> KnownModule:
    """The row of a module that was just compiled from `source`."""
    variant = Variant.of(module)
    entries = dict(ptx_digests(module.ptx))
    return KnownModule(variant.kernel, variant.defines, module.arch, module.compiler, source_digest(source), entries)


def read_modules(path: Path) -> tuple[KnownModule, ...]:
    """The rows of a file; none where there is no file. Raises: Refusal where it is not such a file."""
    if not path.exists():
        return ()
    return from_json(_File, parse_json(read_given(path, MAX_FILE_BYTES), str(path))).modules


def write_modules(path: Path, modules: Iterable[KnownModule]) -> None:
    """A file anew, a line a row, in the order of the variants."""
    rows = sorted(modules, key=lambda one: (one.variant, one.arch))
    lines = ",\n".join(json.dumps(to_json(one)) for one in rows)
    path.write_text(f'{{"modules": [\n{lines}\n]}}\n')
