"""Why two targets differ: told by what each side is, and never a proof that the CPU device does not have.

The GPU is a fake runner: what it gives is made on the CPU device, by an edited kernel, another schedule or other rules.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runner_fakes import GPU, FakeRunner

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Comparison, Contract, EditedSource
from tileproof.conformance.crash import CrashFolder, read_crash
from tileproof.conformance.events import CaseExplained, Event, FindingFound
from tileproof.conformance.faults import fault
from tileproof.conformance.finding import Proof
from tileproof.conformance.gathering import gather
from tileproof.conformance.registry import built_in, contract_of, find_case, registered
from tileproof.conformance.run_case import CaseResult, case_inputs, run_case
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Coordinates, Schedule, Target, open_device
from tileproof.conformance.triage.between import between, left_open
from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.crashes import explain
from tileproof.conformance.triage.explanation import Strength
from tileproof.conformance.triage.known_forms import FORMS, known_forms
from tileproof.conformance.triage.pair import Again, Pair, Side
from tileproof.conformance.triage.patience import Patience
from tileproof.conformance.worker import InProcess, Job, Runner
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.fp8_a8_gemm import kernel_name
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.source import expanded
from tileproof.kernels.watch import Launched
from tileproof.simulators.ptx.device import Device

TIES = find_case("ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0")
SIM = Coordinates(Target.SIM, schedule=Schedule.FRIENDLY)


def pair_of(case: Case, theirs: Arrays, source: EditedSource | None = None, ours: Arrays | None = None) -> Pair:
    """The CPU device's outputs beside others."""
    values = case_inputs(case)
    mine = ours or run_case(case, open_device(SIM), inputs=values, kernel_source=source).outputs
    contract = contract_of(case)
    sides = Side(SIM, mine), Side(GPU, theirs)
    return Pair(contract, case, values, sides, partial(contract.expected, case), source)


def outputs(case: Case, device: Device | None = None, name: str = "") -> dict[str, Any]:
    """What the CPU device gives, with a fault of the repository in it if one is named."""
    source = fault(name).kernel_source() if name else None
    return dict(run_case(case, device or Device(), kernel_source=source).outputs)


def bumped(array: Arrays, name: str, at: int = 0) -> dict[str, Any]:
    """With one element a code further."""
    made = {key: one.copy() for key, one in array.items()}
    made[name].view(f"u{made[name].dtype.itemsize}").flat[at] += 1
    return made


def test_the_side_that_is_right_is_named_and_nothing_is_claimed_beyond_it() -> None:
    told = between(pair_of(TIES, outputs(TIES, name="ties-away")))
    assert [one.cause for one in told] == [Cause.ONE_SIDE]
    assert told[0].text == "sim is as the reference says and gpu differs from the reference in 8 elements"
    assert told[0].strength is Strength.SEEN


def test_a_wrong_simulator_is_named_as_well() -> None:
    right = outputs(TIES)
    told = between(pair_of(TIES, right, ours=bumped(right, "codes")))
    assert [one.cause for one in told] == [Cause.ONE_SIDE]
    assert told[0].text.startswith("sim differs from the reference in 1 elements and gpu is as")


def test_two_wrong_sides_are_no_proof_of_anything() -> None:
    right = outputs(TIES)
    told = between(pair_of(TIES, bumped(right, "codes", 1), ours=bumped(right, "codes")))
    assert [(one.cause, one.is_proof) for one in told] == [(Cause.NO_SIDE, False)]


def repeat(case: str, name: str = "judged_by_itself") -> tuple[Contract, Case]:
    """A contract that has no reference, around a kernel of ours."""
    one = find_case(case)
    contract = replace(built_in()[one.contract], name=name, comparison=Comparison.REPEAT)
    return contract, replace(one, contract=name)


def test_what_an_approximate_function_leaves_open_is_seen_and_what_lies_outside_is_not() -> None:
    ours = outputs(TIES)
    scale = ours["scales"].view(np.uint32)
    ends = {"scales": (scale - 2, scale + 2)}
    again = Again(ours, ends, ())
    (within,) = left_open(pair_of(TIES, bumped(ours, "scales")), again)
    assert (within.cause, within.strength) == (Cause.APPROXIMATE, Strength.SEEN)
    assert within.text == "of 1 elements that differ PTX leaves 1 open, and gpu is within"
    outside = {**ours, "scales": (scale + 3).view(np.float32)}
    assert not list(left_open(pair_of(TIES, outside), again))
    (partly,) = left_open(pair_of(TIES, bumped(bumped(ours, "scales"), "codes")), again)
    assert (partly.strength, partly.explained, partly.of) == (Strength.PARTIAL, 1, 2)
    decided = Again(ours, {"scales": (scale, scale)}, ())
    assert not list(left_open(pair_of(TIES, bumped(ours, "scales")), decided))


RACY = "missing-barrier"


@pytest.mark.slow
def test_another_order_of_threads_that_gives_the_other_bits_is_seen() -> None:
    source = fault(RACY).kernel_source()
    case, seeds = racing(RACY)
    theirs = outputs(case, Device(schedule="adversarial", seed=seeds[0]), RACY)
    (first, *_) = between(pair_of(case, theirs, source))
    assert (first.cause, first.strength) == (Cause.SCHEDULE, Strength.SEEN)
    assert "sim gives what gpu gave, bit by bit" in first.text
    (foreign, *_) = between(pair_of(case, bumped(theirs, "scales"), source))
    assert foreign.cause is Cause.SCHEDULE
    assert "sim gives other bits, though not those of gpu" in foreign.text


def racing(name: str) -> tuple[Case, list[int]]:
    """A case and seeds under which a fault's outputs are others than under the friendly schedule."""
    for text in ("scalar/T2.K801.bf16/random-bits/0", "vector/T2.K2056.bf16/peaks/0", "vector/T3.K4112.f32/peaks/0"):
        case = find_case(f"ninfer_quantize/fp8_quantize_rows/{text}")
        plain = outputs(case, name=name)["codes"].tobytes()
        adverse = (outputs(case, Device(schedule="adversarial", seed=seed), name) for seed in range(8))
        seeds = [seed for seed, one in enumerate(adverse) if one["codes"].tobytes() != plain]
        if seeds:
            return case, seeds
    raise AssertionError("no case races")


def test_fused_pairs_that_give_every_bit_are_a_proof_and_one_other_bit_is_none() -> None:
    contract, case = repeat("ninfer_linear_add/fp8_a8_gemm/fallback/T5.N9.K33/normal/0")
    text = unfused()
    with registered((contract,)):
        theirs = dict(run_case(case, Device(contraction="first"), kernel_source=text).outputs)
        (first, *_) = between(pair_of(case, theirs, text))
        assert (first.cause, first.strength) == (Cause.FUSED, Strength.PROVED)
        short = between(pair_of(case, theirs, text), Patience(1e9, was_short=True))
        assert short[0].strength is Strength.EARLY
        spoilt = between(pair_of(case, bumped(theirs, "out", 40), text))
        assert not any(one.is_proof for one in spoilt)


def unfused() -> EditedSource:
    """The fallback with the error of x * w for an output: 0, unless an assembler fuses the product with its sum."""
    stem, call = kernel_name(Route.FALLBACK), "return __fmaf_rn(x, w, widen(*place(p, token, row)));"
    text = expanded(stem)
    assert text.count(call) == 1
    apart = (
        "float product, sum;"
        'asm("mul.f32 %0, %1, %2;" : "=f"(product) : "f"(x), "f"(w));'
        'asm("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(product), "f"(-__fmul_rn(x, w)));'
        "return sum;"
    )
    return EditedSource(stem, text.replace(call, apart))


@pytest.mark.parametrize(
    ("line", "section"),
    [
        ("@%p1 testp.finite.f32 %p2, %f1;", "Guards that are lost"),
        ("@!%p0 set.lt.u32.f16 %r2, %h1, %h2;", "Guards that are lost"),
        ("mad.hi.u32 %r0, %r6, %r7, %r0;", "Loops"),
        ("@%p0 brev.b64 %l3, %l2;", "A guard moved behind its end"),
        ("lop3.or.b32 %w4|%p3, %w0, %w3, %w0, 82, %p3;", "One register twice in `lop3`"),
        ("min.f32 %f1, %f2, %f2;", "What the ISA leaves open, or nearly"),
        ("testp.finite.f32 %p2, %f1;", None),
        ("@%p0 set.lt.u32.f32 %r2, %f1, %f2;", None),
        ("mad.hi.u32 %r0, %r6, %r7, %r1;", None),
        ("lop3.b32 %r4, %r0, %r3, %r0, 82;", None),
        ("min.f32 %f1, %f2, %f3;", None),
    ],
)
def test_a_form_that_ptxas_is_known_to_change_is_a_hint_where_there_is_one(line: str, section: str | None) -> None:
    module = CompiledModule("k", "sm_90a", (), f".entry k()\n{line}\n", b"", "NVRTC 13.0.88", "")
    told = list(known_forms([Launched(module, "k")], 3))
    assert [one.strength for one in told] == [Strength.HINT] * (section is not None)
    if section is not None:
        assert f"PTX line 2, `{line}`: see {section}" in told[0].text


def test_every_section_that_a_form_names_is_in_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ptxas.md").read_text()
    assert all(f"\n## {form.section}\n" in page for form in FORMS)


def ran(folder: Path, behaviour: Callable[[Job], CaseResult]) -> list[Event]:
    runners: dict[Target, Runner] = {Target.SIM: InProcess(), Target.GPU: FakeRunner(behaviour)}
    return list(Session(Plan((TIES,), (SIM, GPU)), CrashFolder(folder), runners).events())


def wrong_gpu(job: Job) -> CaseResult:
    """What a GPU with another rounding gives, and its own verdict on it."""
    return run_case(job.case, open_device(SIM), inputs=job.inputs, kernel_source=fault("ties-away").kernel_source())


def test_a_run_tells_why_its_targets_differ_beside_why_one_of_them_fails(tmp_path: Path) -> None:
    told = ran(tmp_path, wrong_gpu)
    reasons = [event for event in told if isinstance(event, CaseExplained)]
    assert [event.targets for event in reasons] == [(Target.GPU,), (Target.SIM, Target.GPU)]
    assert reasons[1].why.state is Proof.SEEN
    assert "sim is as the reference says and gpu differs from the reference in 8" in reasons[1].why.text
    failures = gather([event for event in told if isinstance(event, FindingFound)], reasons)
    assert {failure.head.smallest.targets: failure.head.explained for failure in failures} == {
        event.targets: event for event in reasons
    }


def test_triage_of_a_difference_runs_both_targets_and_says_so_where_one_is_not_here(tmp_path: Path) -> None:
    told = ran(tmp_path, wrong_gpu)
    (found,) = (event for event in told if isinstance(event, FindingFound) and len(event.targets) == 2)
    path = tmp_path / f"{found.crash}.json"
    assert read_crash(path)[0].why is not None
    runners: dict[Target, Runner] = {Target.SIM: InProcess(), Target.GPU: FakeRunner(wrong_gpu)}
    assert [one.cause for one in explain(path, runners).explanations] == [Cause.ONE_SIDE]
    absent: dict[Target, Runner] = {
        Target.SIM: InProcess(),
        Target.GPU: FakeRunner(wrong_gpu, missing="no GPU in this machine"),
    }
    (*_, last) = explain(path, absent).explanations
    assert last.cause is Cause.ELSEWHERE
    assert "no GPU in this machine" in last.text
    assert "told then: one target is as the reference says" in last.text
    same: dict[Target, Runner] = {Target.SIM: InProcess(), Target.GPU: InProcess(lambda place: open_device(SIM))}
    assert all(not one.is_proof for one in explain(path, same).explanations)
