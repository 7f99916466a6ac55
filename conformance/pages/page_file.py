"""Reading a page: a Python file that a user names is run, on purpose, as `python FILE` would run it.

Nothing else runs it: a crash file or an event file may name a page, and whoever reads one is told to give the page by
hand. What goes wrong in a page is told in its own lines.
"""

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from tileproof.conformance.contract import Comparison, Contract
from tileproof.conformance.input_file import is_there
from tileproof.conformance.pages.binding import BoundPage
from tileproof.conformance.pages.contract import ANY_NAN, GIVEN, contract_of_page
from tileproof.conformance.pages.families import FAMILIES
from tileproof.conformance.pages.user_code import PageError, described
from tileproof.conformance.pages.vocabulary import Cuda, Page, Ptx, Python, Tiles
from tileproof.kernels.given_file import read_given_text
from tileproof.oracle.refusal import Refusal

MAX_PAGE_BYTES = 1 << 22
_NAME = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
_SIZE = re.compile(r"[A-Z][A-Za-z]*")
_JUDGED = (Comparison.BITS, Comparison.SET, Comparison.BOUND)


def load_pages(path: Path) -> tuple[BoundPage, ...]:
    """Run a page's file and take the pages that it defines at its top.

    Raises:
        PageError: the file is missing, raises an error, or defines no page.
    """
    module = _run(path)
    pages = [value for value in vars(module).values() if isinstance(value, Page)]
    if not pages:
        raise PageError(f"{path.name} defines no page", hint="a page is a Page(...) at the top of the file")
    return tuple(BoundPage(page, path) for page in dict.fromkeys(pages))


def load_contracts(paths: Sequence[Path]) -> tuple[Contract, ...]:
    """The contracts of all pages of these files. Raises: PageError."""
    return tuple(checked_contract(bound) for path in paths for bound in load_pages(path))


def checked_contract(bound: BoundPage) -> Contract:
    """The contract of one page. Raises: PageError with everything that its fields say wrongly, at once."""
    if wrong := _mistakes(bound.page):
        raise PageError(f"{bound.path.name}: " + "; ".join(wrong), hint="docs/own_kernels.md has whole pages")
    try:
        return contract_of_page(bound)
    except PageError:
        raise
    except Refusal as refusal:
        raise PageError(f"{bound.path.name}: {refusal.message}", hint=refusal.hint) from None


def _run(path: Path) -> ModuleType:
    """The file as a module, its folder importable, as for a script."""
    if not is_there(path):
        raise PageError(f"there is no page {path}", hint="`tileproof try KERNEL` writes one")
    source = page_text(path)
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"_tileproof_page_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PageError(f"{path.name} is no Python file", hint="a page's name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        raise PageError(f"{path.name}:{error.lineno}: {error.msg}") from None
    except Refusal as refusal:
        raise PageError(f"{_line(path, refusal)}: {refusal.message}", hint=refusal.hint) from None
    except (Exception, SystemExit) as error:
        raise PageError(f"{_line(path, error)}: {described(error)}") from None
    return module


def page_text(path: Path) -> str:
    """The text of a page. Raises: PageError where it cannot be read, is too large, or is no text."""
    try:
        return read_given_text(path, MAX_PAGE_BYTES, hint="a page is a file of Python")
    except Refusal as refusal:
        raise PageError(refusal.message, hint=refusal.hint) from None


def _line(path: Path, error: BaseException) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)]
    return f"{path.name}:{frames[-1].lineno}" if frames else path.name


def _mistakes(page: Page) -> list[str]:
    """What the fields say wrongly, each in a few words."""
    is_file = isinstance(page.kernel, Cuda | Ptx)
    checks = (
        (
            isinstance(page.name, str) and bool(_NAME.fullmatch(page.name)),
            f"name {page.name!r} has other letters than a-z, 0-9, _ and -",
        ),
        (is_file or isinstance(page.kernel, Python), f"kernel is {page.kernel!r}, no Cuda, Ptx or Python"),
        (not is_file or page.launch is not None, "launch is missing: a kernel file must be launched"),
        (is_file or page.launch is None, "launch is given, and a Python function launches by itself"),
        (bool(page.like) or page.tensors is not None, "tensors is missing (or like, for a contract of tileproof's)"),
        (not page.like or page.expected is None, "like and expected are both given"),
        (page.compare in _JUDGED, f"compare {page.compare!r} is none of {', '.join(_JUDGED)}"),
        (page.nan in ANY_NAN, f"nan {page.nan!r} is none of {', '.join(ANY_NAN)}"),
        (bool(page.like) or not page.dtype, "dtype is given without like"),
        (isinstance(page.seeds, int) and page.seeds > 0, f"seeds is {page.seeds!r}, no number above 0"),
        (not page.like or page.inputs is None, "like and inputs are both given"),
        (_says_tiles(page), f"tiles is {page.tiles!r}, no mapping of outputs to Tiles(tile=(rows, columns), ...)"),
        *_sizes(page),
        *_families(page),
    )
    return [words for holds, words in checks if not holds]


def _says_tiles(page: Page) -> bool:
    if not isinstance(page.tiles, Mapping) or not all(isinstance(one, Tiles) for one in page.tiles.values()):
        return False
    pairs = [pair for one in page.tiles.values() for pair in (one.tile, one.warp or one.tile)]
    return all(isinstance(pair, tuple) and [type(n) for n in pair] == [int, int] for pair in pairs)


def _sizes(page: Page) -> list[tuple[bool, str]]:
    if not page.sizes:
        return [(False, "sizes is empty: a fixed size is written as (1024,)")]
    checks = []
    for name, values in page.sizes.items():
        checks.append((bool(_SIZE.fullmatch(name)), f"size {name!r} is no name such as T or NumRows"))
        whole = not isinstance(values, str | int) and all(isinstance(one, int) and one >= 0 for one in values)
        checks.append((whole and bool(tuple(values)), f"size {name} is {values!r}, no tuple of whole numbers"))
    return checks


def _families(page: Page) -> list[tuple[bool, str]]:
    if page.like:
        return []  # the contract that it is like says which there are
    known = {*FAMILIES, *({GIVEN} if page.inputs is not None else ())}
    unknown = [family for family in page.families if family not in known]
    return [(not unknown, f"families {', '.join(map(repr, unknown))} are none of {', '.join(sorted(known))}")]
