"""Elements that are right and stand elsewhere: the diagnosis of `oracle.diagnosis`, as explanations."""

from collections.abc import Iterator
from functools import partial
from itertools import chain

import numpy as np

from tileproof.conformance.compare import raw_bits
from tileproof.conformance.contract import Allowed, TensorSpec
from tileproof.conformance.layout import POISONS
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.conformance.triage.scene import Scene
from tileproof.oracle.addresses.digit import Offsets
from tileproof.oracle.addresses.rearrangement import Cause as Kind
from tileproof.oracle.addresses.rearrangement import Rearrangement, swizzles
from tileproof.oracle.diagnosis import diagnose, general
from tileproof.oracle.swizzle import Swizzle

MOST_ELEMENTS = 1 << 20

HOPELESS = 4
"""A rearrangement that contradicts more than so many elements for each that it explains is not told."""

_CAUSES = {
    Kind.HALVES: Cause.HALVES_SWAPPED,
    Kind.TRANSPOSED: Cause.TRANSPOSED,
    Kind.SHIFTED: Cause.SHIFTED,
    Kind.RELATION: Cause.WRONG_PACK,
}
"""Of a rearrangement; what is left exchanges bits of the offset."""


def _all(spec: TensorSpec, size: int, rows: int, columns: int) -> Iterator[Iterator[Rearrangement]]:
    yield general(size, rows, columns)
    yield fields(size)
    if spec.dtype.itemsize == 1:
        yield from (swizzles(size, Swizzle.tma(span)) for span in (32, 64, 128))


def fields(size: int) -> Iterator[Rearrangement]:
    """Two neighbouring bits of the position exchanged with two others: words that are turned, and their bytes not."""
    bits = (size - 1).bit_length()
    for low in range(bits - 3):
        for high in range(low + 2, bits - 1):
            if size % (4 << high) == 0:
                text = f"bits {low} and {low + 1} of the position swapped with {high} and {high + 1}"
                yield Rearrangement(Kind.BITS, text, partial(_exchanged, low, high))


def _exchanged(low: int, high: int, place: Offsets) -> Offsets:
    rest = place & ~(3 << low | 3 << high)
    return np.asarray(rest | (place >> low & 3) << high | (place >> high & 3) << low)


def moved(scene: Scene) -> Iterator[Explanation]:
    """Rearrangements of an output that explain most of what differs in it; a proof where they explain all of it."""
    for name, spec in scene.specs.items():
        expected = scene.right[name]
        differing = int((scene.differing[name] & ~scene.unwritten[name]).sum())
        if isinstance(expected, Allowed) or not differing or spec.dtype.itemsize > 8 or expected.size > MOST_ELEMENTS:
            continue
        rows, columns = expected.shape if expected.ndim == 2 else (1, expected.size)
        observed, wanted = (raw_bits(np.asarray(one)).reshape(-1) for one in (scene.outputs[name], expected))
        if np.unique(wanted).size < min(16, wanted.size // 4 + 1):
            continue  # a nearly constant output is explained by anything
        poison = int.from_bytes(bytes([POISONS[0]]) * spec.dtype.itemsize, "little")
        for found in diagnose(
            observed, wanted, chain(*_all(spec, wanted.size, rows, columns)), poison=poison
        ).explanations[:2]:
            if found.contradicted > HOPELESS * found.explained:
                continue
            text = f"{name}: {found.rearrangement.text}"
            cause = _CAUSES.get(found.rearrangement.cause, Cause.PERMUTED)
            whole = (
                found.is_complete and not found.silent and differing == scene.count == int(scene.differing[name].sum())
            )
            strength = Strength.PROVED if whole else Strength.PARTIAL if found.is_complete else Strength.HINT
            yield Explanation(cause, text, strength, found.explained, scene.count, found.contradicted)
