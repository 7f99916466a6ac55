"""Contract pages: what a user's own kernel must do, written in Python. What a page is made of is importable here."""

from tileproof.conformance.pages.vocabulary import (
    Cuda,
    InOut,
    Input,
    Launch,
    Output,
    Page,
    Ptx,
    Python,
    Scratch,
    Tiles,
    around,
    between,
    cdiv,
    tensor_map,
    within,
)

__all__ = [
    "Cuda",
    "InOut",
    "Input",
    "Launch",
    "Output",
    "Page",
    "Ptx",
    "Python",
    "Scratch",
    "Tiles",
    "around",
    "between",
    "cdiv",
    "tensor_map",
    "within",
]
