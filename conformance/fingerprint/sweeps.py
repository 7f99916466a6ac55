"""How many bits survive, measured one by one: a large term, a small one that shrinks, and the large one cancelled.

Cancelled in the same fused sum, the small term shows what the alignment keeps. Cancelled later, it shows what is left
once the running total has been converted.
"""

from dataclasses import dataclass

import numpy as np

from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.bench import Bench
from tileproof.conformance.fingerprint.evidence import Proof, Unexplained
from tileproof.conformance.fingerprint.operands import UNIT_BITS
from tileproof.conformance.fingerprint.scale import Scale


@dataclass(frozen=True)
class Survival:
    """Down to which bit below 2^top a term survives; None if down to the last that the operands can make.

    Args:
        aligned: beside 2^top in one fused sum; None also where a group is one product and cannot be asked.
        kept: in the running total after it.
        proofs: what was asked.
    """

    aligned: int | None
    kept: int | None
    proofs: tuple[Proof, ...]


def survival(asker: Asker, bench: Bench, scale: Scale) -> Survival:
    """Both sweeps.

    Raises:
        Unexplained: a smaller term survives where a larger one does not.
    """
    together = (*bench.before, *bench.inside)[-3:] if len(bench.inside) > 1 else ()
    proofs: list[Proof] = []
    aligned = kept = None
    if len(together) == 3:
        aligned, proof = _sweep(asker, (together[0], together[1], together[2]), scale, "fraction bits")
        proofs.append(proof)
    if bench.last is not None:
        pair = (*bench.before, *bench.inside)[-2:] if len(bench.inside) > 1 else (bench.before[0], bench.inside[0])
        kept, proof = _sweep(asker, (pair[0], bench.last, pair[1]), scale, "running total")
        proofs.append(proof)
    return Survival(aligned, kept, tuple(proofs))


def _sweep(asker: Asker, places: tuple[int, int, int], scale: Scale, field: str) -> tuple[int | None, Proof]:
    """(plus, minus, small): how far below 2^top the small term may lie."""
    plus, minus, small = places
    distances = np.arange(1, scale.top + UNIT_BITS + 1)
    products = np.zeros((len(distances), asker.k))
    products[:, plus], products[:, minus] = scale.large, -scale.large
    products[:, small] = np.exp2(scale.top - distances)
    survives = asker.each(products) == products[:, small]
    count = int(survives.sum())
    probe = f"2^{scale.top} at k = {plus}, -2^{scale.top} at k = {minus}, a smaller power of two at k = {small}"
    if not survives[:count].all():
        last, first = int(distances[survives][-1]), int(survives.argmin()) + 1
        seen = f"2^{scale.top - last} survives, 2^{scale.top - first} does not"
        raise Unexplained(probe, seen, "of two terms the larger one survives longer")
    if count == len(distances):
        return None, Proof(field, probe, f"each comes back, down to 2^-{UNIT_BITS}", f"fewer than {count} bits")
    seen = f"2^{scale.top - count} comes back, 2^{scale.top - count - 1} does not"
    return count, Proof(field, probe, seen, f"fewer and more than {count} bits below the largest term")
