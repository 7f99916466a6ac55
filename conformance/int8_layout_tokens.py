"""The packed orders of int8 weights, as type tokens of a case id."""

LAYOUT_TOKENS = {
    "kn8": "contiguous",
    "nk8": "n-major",
    "p64": "panel-64",
    "p64k16": "panel-64-k16",
    "s64n128k8": "stage-64-n128-k8",
    "s64k8": "stage-64-k8",
    "t128k64": "tile-128x64",
    "f16k32": "fragment",
    "f32k256": "fragment-pairs",
}
"""By token, the name of the order in `oracle.layouts`."""
