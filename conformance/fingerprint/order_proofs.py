"""Structure probes in words: for a few pairs of large terms, where a tiny one is lost."""

from collections.abc import Iterable, Iterator

from tileproof.conformance.fingerprint.accumulator import Order
from tileproof.conformance.fingerprint.evidence import Proof
from tileproof.conformance.fingerprint.plan import Chain, Plan, plan_of
from tileproof.conformance.fingerprint.swallowing import Swallowing

_SHOWN = 4


def order_proofs(probes: Swallowing, order: Order, k: int) -> Iterator[Proof]:
    """The pairs that show the group, the direction of k and each promotion or split."""
    plan = plan_of(order, k)
    chains = list(_chains(plan))
    groups = chains[0].groups
    if len(groups[0]) > 1:
        yield _proof(probes, "fused group", groups[0][0], groups[0][1], k, "groups of other elements")
    if len(groups) > 1:
        yield _proof(probes, "k order", groups[0][0], groups[1][0], k, "another second group")
        yield _proof(probes, "k order", groups[0][0], groups[-1][-1], k, "other groups in the chain")
    if len(chains) > 1:
        second = chains[1].groups
        if len(chains[1]) > 1:
            yield _proof(
                probes, "promotion", second[0][0], second[-1][-1], k, "a total that goes on from the first chain"
            )
        yield _proof(probes, "promotion", groups[0][0], second[0][0], k, "another second sum")
        yield _proof(probes, "promotion", groups[0][0], chains[-1].groups[0][0], k, "another last sum")


def _proof(probes: Swallowing, field: str, plus: int, minus: int, k: int, rules_out: str) -> Proof:
    tiny = [j for j in range(k) if j not in (plus, minus)]
    kept = probes.survives(plus, [minus], tiny)[0]
    lost = [j for j, survives in zip(tiny, kept, strict=True) if not survives]
    probe = f"large terms at k = {plus} and {minus}, 2^-18 at each other k in turn"
    return Proof(field, probe, f"lost at {len(lost)} of {len(tiny)}: {spans(lost)}", rules_out)


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers as runs, the first few."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(a) if a == b else f"{a} to {b}" for a, b in runs[:_SHOWN]]
    return ", ".join(shown) + (f", ... {runs[-1][1]}" if len(runs) > _SHOWN else "") if runs else "nowhere"


def _chains(plan: Plan) -> Iterator[Chain]:
    if isinstance(plan, Chain):
        yield plan
    else:
        for part in plan.parts:
            yield from _chains(part)
