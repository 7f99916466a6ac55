"""Pages of users for commands that read what a run left: a page is run only where it is given by hand."""

from collections.abc import Sequence
from pathlib import Path

from tileproof.conformance.contract import Contract
from tileproof.conformance.records import shorten
from tileproof.oracle.refusal import Refusal


def contracts_of(pages: Sequence[Path], named: str = "") -> tuple[Contract, ...]:
    """The contracts of pages that were given by hand.

    Args:
        pages: as given.
        named: the page that a file of a run names.

    Raises:
        Refusal: the file names a page and none is given; or a page is wrong.
    """
    if named and not pages:
        raise Refusal(
            f"the run has the contracts of a page, {shorten(named)}, and reading it runs no code",
            hint="give it by --page, which runs the Python in it",
        )
    if not pages:
        return ()
    from tileproof.conformance.pages.page_file import load_contracts  # here: few runs need it

    return load_contracts(pages)
