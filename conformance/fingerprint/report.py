"""A fingerprint printed: a table of fields, then the probes that prove them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tileproof.conformance.fingerprint.accumulator import Accumulator, Rounding
from tileproof.conformance.fingerprint.arithmetic import EVERY_BIT
from tileproof.conformance.fingerprint.fingerprint import Fingerprint
from tileproof.conformance.fingerprint.operands import UNIT_BITS
from tileproof.oracle.products.accumulation_order import Combination

UNKNOWN = "unknown"


def lines(found: Fingerprint, *, probes: bool = True) -> list[str]:
    """The report of one box."""
    head = [
        f"{found.box}: {found.operand} · {found.operand}, K = {found.k} and {2 * found.k}, {found.outputs:,} outputs"
    ]
    body = [f"  {name:<16}{text}" for name, text in rows(found)]
    remarks = [f"  note: {remark}" for remark in found.remarks]
    return [*head, *body, *remarks, *(_proofs(found) if probes else ())]


def rows(found: Fingerprint) -> list[tuple[str, str]]:
    """Fields and what they are; for an unknown accumulator the probe that no hypothesis explains."""
    if found.accumulator is None:
        assert found.unexplained is not None, "what is not known is not explained"
        why = found.unexplained
        return [("accumulator", UNKNOWN), ("probe", why.probe), ("observed", why.observed), ("model", why.model)]
    values = _values(found.accumulator, found.k)
    others = [_values(other, found.k) for other in found.alike]
    if _only_wider(found.accumulator, found.alike):
        values["running total"] += ", or wider: the next cut takes the rest"
        others = []
    return [(name, text + _or(text, {other[name] for other in others})) for name, text in values.items()]


def _only_wider(model: Accumulator, others: Sequence[Accumulator]) -> bool:
    """Whether the others differ in a running total of more bits alone, which a cut to as many hides."""
    result = model.fused.result
    same = {replace(other, fused=replace(other.fused, result=result)) for other in others} == {model}
    return same and all(other.fused.result.fraction_bits > result.fraction_bits for other in others)


def _or(text: str, others: set[str]) -> str:
    """What gave the same results and is not told apart."""
    more = sorted(others - {text})
    if not more:
        return ""
    return f" (or {more[0]}: not told apart)" if len(more) == 1 else f" (or {len(more)} others, not told apart)"


def _values(model: Accumulator, k: int) -> dict[str, str]:
    order, fused = model.order, model.fused
    values = {
        "fused group": _group(model, k),
        "fraction bits": _fraction(model),
        "running total": _rounding(fused.result),
        "k order": _k_order(model, k),
        "promotion": _promotion(model),
        "split of K": _split(model),
    }
    if order.promotions or order.split_k:
        values["added sums"] = _rounding(model.sums)
    if model.output is not None:
        values["output"] = str(model.output)
    values |= {name: str(join) for name, join in (("C", model.c), ("bias", model.bias)) if join is not None}
    return values


def _group(model: Accumulator, k: int) -> str:
    group = model.order.group
    if group >= k:
        return f"all of K: no order is seen, nothing is lost within 2^{UNIT_BITS + 16}"
    return "1 product: a chain of multiply-adds" if group == 1 else f"{group} products"


def _fraction(model: Accumulator) -> str:
    fused = model.fused
    if fused.fraction_bits is None:
        return "no term is cut, down to the last bit of the operands"
    own = ", of products with their own exponents" if fused.normalised else ""
    return f"{fused.fraction_bits} below the largest term, cut {fused.cut}{own}"


def _rounding(rounding: Rounding) -> str:
    return "as it stands, no bit lost" if rounding.fraction_bits >= EVERY_BIT else str(rounding)


def _k_order(model: Accumulator, k: int) -> str:
    order = model.order
    if order.group >= k:
        return "not seen"
    direction = order.k_order.value + (f" in steps of {order.step}" if order.step != order.period else "")
    if not order.is_interleaved:
        return direction
    return f"{direction}, groups of runs of {order.run} in every {order.period} elements"


def _promotion(model: Accumulator) -> str:
    return ", then ".join(f"every {n} elements" for n in model.order.promotions) or "none: one running total"


def _split(model: Accumulator) -> str:
    split = model.order.split_k
    if split is None:
        return "none"
    dealt = f"{split.parts} parts, {split.partition.value}"
    return f"{dealt}, added {'in pairs' if split.combination is Combination.PAIRWISE else split.combination.value}"


def _proofs(found: Fingerprint) -> Iterator[str]:
    if found.proofs:
        yield "  probes:"
    for proof in found.proofs:
        yield f"    {proof.field}: {proof.probe}"
        yield f"      gives {proof.observed}; rules out {proof.rules_out}"
