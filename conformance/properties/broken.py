"""Which property of the catalogue a finding stands for: the one that the code broke.

A finding of the device has one property by its kind, a mismatch the property that its family of inputs is there for.
"""

from collections.abc import Mapping

from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.properties.catalogue import PROPERTIES

ENDS = "ends"
"""For findings that no property of the catalogue covers: the kernel does not end as a kernel should."""

NAMES: Mapping[str, str] = {**{id_: one.name for id_, one in PROPERTIES.items()}, ENDS: "the kernel ends"}
"""By id."""

_BY_KIND = {
    **dict.fromkeys(
        (FindingKind.RACE, FindingKind.SCOPE, FindingKind.ASYNC, FindingKind.BARRIER, FindingKind.DIVERGENCE), "P17"
    ),
    **dict.fromkeys((FindingKind.DEADLOCK, FindingKind.TIMEOUT, FindingKind.CRASH, FindingKind.TRAP), ENDS),
    FindingKind.LEAK: "P16",
    FindingKind.ROUTE: "P19",
    FindingKind.REFUSAL: "P19",
    FindingKind.APPROXIMATE: "P2",
}

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "P1": ("all-codes",),
    "P2": ("ties", "near-ties", "subnormals", "random-bits", "conversion"),
    "P3": ("specials", "only-nan", "top-binade", "saturation", "infinite", "odd-scales"),
    "P4": ("zero-rows", "tiny-rows", "zeros", "tiny", "giant-among-tiny", "peaks"),
    "P6": ("peak-first", "peak-last", "falling", "rising", "nan-history", "nan-first", "ordinary"),
    "P7": ("powers", "scales"),
    "P8": ("one-hot", "on-grid", "plane-0", "plane-1", "random"),
    "P16": ("worn-counters",),
    "P20": ("bias-alone", "cancelled-bias", "cancelled-residual"),
    "P21": ("uniform", "extremes"),
    "P23": ("cancellation", "large-among-tiny", "association", "outlier", "normal", "wide-outputs"),
}
"""Families of inputs by the property that they are there for first; they serve others besides."""

_BY_FAMILY = {family: id_ for id_, families in FAMILIES.items() for family in families}


def property_of(finding: Finding, family: str) -> str:
    """The property, a key of NAMES; P10 for what concerns memory alone."""
    if finding.kind is FindingKind.MISMATCH:
        return "P9" if finding.signature.endswith("not repeatable") else _BY_FAMILY.get(family, "P8")
    return _BY_KIND.get(finding.kind, "P10")
