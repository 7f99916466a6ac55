"""The fingerprint of a black-box product: order, arithmetic and joins of its accumulator, each with what proves it.

1. `scale` finds how large a probe's numbers may be.
2. `swallowing` and `observed_tree` find which sums meet where; `reading` names the orders that do that.
3. The same at twice the K tells a promotion, whose interval stays, from a split, whose parts grow.
4. `sweeps` and `arithmetic` find bits, cutting and rounding; `joining` where C and a bias are added.
5. `closing` predicts products of random matrices at both K, every bit.

What no hypothesis explains ends it: the fingerprint is then *unknown*, and names the probe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tileproof.conformance.fingerprint.accumulator import FLOAT32, Accumulator, Mode, Order, Rounding
from tileproof.conformance.fingerprint.arithmetic import arithmetic
from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.bench import Bench, bench_of
from tileproof.conformance.fingerprint.box import Box
from tileproof.conformance.fingerprint.closing import Answer, ask_all, close
from tileproof.conformance.fingerprint.evidence import Proof, Unexplained
from tileproof.conformance.fingerprint.joining import find_join
from tileproof.conformance.fingerprint.observed_tree import TreeFinder
from tileproof.conformance.fingerprint.order_proofs import order_proofs
from tileproof.conformance.fingerprint.plan import plan_of, restricted
from tileproof.conformance.fingerprint.reading import orders_of
from tileproof.conformance.fingerprint.scale import Scale, find_scale
from tileproof.conformance.fingerprint.swallowing import Swallowing
from tileproof.conformance.fingerprint.sweeps import survival
from tileproof.conformance.fingerprint.tree import Forest
from tileproof.oracle.refusal import Refusal

DEFAULT_K = 256
MOST_K = 512
SIFTED_ROWS = 4
SPACING = 8
"""One of so many elements of K shows the order at twice the K, each time at another place among them."""

_OUTPUT_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}


@dataclass
class Fingerprint:
    """What was found.

    Args:
        box: its name.
        operand: type of both operands.
        k: K of the structure probes; twice as much was asked besides.
        accumulator: what was named; None if unknown.
        unexplained: the probe that nothing explains; None if the accumulator is known.
        alike: other models that gave every result too.
        proofs: the probes.
        remarks: what else is to be said.
        outputs: how many outputs were looked at.
    """

    box: str
    operand: str
    k: int
    accumulator: Accumulator | None = None
    unexplained: Unexplained | None = None
    alike: tuple[Accumulator, ...] = ()
    proofs: list[Proof] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    outputs: int = 0

    @property
    def is_known(self) -> bool:
        """Whether a model gave every bit of every answer."""
        return self.accumulator is not None


def fingerprint(box: Box, k: int = DEFAULT_K) -> Fingerprint:
    """Fingerprints a box.

    Args:
        box: the product.
        k: K of the structure probes.

    Raises:
        Refusal: a K that the probes or the box cannot take, or answers that are no [M, N] of floats.
    """
    if not 64 <= k <= MOST_K or k % max(SPACING, box.depth):
        raise Refusal(
            f"K = {k} cannot be fingerprinted",
            hint=f"give a multiple of {max(SPACING, box.depth)} from 64 to {MOST_K}",
        )
    found = Fingerprint(box.name, box.operand, k)
    asker, longer = Asker(box, k), Asker(box, 2 * k)
    try:
        _identify(found, asker, longer)
    except Unexplained as unexplained:
        found.accumulator, found.unexplained = None, unexplained
    found.outputs = asker.outputs + longer.outputs
    return found


def _identify(found: Fingerprint, asker: Asker, longer: Asker) -> None:
    scale = find_scale(asker)
    probes = Swallowing(asker, scale)
    tree = TreeFinder(probes).find(range(asker.k))
    orders = orders_of(tree, asker.k)
    order = _settled(found, orders, longer, scale)
    found.proofs += order_proofs(probes, order, asker.k)
    bench = bench_of(plan_of(order, asker.k))
    bits = survival(asker, bench, scale)
    found.proofs += bits.proofs
    result = arithmetic(asker, bench, scale, bits, order, _outputs(asker))
    found.proofs += result.proofs
    _conclude(found, asker, longer, scale, bench, result.models)


def _conclude(
    found: Fingerprint, asker: Asker, longer: Asker, scale: Scale, bench: Bench, models: Sequence[Accumulator]
) -> None:
    """The first model that also gives the products of random matrices, with the places where C and a bias join."""
    box = asker.box
    taken = [what for what, is_taken in (("c", box.takes_c), ("bias", box.takes_bias)) if is_taken]
    answers = [(asker, ask_all(asker, scale, c=box.takes_c, bias=box.takes_bias))]
    if not found.remarks:
        answers.append((longer, ask_all(longer, scale, c=box.takes_c, bias=box.takes_bias)))
    left, why = _sifted(asker, answers[0][1], models)
    for i, model in enumerate(left):
        try:
            proofs: list[Proof] = []
            for what in taken:
                join, more = find_join(asker, bench, scale, model, what)
                model = model.joined(what, join)
                proofs += more
            agreed = sum(close(one, given, model) for one, given in answers)
        except Unexplained as unexplained:
            why = why or unexplained
            continue
        everything = f"{agreed} of {agreed} agree"
        last = Proof("all", "random matrices, every output predicted", everything, "what is not in the model")
        found.proofs += [*proofs, last]
        found.accumulator = model
        found.alike = tuple(replace(other, c=model.c, bias=model.bias) for other in left[i + 1 :])
        return
    assert why is not None, "there was a model, and it was rejected"
    raise why


def _sifted(
    asker: Asker, answers: Sequence[Answer], models: Sequence[Accumulator]
) -> tuple[list[Accumulator], Unexplained | None]:
    """Those that give the first rows of products without C and bias, and why the first one was rejected."""
    plain = [answer for answer in answers if answer.given.c is None and answer.given.bias is None]
    left, why = [], None
    for model in models:
        try:
            close(asker, plain, model, rows=SIFTED_ROWS)
            left.append(model)
        except Unexplained as unexplained:
            why = why or unexplained
    return left, why


def _settled(found: Fingerprint, orders: Sequence[Order], longer: Asker, scale: Scale) -> Order:
    """The order that also fits twice the K; a remark if none does."""
    places = tuple(SPACING * j + 3 * j % SPACING for j in range(longer.k // SPACING))
    forest = Forest()
    seen = forest.number(TreeFinder(Swallowing(longer, find_scale(longer))).find(places))
    for order in orders:
        plan = restricted(plan_of(order, longer.k), frozenset(places))
        if plan is not None and forest.number_of_plan(plan) == seen:
            return order
    found.remarks.append(f"at K = {longer.k} the order is another; what is named here holds for K = {found.k} alone")
    return orders[0]


def _outputs(asker: Asker) -> tuple[Rounding | None, ...]:
    """How the output may be rounded, from its type."""
    operands = asker.operands.encode(asker.operands.pool[:1][:, None].repeat(asker.k, axis=1))
    rows = operands.repeat(asker.box.rows, axis=0), operands.repeat(asker.box.columns, axis=0)
    bits = _OUTPUT_BITS.get(asker.box.ask(*rows).dtype.name)
    nearest = None if bits is None else Rounding(bits, Mode.NEAREST_EVEN)
    # A float32 output is the accumulator as it stands, unless that is wider.
    return (nearest,) if nearest in (None, FLOAT32) else (nearest, replace(nearest, mode=Mode.TOWARD_ZERO))
