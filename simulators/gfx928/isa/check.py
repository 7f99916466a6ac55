"""Judges a listing: which kernel, which stages, which rules broken, which figures.

Proved is the order of the text that was given: that the accepted code object is this one is for its digest to say. Not
proved: that the LDS writes go to the other buffer and that lanes are masked right, which the interpreter of wave
programs is for (`machine`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.isa.instruction import shown
from tileproof.simulators.gfx928.isa.listing import Function, Listing, parse_listing
from tileproof.simulators.gfx928.isa.metadata import Figures, read_figures
from tileproof.simulators.gfx928.isa.stage_order import Rule, Sites, Violation, check_stage
from tileproof.simulators.gfx928.isa.stages import Loop, find_loop

#: Families whose sites a report counts.
_COUNTED = ("global_load", "global_store", "buffer_load", "buffer_store", "flat_", "scratch_", "ds_", "v_mmac")


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What a kernel must have beside the order.

    Scratch and spills must be 0, always.
    """

    sites: Sites = field(default_factory=Sites)
    vgprs: int | None = None
    sgprs: int | None = None
    lds_bytes: int | None = None


#: The accepted M = 3072 kernel (references/wqkv-a-m3072-prefetch-isa.md @812e007f, "ISA audit").
M3072 = Requirement(sites=Sites(loads=2, products=8, stores=2), vgprs=63, sgprs=43, lds_bytes=16_384)


@dataclass(frozen=True)
class IsaReport:
    """The judgement."""

    figures: Figures
    loop: Loop
    #: Memory accesses and products of the loop by mnemonic.
    sites: Mapping[str, int]
    violations: tuple[Violation, ...]

    @property
    def proved(self) -> bool:
        """Whether nothing is broken."""
        return not self.violations


def check_listing(text: str, requirement: Requirement | None = None, symbol: str | None = None) -> IsaReport:
    """Judges one kernel of a listing.

    Args:
        text: the listing with its metadata.
        requirement: None for the order alone, without scratch or spills.
        symbol: part of the kernel's name; None where the listing has one kernel.

    Raises:
        Refusal: the text cannot be read, names no or several such kernels, or its loop cannot be judged.
    """
    listing = parse_listing(text)
    function, figures = _kernel(listing, symbol)
    loop = find_loop(function)
    wanted = requirement or Requirement()
    violations = [v for stage in loop.stages for v in check_stage(stage, wanted.sites)]
    count = Counter(i.mnemonic for stage in loop.stages for i in stage if i.mnemonic.startswith(_COUNTED))
    return IsaReport(figures, loop, dict(sorted(count.items())), (*violations, *_figures(figures, wanted)))


def _kernel(listing: Listing, symbol: str | None) -> tuple[Function, Figures]:
    figures = read_figures(listing)
    names = [name for name in figures if symbol is None or symbol in name]
    if len(names) != 1:
        wanted = "the listing" if symbol is None else repr(symbol)
        known = ", ".join(map(shown, sorted(names or figures)[:3]))
        raise Refusal(
            f"{wanted} names {len(names)} kernels of {len(figures)}: {known}",
            hint="give --symbol a part of exactly one name",
        )
    if names[0] not in listing.functions:
        raise Refusal(f"{shown(names[0])} is in the metadata and has no code", hint="the listing is not whole")
    return listing.functions[names[0]], figures[names[0]]


def _figures(figures: Figures, wanted: Requirement) -> Iterator[Violation]:
    for name, found, required in (
        ("VGPRs", figures.vgprs, wanted.vgprs),
        ("SGPRs", figures.sgprs, wanted.sgprs),
        ("bytes of LDS", figures.lds_bytes, wanted.lds_bytes),
        ("bytes of scratch", figures.scratch_bytes, 0),
        ("VGPRs spilled", figures.vgpr_spills, 0),
        ("SGPRs spilled", figures.sgpr_spills, 0),
    ):
        if required is not None and found != required:
            yield Violation(Rule.FIGURES, f"{found} {name}, required: {required}")
