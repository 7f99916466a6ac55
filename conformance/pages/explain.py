"""What a report says of a wrong element of a page's output: its class, and the inputs that belong to it."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tileproof.conformance.bits import is_nan, magnitude
from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Arrays, Mask, Role, TensorSpec
from tileproof.conformance.integer_format import INTEGER_FORMATS


def classes_of(
    specs: Sequence[TensorSpec], values: Arrays, tiles: Mapping[int, tuple[str, int]]
) -> dict[str, dict[str, Mask]]:
    """Classes of elements for each output.

    Args:
        specs: the tensors of a case.
        values: its inputs.
        tiles: name and tile by extent, of the sizes that know their tile.
    """
    inputs = [spec for spec in specs if spec.role.is_read]
    return {
        spec.name: {**dict(_by_input(spec, inputs, values)), **dict(_by_place(spec, tiles))}
        for spec in specs
        if spec.role.is_written
    }


def witnesses_of(
    every: Sequence[Sequence[TensorSpec]], output: str, index: tuple[int, ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Inputs that have the output's shape, at the same place, and inputs of its leading dimensions, at that row.

    Args:
        every: the tensors of each shape of a page: shapes count as the same that are so in all of them.
        output: its name.
        index: of the element.
    """
    place = next(i for i, spec in enumerate(every[0]) if spec.name == output)
    found = []
    for i, spec in enumerate(every[0]):
        pairs = [(specs[i].shape, specs[place].shape) for specs in every]
        if spec.role is Role.INPUT and all(inner and inner == outer[: len(inner)] for inner, outer in pairs):
            found.append((spec.name, index[: len(spec.shape)]))
    return tuple(found)


def _by_input(output: TensorSpec, inputs: Sequence[TensorSpec], values: Arrays) -> Iterator[tuple[str, Mask]]:
    for spec in inputs:
        if spec.shape != output.shape:
            continue
        raw = raw_bits(values[spec.name])
        yield f"elements where {spec.name} is zero", np.asarray(magnitude(spec.format, raw) == 0)
        if spec.format not in INTEGER_FORMATS:
            yield f"elements where {spec.name} is NaN", is_nan(spec.format, raw)


def _by_place(output: TensorSpec, tiles: Mapping[int, tuple[str, int]]) -> Iterator[tuple[str, Mask]]:
    for axis, extent in enumerate(output.shape):
        position = np.arange(extent).reshape(-1, *(1,) * (len(output.shape) - axis - 1))
        name, tile = tiles.get(extent, ("", 1))
        if extent % tile:
            inside = np.broadcast_to(position >= extent // tile * tile, output.shape)
            yield f"the incomplete tile of {name} (tiles of {tile})", inside
        if extent > 1:
            yield f"the last index of dimension {axis}", np.broadcast_to(position == extent - 1, output.shape)
            yield f"odd indices of dimension {axis}", np.broadcast_to(position % 2 == 1, output.shape)
