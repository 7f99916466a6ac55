"""A proof over interleavings runs all of them, checks its premises, and refuses mutants that are wrong."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileproof.conformance import protocols
from tileproof.conformance.case import Case, Dimension
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.mutation import order_proof, ring_proof
from tileproof.conformance.mutation.determined import obstacle, open_steps, sequential_fences
from tileproof.conformance.mutation.devices import MutatedDevice, SeekingDevice, mutated_program
from tileproof.conformance.mutation.order_proof import Cases, Proved, prove
from tileproof.conformance.registry import contract_of, find_case
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.conformance.target import Coordinates, Schedule, Target
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import Device, decoded
from tileproof.simulators.ptx.launch import Prepared
from tileproof.simulators.ptx.machine.budget import BudgetExceeded
from tileproof.simulators.ptx.machine.chosen import Chosen
from tileproof.simulators.ptx.machine.schedule import Schedule as DeviceSchedule
from tileproof.simulators.ptx.program import Kind, Program

RESULTS = Path(__file__).parents[2] / "docs" / "evidence" / "mutation"
PLACE = Coordinates(Target.SIM, schedule=Schedule.FRIENDLY)
TEXT = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.shared .align 8 .b8 memory[64];
	ld.param.u64 %rd1, [k_param_0];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %rd2, %r1, 8;
	add.s64 %rd3, %rd1, %rd2;
	{body}
	ret;
}}
"""
TICKETS = """atom.global.add.u32 %r2, [%rd1], 1; membar.gl; atom.global.add.u32 %r3, [%rd1], 1;
st.global.u32 [%rd3+8], %r2; st.global.u32 [%rd3+12], %r3;"""

#: what a kernel does, and a word of why runs over its open steps do not stand for all; "" where they do.
OBSTACLES = (
    ("st.global.u32 [%rd3], %r1;", ""),
    ("bar.sync 0; ld.global.u32 %r2, [%rd3];", ""),
    (TICKETS, ""),
    ("mov.u32 %r2, %clock;", "depends on the schedule"),
    ("mov.u32 %r2, %smid; st.global.u32 [%rd3], %r2;", "%smid"),
    ("activemask.b32 %r2;", "depends on the schedule"),
    ("mbarrier.init.shared.b64 [memory], 1;", "depends on the schedule"),
)  # fmt: skip


def program(body: str) -> Program:
    return decoded(TEXT.format(body=body), Contraction.NONE)[1]["k"]


@pytest.mark.parametrize(("body", "why"), OBSTACLES)
def test_what_depends_on_more_than_the_order_of_open_steps_is_refused(body: str, why: str) -> None:
    words = obstacle(program(body))
    assert (why in words) if why else not words


class Following(Device):
    """A device whose launches follow numbers."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        super().__init__()
        self.choices = choices
        self.chosen: Chosen | None = None
        self.program: Program | None = None

    def run(self, prepared: Prepared, recorder: Any = None) -> Any:
        self.program = prepared.program
        return super().run(prepared, recorder)

    def schedule(self) -> DeviceSchedule:
        assert self.program is not None
        program = self.program
        self.chosen = Chosen(program, open_steps(program), sequential_fences(program), self.choices)
        return self.chosen


def followed(body: str, choices: tuple[int, ...] = ()) -> tuple[Chosen, list[int]]:
    """A launch of two blocks that follows numbers, and what it leaves in six words."""
    device = Following(choices)
    memory = device.upload(np.zeros(6, np.uint32))
    device.load_ptx(TEXT.format(body=body))["k"].launch(grid=(2, 1, 1), block=(1, 1, 1), args=[memory])
    assert device.chosen is not None
    return device.chosen, memory.download().tolist()


GUARDED = "setp.eq.u32 %p1, %r1, 0; @%p1 membar.gl"
SKIPPED = "setp.eq.u32 %p1, %r1, 0; @%p1 bra OVER; membar.gl; OVER: mov.u32 %r4, 0"


@pytest.mark.parametrize(
    ("between", "unfenced"),
    [("membar.gl", False), ("fence.sc.gpu", False), ("fence.sc.sys", False), ("membar.cta", True),
     ("fence.acq_rel.gpu", True), ("mov.u32 %r4, 0", True), (GUARDED, True), (SKIPPED, True)],
)  # fmt: skip
def test_two_atomics_of_a_thread_without_a_fence_between_are_told(between: str, unfenced: bool) -> None:
    chosen, _ = followed(TICKETS.replace("membar.gl", between))
    assert chosen.unfenced is unfenced


def test_all_interleavings_of_two_blocks_that_take_two_tickets_each_are_enumerated() -> None:
    left: list[tuple[int, ...]] = [()]
    seen: list[tuple[int, ...]] = []
    while left:
        choices = left.pop()
        chosen, words = followed(TICKETS, choices)
        seen.append(tuple(words[2:]))
        options = chosen.options
        for place in range(len(choices), len(options)):
            left += [(*choices, *(0,) * (place - len(choices)), one) for one in range(1, options[place])]
    assert sorted(seen) == [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2), (1, 2, 0, 3), (1, 3, 0, 2), (2, 3, 0, 1)]


def rows(kernel: str, operator: str, opcode: str, route: str = "/") -> list[Mapping[str, Any]]:
    """Results of a kernel's mutants with a case of a route, of an operator at an opcode."""
    found = map(json.loads, (RESULTS / f"{kernel}.ndjson").read_text().splitlines())
    return [
        row for row in found if row["id"].startswith(f"{kernel}/{operator}/{opcode}") and route in row.get("case", "")
    ]


def put(row: Mapping[str, Any], cases: tuple[Case, ...]) -> Proved | str:
    """A mutant to the proof."""
    device = SeekingDevice(PLACE, row["id"], row["entry"])
    device.step_budget = 1
    with contextlib.suppress(BudgetExceeded):
        run_case(cases[0], device)
    assert device.found is not None
    assert device.module is not None
    parsed, programs = decoded(device.module.ptx, Contraction.NONE)
    changed, shipped = mutated_program(device.found, parsed), programs[row["entry"]]
    given = Cases(cases, (), case_inputs, lambda case, arch: contract_of(case).expected(case, case_inputs(case), arch))
    return prove(device.found, changed, shipped, device.module.ptx, given, PLACE, lambda: False)


@pytest.fixture
def only_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = order_proof.SCALED["astrai_quantize"]
    small = tuple(size for size in sizes if size["B"] == 2)
    monkeypatch.setattr(order_proof, "SCALED", {"astrai_quantize": small})


@pytest.mark.usefixtures("only_two_blocks")
def test_orders_of_atomics_alone_do_not_prove_that_a_counter_may_be_set_back_by_a_plain_store() -> None:
    row = rows("fp8_quantize_tensor", "plain-atomic", "atom.global.exch", "/tile-vector/")[0]
    words = put(row, (find_case(row["case"]),))
    assert isinstance(words, str)
    assert "a fence of one block may come behind" in words


def test_a_fence_that_comes_late_shows_the_plain_store_that_sets_the_counter_back() -> None:
    late = "R33.C6.B5.S4.W2.bf16te4m3/falling/0"
    row = next(row for row in rows("fp8_quantize_tensor", "plain-atomic", "atom.global.exch") if late in row["case"])
    case = find_case(row["case"])
    device = SeekingDevice(PLACE, row["id"], row["entry"])
    run_case(case, device)
    assert device.found is not None
    assert device.module is not None
    parsed, _ = decoded(device.module.ptx, Contraction.NONE)
    place = replace(PLACE, schedule=Schedule.ADVERSARIAL, seed=0)
    mutant = MutatedDevice(place, device.found, mutated_program(device.found, parsed), device.module.ptx)
    assert FindingKind.RACE in {finding.kind for finding in run_case(case, mutant).findings}
    assert run_case(case, Device(schedule="adversarial", seed=0)).findings == ()


@pytest.mark.usefixtures("only_two_blocks")
@pytest.mark.parametrize(
    ("operator", "opcode"),
    [
        ("plain-atomic", "atom.global.max"),
        ("plain-atomic", "atom.global.add"),
        ("scope", "atom.global.add"),
        ("drop-fence", "membar.gl"),
        ("scope", "membar.gl"),
    ],
)
def test_an_election_that_lacks_what_it_needs_is_not_proved(operator: str, opcode: str) -> None:
    killed = [row for row in rows("fp8_quantize_tensor", operator, opcode, "/tile-vector/") if "kinds" in row]
    words = put(killed[0], (find_case(killed[0]["case"]),))
    assert isinstance(words, str)
    assert "a finding" in words or "without a fence.sc" in words


@pytest.mark.usefixtures("only_two_blocks")
@pytest.mark.parametrize("stage", [2, 3])
def test_a_barrier_that_one_form_of_the_ring_needs_is_not_proved_by_another(stage: int) -> None:
    row = rows("fp8_quantize_tensor", "drop-barrier", "bar.warp.sync", "/tile-vector/")[0]
    case = find_case(row["case"])
    sizes = {"S": stage, "W": 2}
    dimensions = tuple(Dimension(one.name, sizes.get(one.name, one.size)) for one in case.shape.dimensions)
    of_one_slot = replace(case, shape=replace(case.shape, dimensions=dimensions))
    words = put(row, (of_one_slot,))
    assert isinstance(words, str)
    assert "a finding" in words


@pytest.mark.parametrize(
    ("operator", "opcode"),
    [
        ("drop-barrier", "bar.sync"),
        ("drop-wait", "cp.async.wait_group"),
        ("wait-for-less", "cp.async.wait_group"),
        ("drop-commit", "cp.async.commit_group"),
    ],
)
def test_a_ring_that_lacks_what_it_needs_is_not_proved(operator: str, opcode: str) -> None:
    killed = [row for row in rows("mm_fp8", operator, opcode) if "kinds" in row]
    words = put(killed[0], (find_case(killed[0]["case"]),))
    assert isinstance(words, str)
    assert "a finding" in words or "without a fence.sc" in words


LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [memory];"
BARRIER = "bar.warp.sync 0xffffffff;"


@pytest.mark.parametrize(
    ("body", "idle"),
    [
        (f"{LOAD} {BARRIER}", True),
        (f"{LOAD} setp.eq.u32 %p1, %r1, 0; @%p1 bra OUT; {BARRIER} OUT: mov.u32 %r3, 1;", True),
        (f"{LOAD} st.global.u32 [%rd3], %r1; {BARRIER}", False),
        (f"{LOAD} ld.global.u32 %r3, [%rd3]; {BARRIER}", False),
        (f"@%p1 bra OVER; {LOAD} OVER: mov.u32 %r3, 1; {BARRIER}", False),
        (f"{LOAD} bar.warp.sync 0xffff;", False),
        (BARRIER, False),
        (f"{LOAD} bar.sync 0;", False),
        (f"{LOAD} AGAIN: {BARRIER} st.global.u32 [%rd3], %r1; bra AGAIN;", False),
    ],
)
def test_a_warp_barrier_is_idle_straight_behind_an_aligned_collective(body: str, idle: bool) -> None:
    of = program(body)
    index = next(at for at, step in enumerate(of.steps) if step.kind in (Kind.WARP_BARRIER, Kind.BARRIER))
    assert ring_proof.is_idle(of, index) is idle


POLL = "AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [memory], 0;"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"{POLL} @!%p1 bra AGAIN;", ""),
        (f"{POLL} selp.b32 %r2, 1, 0, %p1; setp.eq.u32 %p2, %r2, 0; @%p2 bra AGAIN;", ""),
        (POLL, "no branch back"),
        (f"{POLL} @!%p1 bra OUT; st.global.u32 [%rd3], %r1; OUT: ret;", "decides where to go on"),
        (f"{POLL} @!%p1 bra AGAIN; selp.b32 %r2, 1, 0, %p1; st.global.u32 [%rd3], %r2;", "used again"),
        (f"{POLL} st.global.u32 [%rd3], %r1; @!%p1 bra AGAIN;", "no branch back"),
        ("mbarrier.arrive.shared.b64 %rd4, [memory];", "in which phase it came"),
    ],
)
def test_a_poll_may_decide_nothing_but_whether_to_poll_again(body: str, why: str) -> None:
    words = ring_proof.polls_decide(program(body))
    assert (why in words) if why else not words


def test_a_dropped_warp_barrier_of_a_kernel_without_a_model_is_not_proved() -> None:
    killed = [row for row in rows("fp8_a8_gemm_tma", "drop-barrier", "bar.warp.sync") if "kinds" in row]
    words = put(killed[0], (find_case(killed[0]["case"]),))
    assert isinstance(words, str)
    assert "no model of a ring" in words


def test_a_ring_whose_model_is_wrong_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    family = protocols.PROTOCOLS["wgmma-ring"]
    faulty = replace(family, make=lambda fault, **sizes: family.build(sizes, "one-releases"))
    monkeypatch.setattr(protocols, "PROTOCOLS", {"wgmma-ring": faulty})
    ring_proof.model_says.cache_clear()
    assert "wgmma-ring of 3 stages" in ring_proof.model_says("INT8_STAGES=3", kernel="int8_gemm_wgmma")
    ring_proof.model_says.cache_clear()


def test_a_proof_needs_several_cases() -> None:
    row = next(row for row in rows("mm_fp8", "drop-barrier", "bar.sync") if "kinds" not in row)
    words = put(row, (find_case(row["case"]),))
    assert words == "only 1 cases have what a proof needs"
