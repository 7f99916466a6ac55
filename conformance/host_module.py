"""Host files of the kernels' floor with other text than the shipped: for faults of launchers and of what they keep.

A module that imports an edited one must be made anew as well, or it would keep the shipped one's classes. So a contract
names its modules in the order of their imports, and gets those from the edited one on as modules of their own; nothing
that others have imported changes.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, resources
from types import ModuleType

from tileproof.conformance.contract import EditedSource
from tileproof.oracle.refusal import Refusal

SUFFIX = ".py"
_PACKAGE = "tileproof.kernels"


def host_text(name: str) -> str:
    """The shipped text of a file such as "fp8_linear.py"."""
    return resources.files(_PACKAGE).joinpath(name).read_text()


def host_modules(stems: Sequence[str], source: EditedSource | None) -> Mapping[str, ModuleType]:
    """Modules by stem: as shipped, or from the edited file on made anew.

    Args:
        stems: in an order in which each imports earlier ones only.
        source: an edited file; a kernel's leaves the host files as shipped.

    Raises:
        Refusal: the edited file is none of them.
    """
    shipped = {stem: import_module(f"{_PACKAGE}.{stem}") for stem in stems}
    if source is None or not source.name.endswith(SUFFIX):
        return shipped
    edited = source.name.removesuffix(SUFFIX)
    if edited not in stems:
        raise Refusal(f"{source.name} is no host file of this contract", hint=f"known: {', '.join(stems)}")
    first = list(stems).index(edited)
    with _restored([f"{_PACKAGE}.{stem}" for stem in stems]):
        for stem in stems[first:]:
            text = source.text if stem == edited else host_text(stem + SUFFIX)
            shipped[stem] = sys.modules[f"{_PACKAGE}.{stem}"] = _made(stem, text)
    return shipped


def _made(stem: str, text: str) -> ModuleType:
    module = ModuleType(f"{_PACKAGE}.{stem}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(text, f"{stem}{SUFFIX}", "exec"), module.__dict__)
    return module


@contextmanager
def _restored(names: Sequence[str]) -> Iterator[None]:
    """Give these names back to the modules that had them."""
    before = {name: sys.modules[name] for name in names}
    try:
        yield
    finally:
        sys.modules.update(before)
