"""Twenty hostile schedules of every kernel of the FP8 product, at every call site and every edge of a tile."""

import pytest
from fp8_a8_call import RAGGED_ROWS, TILED_ROWS, Call, check

from tileproof.kernels.fp8_a8_call_site import (
    ATTN_INPUT_PROJ,
    CALL_SITES,
    GDN_INPUT_PROJ,
    LINEAR_ADD,
    LINEAR_SWIGLU,
    CallSite,
)
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.simulators.ptx.device import SHARED_BASES

SEEDS = range(20)
# Both sides of a fragment of 16 tokens, of a warp's tokens and of a block's.
EDGES = {
    Route.CP_ASYNC: (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129),
    Route.TMA: (1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257),
    Route.FALLBACK: (1, 15, 16, 17, 33),
}
# Past the depth of the ring; of the fallback, no multiple of anything.
DEPTHS = {Route.CP_ASYNC: 384, Route.TMA: 320, Route.FALLBACK: 33}
# A row tile for each output of a projection.
ROWS = TILED_ROWS | {ATTN_INPUT_PROJ: 4 * 128, GDN_INPUT_PROJ: 2 * 128}
PARTS = {ATTN_INPUT_PROJ: (1, 1, 1, 1), GDN_INPUT_PROJ: (1, 1)}
# Dynamic shared memory begins at the next multiple of what a kernel declares.
PLACES = (SHARED_BASES[0], SHARED_BASES[4])

every_site = pytest.mark.parametrize("site", CALL_SITES, ids=lambda site: site.name)


def check_schedules(site: CallSite, route: Route, tokens: int, seeds: range) -> None:
    rows, parts = (RAGGED_ROWS[site], ()) if route is Route.FALLBACK else (ROWS[site], PARTS.get(site, ()))
    call = Call(site, tokens, rows, DEPTHS[route], seed=tokens, scale=2.0**-14, parts=parts)
    for seed in seeds:
        check(call, route, schedule="adversarial", seed=seed, shared_base=PLACES[seed % len(PLACES)])


@pytest.mark.parametrize("route", Route)
def test_hostile_schedules_change_nothing(route: Route) -> None:
    check_schedules(LINEAR_ADD, route, 17, range(20, 23))
    check_schedules(LINEAR_SWIGLU, route, 1, range(20, 22))


@pytest.mark.slow
@pytest.mark.parametrize(("route", "tokens"), [(route, tokens) for route in Route for tokens in EDGES[route]])
@every_site
def test_twenty_hostile_schedules_change_nothing_at_any_edge(site: CallSite, route: Route, tokens: int) -> None:
    check_schedules(site, route, tokens, SEEDS)
