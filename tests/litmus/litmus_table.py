"""All litmus tests: the shapes in every strength and scope, and the forms; and how often each is run."""

import hashlib
from collections.abc import Mapping

from litmus_forms import FORMS
from litmus_kernel import kernel
from litmus_program import Litmus, Order
from litmus_run import GROUPS, Shown, run
from litmus_shapes import SHAPES, VARIANTS, Variant, litmus

#: Scopes of the tests of threads in blocks of their own; the others come for message passing alone.
BLOCK_SCOPES = ("cta", "gpu")
OTHER_SCOPES = ("cluster", "sys")
#: Launches of a test. Each has 25 groups of blocks of 32 instances, so that these are 10^4: groups run in orders of
#: their own, threads of a warp go ahead of others, and every store and load has draws of its own.
SEEDS = 13
#: The first of them are checked for races; the others are not, which is several times as fast.
CHECKED_SEEDS = 2
#: Of the variants those that differ inside one block, where all see every store at once.
BLOCK_VARIANTS = tuple(v for v in VARIANTS if v.name in ("weak", "relaxed", "weak data, release and acquire"))
BLOCK_VARIANTS += tuple(v for v in VARIANTS if v.fence is not None and v.data is Order.RELAXED)


def _between_blocks() -> Mapping[str, Litmus]:
    tests = {}
    for shape in SHAPES:
        for variant in VARIANTS:
            scopes = BLOCK_SCOPES + (OTHER_SCOPES if shape == "MP" else ())
            for scope in scopes if variant.scoped else ("gpu",):
                test = litmus(shape, variant, scope, "blocks")
                tests[test.name] = test
    return tests


def _in_one_block() -> Mapping[str, Litmus]:
    tests = (litmus(shape, variant, "cta", "one block") for shape in SHAPES for variant in BLOCK_VARIANTS)
    return {test.name: test for test in tests}


def name_of(shape: str, variant: Variant, scope: str, place: str) -> str:
    """The name of the test of a shape."""
    return litmus(shape, variant, scope, place).name


GROUPS_OF_TESTS: Mapping[str, Mapping[str, Litmus]] = {
    "blocks": _between_blocks(),
    "one block": _in_one_block(),
    **{group: {test.name: test for test in tests} for group, tests in FORMS.items()},
}
TESTS: Mapping[str, Litmus] = {name: test for group in GROUPS_OF_TESTS.values() for name, test in group.items()}


def run_all_seeds(test: Litmus, seeds: int = SEEDS) -> Shown:
    """All launches of a test. What a release covers is the order's to say where a block has several threads."""
    seeds = -(-seeds * LANES // kernel(test, LANES).lanes)  # where an instance takes several lanes
    checked = seeds if _gathers(test) else min(seeds, CHECKED_SEEDS)
    first = run(test, range(checked), lanes=LANES)
    rest = run(test, range(checked, seeds), lanes=LANES, order=False)
    return Shown(first.outcomes + rest.outcomes, first.kinds, checked)


def _gathers(test: Litmus) -> bool:
    blocks = [thread.block for thread in test.threads]
    return 1 < len(set(blocks)) < len(blocks)


def digest(test: Litmus) -> str:
    """Of what runs: evidence of another digest is of another test."""
    return hashlib.sha256(kernel(test, LANES).text.encode()).hexdigest()[:16]


#: Instances in a group of blocks, and in all launches of a test.
LANES = 32
INSTANCES = SEEDS * GROUPS * LANES
