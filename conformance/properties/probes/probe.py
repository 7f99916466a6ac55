"""Probes by the names that contracts give them."""

from collections.abc import Callable, Mapping

from tileproof.conformance.case import Case
from tileproof.conformance.contract import EditedSource
from tileproof.conformance.properties.probes.anchor import anchor
from tileproof.conformance.properties.probes.far import cut_offsets
from tileproof.conformance.properties.probes.far_sums import cut_sums
from tileproof.conformance.properties.probes.graph import wrong_replays
from tileproof.conformance.properties.probes.repeats import differing_runs
from tileproof.conformance.properties.probes.wrong_oracles import accepted
from tileproof.conformance.registry import contract_of
from tileproof.kernels.fp8_quantize_tensor import SCALAR, VECTOR_ELEMENTS, grid_of

Probe = Callable[[Case, EditedSource | None], tuple[str, ...]]
"""A case and, for the probe's own proof, an edited kernel, to what is wrong."""

_NO_STEP = 1 << 40
"""More blocks than any tensor has work for."""


def _far_without_steps(case: Case, source: EditedSource | None = None) -> tuple[str, ...]:
    specs = {spec.name: spec for spec in contract_of(case).tensors(case.shape)}
    rows, columns = specs["x"].shape
    per_thread = VECTOR_ELEMENTS if case.route == SCALAR else 1
    grid = grid_of((rows, columns * per_thread), is_tiled="transposed" in specs, max_blocks=_NO_STEP)
    return cut_offsets(case, source, grid)


PROBES: Mapping[str, Probe] = {
    "anchor": anchor,
    "far": cut_offsets,
    "far column sums": cut_sums,
    "far of a grid without steps": _far_without_steps,
    "graph": wrong_replays,
    "repeats": differing_runs,
    "wrong oracles": accepted,
}
"""By name; each answers with nothing where its property holds."""
