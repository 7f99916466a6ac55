"""The key of a kernel that ran: which compiled entry it is, and which PTX it had.

`mm_fp8<NT,64,64,...>/mm_fp8@0a1b2c3d4e5f6071`: the file and its macros, the entry, and the digest of the normal form
of its PTX (`normal_ptx`). What stands before the `@` names the instance, which stays; the digest goes with the code.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tileproof.conformance.evidence.normal_ptx import ptx_digest
from tileproof.conformance.mutation.variant import Variant
from tileproof.kernels.watch import Launched
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True, order=True)
class KernelKey:
    """One compiled kernel and its PTX.

    Args:
        instance: variant and entry.
        digest: of the normal form of its PTX.
    """

    instance: str
    digest: str

    def __str__(self) -> str:
        return f"{self.instance}@{self.digest}"


def parse_key(text: str) -> KernelKey:
    """The key that a text spells. Raises: Refusal where it is none."""
    instance, at, digest = text.rpartition("@")
    if not (instance and at and digest):
        raise Refusal(f"{text!r} is no key of a kernel", hint="such as int8_combine/int8_combine@0123456789abcdef")
    return KernelKey(instance, digest)


def instance_name(variant: Variant, entry: str) -> str:
    """The instance of an entry of a variant."""
    return f"{variant}/{entry}"


def kernel_keys(launched: Iterable[Launched]) -> tuple[str, ...]:
    """The keys of what was launched, each once, in the order of the first launches."""
    kernels = dict.fromkeys((one.module, one.entry) for one in launched)
    keys = (KernelKey(instance_name(Variant.of(module), entry), ptx_digest(module, entry)) for module, entry in kernels)
    return tuple(dict.fromkeys(map(str, keys)))
