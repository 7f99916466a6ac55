"""Coverage as records: what each contract says of each property with the cases behind it, and the holes.

It follows from declarations: cases of the full tier, the kernels that launchers choose for them (nothing runs), the
committed recordings of a GPU, faults. With the events of a run it also says what really ran.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources

from tileproof.conformance.case import Case
from tileproof.conformance.contract import REFUSED, Contract, Tier
from tileproof.conformance.coverage.explained import EXPLAINED
from tileproof.conformance.coverage.ran import Ran
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_key import KernelKey, instance_name
from tileproof.conformance.evidence.launch_file import Forms
from tileproof.conformance.evidence.launched import Asked, Launches, asked, launches
from tileproof.conformance.evidence.recordings import Recordings, device_names
from tileproof.conformance.evidence.standing import Standing, lost_kernels, standing
from tileproof.conformance.fault import Fault
from tileproof.conformance.properties.declaration import Absent, By, Check, Declaration, Open
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Cell:
    """One property of one contract.

    Args:
        contract: its name.
        property: its id.
        said: "applies", "absent" or "open".
        why: of one that does not apply, or that nothing checks.
        checks: what checks it, in words, with the number of cases.
        cases: of the full tier that are there for it.
        probes: cases that its probes run.
        tests: outside cases.
        ran: of the cases, those that ended in the given run; None without one.
        gpu: of the cases that a GPU can show it by, how many stand how.
    """

    contract: str
    property: str
    said: str
    why: str = ""
    checks: tuple[str, ...] = ()
    cases: int = 0
    probes: int = 0
    tests: int = 0
    ran: int | None = None
    gpu: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Hole:
    """What nothing reaches.

    Args:
        kind: contract, route, kernel, instance, fault, property, or run.
        name: of it.
        why: the explanation; "" for none.
    """

    kind: str
    name: str
    why: str = ""


@dataclass(frozen=True)
class Mark:
    """How the cases of a contract stand on a GPU.

    Args:
        contract: its name.
        cases: by standing.
        lost: instances whose PTX no recording of a case has.
    """

    contract: str
    cases: Mapping[str, int]
    lost: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """All of it.

    Args:
        devices: GPUs that recordings are of.
        cells: contract by contract.
        marks: contract by contract.
        holes: explained or not.
        instances: compiled kernels that cases launch.
        routes: that cases take.
        faults: that have a case.
        part: of the cases in question, what the given run was of, in words; "" without one, or where it had all.
    """

    devices: tuple[str, ...]
    cells: tuple[Cell, ...]
    marks: tuple[Mark, ...]
    holes: tuple[Hole, ...]
    instances: int
    routes: int
    faults: int
    part: str = ""

    @property
    def unexplained(self) -> tuple[Hole, ...]:
        """The holes that nobody explains."""
        return tuple(hole for hole in self.holes if not hole.why)


@dataclass(frozen=True)
class Sources:
    """What coverage follows from.

    Args:
        contracts: those in question.
        device: that says what launches.
        recordings: of a GPU.
        faults: of these contracts.
        ran: what a run reached; None without one.
        kernels: stems of the kernels that there are.
        explained: known holes.
        forms: what launchers passed for confirmed cases, see `evidence.launch_file`.
    """

    contracts: Sequence[Contract]
    device: DryDevice
    recordings: Recordings
    faults: Sequence[Fault]
    ran: Ran | None = None
    kernels: Sequence[str] = ()
    explained: Mapping[tuple[str, str], str] = field(default_factory=lambda: EXPLAINED)
    forms: Forms = field(default_factory=dict)


def coverage(sources: Sources) -> Coverage:
    """What the contracts cover."""
    cases = {one.name: tuple(one.cases(Tier.FULL)) for one in sources.contracts}
    answers = asked((case for those in cases.values() for case in those), sources.device)
    launched = {case: one.kernels for case, one in answers.items()}
    stands = {case: _stands(case, one, sources) for case, one in answers.items()}
    cells = tuple(
        _cell(contract, id_, said, cases[contract.name], stands, sources.ran)
        for contract in sources.contracts
        for id_, said in contract.properties.items()
    )
    instances = {key.instance for keys in launched.values() for key in keys}
    routes = {(case.contract, case.kernel, case.route) for those in cases.values() for case in those}
    found = (
        *_unreached(sources, cases, routes, instances, launched),
        *(Hole("property", f"{cell.contract} {cell.property}") for cell in cells if _is_hole(cell)),
        *(() if sources.ran is None else _not_run(sources.ran, launched)),
    )
    return Coverage(
        devices=device_names(sources.recordings),
        cells=cells,
        marks=tuple(_mark(contract, cases[contract.name], answers, stands, sources) for contract in sources.contracts),
        holes=tuple(replace(hole, why=sources.explained.get((hole.kind, hole.name), "")) for hole in found),
        instances=len(instances),
        routes=len(routes),
        faults=len(sources.faults),
        part="" if sources.ran is None else _part(sources.ran, launched),
    )


def _part(ran: Ran, launched: Launches) -> str:
    """What share of the cases a run had."""
    had = sum(str(case) in ran.collected for case in launched)
    if had == len(launched):
        return ""
    return f"the run ({ran.tier}) had {had} of {len(launched)} cases, and is held to what these reach"


def kernel_stems() -> Iterator[str]:
    """The kernels of this package: stems of their files, those in folders with the folder's name."""
    root = resources.files("tileproof.kernels")
    for file in sorted(root.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".cu"):
            yield file.name.removesuffix(".cu")
        elif file.is_dir():
            inner = sorted(one.name for one in file.iterdir() if one.name.endswith(".cu"))
            yield from (f"{file.name}/{name.removesuffix('.cu')}" for name in inner)


def _cell(
    contract: Contract,
    id_: str,
    said: Declaration,
    cases: Sequence[Case],
    stands: Mapping[Case, Standing],
    ran: Ran | None,
) -> Cell:
    if isinstance(said, Absent | Open):
        return Cell(contract.name, id_, "absent" if isinstance(said, Absent) else "open", said.why)
    taken = [case for case in cases if said.takes(case)]
    shown = [case for case in cases if any(check.on_gpu and check.takes(case) for check in said.checks)]
    counts = {one.value: sum(stands.get(case) is one for case in shown) for one in Standing}
    return Cell(
        contract=contract.name,
        property=id_,
        said="applies",
        checks=tuple(_words(check, cases) for check in said.checks),
        cases=len(taken),
        probes=sum(len(check.cases) for check in said.checks),
        tests=sum(check.by is By.TEST for check in said.checks),
        ran=None if ran is None else sum(str(case) in ran.cases for case in taken),
        gpu={name: count for name, count in counts.items() if count},
    )


def _words(check: Check, cases: Sequence[Case]) -> str:
    if check.by is By.TEST:
        return f"test {check.name}"
    if check.by is By.PROBE:
        return f"probe {check.name} ({len(check.cases)})"
    return f"{check.name} ({sum(map(check.takes, cases))})"


def _is_hole(cell: Cell) -> bool:
    return cell.said == "open" or (cell.said == "applies" and not (cell.cases or cell.probes or cell.tests))


def _unreached(
    sources: Sources,
    cases: Mapping[str, Sequence[Case]],
    routes: set[tuple[str, str, str]],
    instances: set[str],
    launched: Launches,
) -> Iterator[Hole]:
    yield from (Hole("contract", name) for name, those in cases.items() if not those)
    for contract in sources.contracts:
        for kernel, known in contract.routes.items():
            for route in known:
                if (contract.name, kernel, route) not in routes:
                    yield Hole("route", f"{contract.name}/{kernel}/{route}")
    stems = {name.partition("/")[0].partition("<")[0] for name in instances}
    yield from (Hole("kernel", stem) for stem in sources.kernels if stem not in stems)
    _ask_for_variants(sources, cases)
    for variant, module in sorted(sources.device.modules.items()):
        names = (instance_name(variant, entry) for entry in module.entries)
        yield from (Hole("instance", name) for name in names if name not in instances)
    for fault in sources.faults:
        if not _has_case(fault, launched):
            yield Hole("fault", fault.name)


def _ask_for_variants(sources: Sources, cases: Mapping[str, Sequence[Case]]) -> None:
    """Let launchers choose for every type of a contract on every route: what no case names is compiled then, too."""
    for contract in sources.contracts:
        first: dict[tuple[str, str], list[Case]] = {}
        for case in cases[contract.name]:
            if case.route != REFUSED:
                first.setdefault((case.kernel, case.route), []).append(case)
        tried = [_with_type(contract, those, dtype) for those in first.values() for dtype in contract.dtypes]
        launches((case for case in tried if case is not None), sources.device)


MOST_TRIED = 40


def _with_type(contract: Contract, cases: Sequence[Case], dtype: str) -> Case | None:
    """The first of some cases of a route whose extents suit a type."""
    for case in cases[:MOST_TRIED]:
        other = replace(case, shape=replace(case.shape, dtype=dtype))
        if _is_known(contract, other):
            return other
    return None


def _is_known(contract: Contract, case: Case) -> bool:
    try:
        contract.check(case)
    except Refusal:
        return False
    return True


def _has_case(fault: Fault, launched: Launches) -> bool:
    """Whether a case of the fault's contract and route runs the file that it edits."""

    def suits(case: Case) -> bool:
        return case.contract == fault.contract and fault.route in (None, case.route)

    if not fault.edits or fault.file.endswith(".py"):
        return any(map(suits, launched))
    return any(suits(case) and any(_is_of(key, fault.file) for key in keys) for case, keys in launched.items())


def _is_of(key: KernelKey, stem: str) -> bool:
    return key.instance.startswith((f"{stem}/", f"{stem}<"))


def _not_run(ran: Ran, launched: Launches) -> Iterator[Hole]:
    """What the cases that the given run collected reach, and the run did not."""
    if ran.cut:
        yield Hole("run", f"{ran.cut} cases of which its file says nothing: it was cut short")
    wanted = {case: keys for case, keys in launched.items() if str(case) in ran.collected}
    routes = {(case.contract, case.kernel, case.route) for case in wanted}
    reached = {contract for contract, _, _ in ran.routes}
    for name in sorted({contract for contract, _, _ in routes} - reached):
        yield Hole("run", f"contract {name}")
    yield from (Hole("run", f"route {'/'.join(route)}") for route in sorted(routes - ran.routes) if route[0] in reached)
    instances = {key.instance for keys in wanted.values() for key in keys}
    yield from (Hole("run", f"instance {name}") for name in sorted(instances - ran.instances))


def _stands(case: Case, today: Asked, sources: Sources) -> Standing:
    recorded = sources.recordings.get(str(case), ())
    return standing(today.kernels, recorded, form=today.form, kept=sources.forms.get(str(case), ""))


def _mark(
    contract: Contract,
    cases: Sequence[Case],
    answers: Mapping[Case, Asked],
    stands: Mapping[Case, Standing],
    sources: Sources,
) -> Mark:
    counts = {one.value: sum(stands.get(case) is one for case in cases) for one in Standing}
    lost: set[str] = set()
    for case in cases:
        if stands.get(case) is Standing.LOST:
            lost.update(lost_kernels(answers[case].kernels, sources.recordings.get(str(case), ())))
            if sources.forms.get(str(case), answers[case].form) != answers[case].form:
                lost.add(f"{case.kernel}: what its launcher passes")
    return Mark(contract.name, counts, tuple(sorted(lost)))
