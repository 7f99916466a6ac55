"""All mutants of one kernel: which there are, in what order they run, and the file that lets a run go on.

The order is that of a digest of the ids, so that the first n of a kernel are a sample of all of them, and a longer run
holds every shorter one.
"""

import hashlib
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Tier
from tileproof.conformance.mutation.devices import EntryPoint
from tileproof.conformance.mutation.mutant import Mutant, mutants
from tileproof.conformance.mutation.operator import Group
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.reach import Reach, reach
from tileproof.conformance.mutation.result import Outcome, Result, line_of, read_results, write_results
from tileproof.conformance.mutation.trial import Budget, Task, entry_digits, run_mutant
from tileproof.conformance.registry import contract_of
from tileproof.conformance.selection import select
from tileproof.conformance.target import Coordinates
from tileproof.conformance.unheard import unheard
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded

_LAYER = ("astrai_linear/*", "astrai_linear_backward/*")
_W8A8 = "metainfer_w8a8_gemm/int8_gemm/"


def _products(route: str) -> tuple[str, ...]:
    contracts = ("linear", "linear_add", "linear_swiglu", "attn_input_proj", "gdn_input_proj")
    return tuple(f"ninfer_{name}/fp8_a8_gemm/{route}/*" for name in contracts)


KERNELS: Mapping[str, tuple[str, ...]] = {
    "fp8_quantize_rows": ("ninfer_quantize/*",),
    "fp8_a8_gemm_cp_async": _products("cp-async"),
    "fp8_a8_gemm_fallback": _products("fallback"),
    "fp8_a8_gemm_tma": _products("tma"),
    "fp8_quantize_tensor": ("astrai_quantize/*",),
    "fp8_ring_seed": _LAYER,
    "fp8_scale_products": ("astrai_scale_products/*", *_LAYER),
    "fp8_bias_gradient": _LAYER,
    "mm_fp8": ("astrai_mm_fp8/*",),
    "int8_pack": ("metainfer_pack/*",),
    "int8_combine": (f"{_W8A8}*-b2/*", f"{_W8A8}decode-partial/*"),
    "int8_gemm_decode": (f"{_W8A8}decode-*",),
    "int8_gemm_scalar": (f"{_W8A8}scalar/*",),
    "int8_gemm_tile": (f"{_W8A8}[0-9]*",),
    "int8_gemm_wgmma": (f"{_W8A8}wgmma-*",),
}
"""Kernels by the stem of their file, and globs of the cases that run them."""


MOST_ELEMENTS = 1 << 20
"""Of all tensors of a further case: larger ones take too long to be tried on every survivor."""


@dataclass(frozen=True)
class Selection:
    """Which of a kernel's mutants.

    Args:
        operators: by name; none for all.
        group: of operators; None for all.
        ids: by id, or by their beginnings; none for all.
        sample: at most so many, the first by their digests; None for all.
        tier: whose cases run.
        cases: globs of those; none for all that run the kernel.
    """

    operators: tuple[str, ...] = ()
    group: Group | None = None
    ids: tuple[str, ...] = ()
    sample: int | None = None
    tier: Tier = Tier.SMOKE
    cases: tuple[str, ...] = ()

    def of(self, every: Sequence[Mutant]) -> tuple[Mutant, ...]:
        """The selected ones, in the order in which they run. Raises: Refusal where there is none."""
        chosen = sorted((one for one in every if self._takes(one)), key=lambda one: _order(one.id))
        if not chosen:
            raise Refusal("no mutant is selected", hint="`tileproof mutate KERNEL --list` shows all")
        return tuple(chosen[: self.sample])

    def _takes(self, mutant: Mutant) -> bool:
        return (
            (not self.operators or mutant.operator in self.operators)
            and (self.group is None or OPERATORS[mutant.operator].group is self.group)
            and (not self.ids or mutant.id.startswith(self.ids))
        )


class Campaign:
    """The mutants of one kernel and the cases that reach them.

    Attributes:
        reach: what the cases run.
        mutants: the selected ones, in the order in which they run.
        reached: how many there are on instructions that are reached, selected or not.
        unreached: how many there are on instructions of the same entries that no case reaches.

    Args:
        kernel: a key of KERNELS.
        selection: which mutants.
        coordinates: where.

    Raises:
        Refusal: no such kernel, a case that fails as shipped, or nothing selected.
    """

    def __init__(self, kernel: str, selection: Selection, coordinates: Coordinates) -> None:
        if kernel not in KERNELS:
            raise Refusal(f"unknown kernel {kernel!r}", hint=f"kernels: {', '.join(KERNELS)}")
        self.kernel = kernel
        self.coordinates = coordinates
        self.reach = reach(kernel, select(selection.cases or KERNELS[kernel], selection.tier), coordinates)
        self._deeper = _beyond(selection, KERNELS[kernel])
        every = list(_all(self.reach, reached=True))
        self.reached = len(every)
        self.unreached = sum(1 for _ in _all(self.reach, reached=False)) - self.reached
        self.mutants = selection.of(every)
        self._cases: dict[tuple[EntryPoint, int], tuple[tuple[Case, ...], tuple[Case, ...]]] = {}
        self._known_digits: dict[EntryPoint, str] = {}

    def done(self, path: Path) -> dict[str, Result]:
        """Results of earlier runs that still hold: made from the same instructions, and finished."""
        digits = {mutant.id: self._digits(mutant) for mutant in self.mutants}
        known = read_results(path)
        return {
            name: one
            for name, one in known.items()
            if digits.get(name) == one.ptx and one.outcome is not Outcome.UNFINISHED
        }

    def run(
        self, path: Path, *, jobs: int, budget: Budget, minutes: float | None, again: bool = False
    ) -> Iterator[Result]:
        """Decide every mutant that the file does not have, and write each down.

        Args:
            path: of the results; what others have written of other mutants stays.
            jobs: processes.
            budget: of one mutant.
            minutes: of the run, after which no further mutant is begun; None for no limit.
            again: also what survived in an earlier run.
        """
        known = {name: one for name, one in self.done(path).items() if not again or one.outcome is not Outcome.SURVIVED}
        tasks = [task for task in self.tasks() if task.mutant.id not in known]
        path.parent.mkdir(parents=True, exist_ok=True)
        decide = partial(run_mutant, coordinates=self.coordinates, budget=budget)
        end = None if minutes is None else time.monotonic() + 60 * minutes
        with path.open("a", buffering=1) as file, _pool(jobs) as pool:
            for result in pool.imap_unordered(decide, tasks) if pool else map(decide, tasks):
                file.write(line_of(result))
                yield result
                if end is not None and time.monotonic() > end:
                    break
        write_results(path, read_results(path).values())

    def tasks(self) -> Iterator[Task]:
        """What there is to decide, in the order in which it runs."""
        return map(self._task, self.mutants)

    def _task(self, mutant: Mutant) -> Task:
        place = EntryPoint(mutant.variant, mutant.entry), mutant.ptx_line
        if place not in self._cases:
            cases = self.reach.cases(mutant)
            keys = {_key(case) for case in cases}
            deeper = tuple(case for key in sorted(keys, key=str) for case in self._deeper.get(key, ()))
            self._cases[place] = cases, deeper
        return Task(mutant, self.reach.modules[mutant.variant], *self._cases[place])

    def _digits(self, mutant: Mutant) -> str:
        point = EntryPoint(mutant.variant, mutant.entry)
        if point not in self._known_digits:
            parsed, _ = decoded(self.reach.modules[mutant.variant].ptx, Contraction.NONE)
            self._known_digits[point] = entry_digits(parsed.entries[mutant.entry])
        return self._known_digits[point]


def _beyond(selection: Selection, globs: Sequence[str]) -> Mapping[Hashable, Sequence[Case]]:
    """Cases of the full tier that the selection's tier does not hold, by what is compiled for them, mixed."""
    if selection.cases or selection.tier is Tier.FULL:
        return {}
    found: dict[Hashable, list[Case]] = defaultdict(list)
    smoke = set(select(globs, Tier.SMOKE))
    for case in sorted(select(globs, Tier.FULL), key=lambda case: _order(str(case))):
        if case not in smoke and _elements(case) <= MOST_ELEMENTS:
            found[_key(case)].append(case)
    return found


def _key(case: Case) -> Hashable:
    """Cases with the same run the same entry of the same variant, as far as ids can say."""
    return (case.contract, case.kernel, case.route, case.shape.dtype)


def _elements(case: Case) -> int:
    return sum(prod(spec.shape) for spec in contract_of(case).tensors(case.shape))


def _all(found: Reach, *, reached: bool) -> Iterator[Mutant]:
    for point, lines in sorted(found.lines.items()):
        parsed, _ = decoded(found.modules[point.variant].ptx, Contraction.NONE)
        yield from mutants(point.variant, parsed.entries[point.entry], lines if reached else None)


def _order(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _pool(jobs: int) -> "multiprocessing.pool.Pool | nullcontext[None]":
    """Spawned processes; None for a single one: this."""
    with unheard():
        return multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else nullcontext()
