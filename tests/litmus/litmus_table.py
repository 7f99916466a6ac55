"""All litmus tests: the shapes in every strength and scope, and the forms; and how often each is run."""

from collections.abc import Mapping

from litmus_forms import FORMS
from litmus_program import Litmus
from litmus_run import GROUPS, LANES, Shown, run
from litmus_shapes import SHAPES, VARIANTS, Variant, litmus

#: Scopes of the tests of threads in blocks of their own; the others come for message passing alone.
BLOCK_SCOPES = ("cta", "gpu")
OTHER_SCOPES = ("cluster", "sys")
#: Launches of a test: 100 seeds, each with 25 groups of blocks of 4 instances, are 10^4 schedules.
SEEDS = 100
#: The first of them are checked for races; the others are not, which is several times as fast.
CHECKED_SEEDS = 4


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
    tests = (litmus(shape, variant, "cta", "one block") for shape in SHAPES for variant in VARIANTS)
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
    checked = seeds if _gathers(test) else min(seeds, CHECKED_SEEDS)
    first, rest = run(test, range(checked)), run(test, range(checked, seeds), order=False)
    return Shown(first.outcomes + rest.outcomes, first.kinds, checked)


def _gathers(test: Litmus) -> bool:
    blocks = [thread.block for thread in test.threads]
    return 1 < len(set(blocks)) < len(blocks)


INSTANCES = SEEDS * GROUPS * LANES
