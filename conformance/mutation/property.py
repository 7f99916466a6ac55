"""Which property of the catalogue a finding stands for: the one that the killed mutant broke.

A finding of the device has one property by its kind, a mismatch the property that its family of inputs is there for.
The numbers are those that contracts name in `Contract.properties`.
"""

from collections.abc import Mapping

from tileproof.conformance.finding import Finding, FindingKind

PROPERTIES: Mapping[str, str] = {
    "P1": "decode and encode",
    "P2": "one rounding, ties to even",
    "P3": "overflow, NaN, infinity, -0",
    "P4": "scale from amax",
    "P5": "code and scale agree",
    "P6": "state of amax and scale",
    "P7": "a scale for each row and column",
    "P8": "every element at its place",
    "P9": "padding changes nothing",
    "P10": "every output written, nothing else",
    "P12": "sizes zero and one",
    "P13": "every residue",
    "P16": "workspace as found",
    "P17": "order of accesses",
    "P19": "the right route",
    "P20": "epilogue",
    "P21": "integers exact",
    "P23": "accumulator",
    "ends": "the kernel ends",
}

_BY_KIND = {
    **dict.fromkeys(
        (FindingKind.RACE, FindingKind.SCOPE, FindingKind.ASYNC, FindingKind.BARRIER, FindingKind.DIVERGENCE), "P17"
    ),
    **dict.fromkeys((FindingKind.DEADLOCK, FindingKind.TIMEOUT, FindingKind.CRASH, FindingKind.TRAP), "ends"),
    FindingKind.LEAK: "P16",
    FindingKind.ROUTE: "P19",
    FindingKind.REFUSAL: "P19",
    FindingKind.APPROXIMATE: "P2",
}

_BY_FAMILY = {
    "all-codes": "P1",
    **dict.fromkeys(("ties", "subnormals", "random-bits", "conversion"), "P2"),
    **dict.fromkeys(("specials", "only-nan", "top-binade", "saturation", "infinite"), "P3"),
    **dict.fromkeys(("zero-rows", "tiny-rows", "zeros", "tiny", "giant-among-tiny", "peaks"), "P4"),
    **dict.fromkeys(("peak-first", "peak-last", "falling", "rising", "nan-history", "nan-first", "ordinary"), "P6"),
    **dict.fromkeys(("powers", "scales"), "P7"),
    **dict.fromkeys(("one-hot", "on-grid", "plane-0", "plane-1", "random"), "P8"),
    "worn-counters": "P16",
    **dict.fromkeys(("bias-alone", "cancelled-bias", "cancelled-residual"), "P20"),
    **dict.fromkeys(("uniform", "extremes"), "P21"),
    **dict.fromkeys(("cancellation", "large-among-tiny", "association", "outlier", "normal", "wide-outputs"), "P23"),
}
"""Families of inputs by what they are there for."""


def property_of(finding: Finding, family: str) -> str:
    """The property, a key of PROPERTIES; P10 for what concerns memory alone."""
    if finding.kind is FindingKind.MISMATCH:
        return "P9" if finding.signature.endswith("not repeatable") else _BY_FAMILY.get(family, "P8")
    return _BY_KIND.get(finding.kind, "P10")
