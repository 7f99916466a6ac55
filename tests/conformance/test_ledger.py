"""The ledger: its rules, its first data, its file and its table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tileproof.conformance import cli
from tileproof.conformance.ledger import Authority, Correctness, Entry, Evidence, Ledger, Role, Row
from tileproof.conformance.ledger_file import parse_ledger, read_ledger
from tileproof.conformance.ledger_rules import Claim, Standing, require_claim, standing
from tileproof.conformance.ledger_table import Query, best_lines
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.kernel_reports import ACCEPTED, KernelReport

BOOK = read_ledger()

EVIDENCE = Evidence(
    by="somebody",
    ours=False,
    when="2026-08-22",
    device="a device",
    protocol="a protocol",
    correctness=Correctness.ON,
    authority=Authority.LEDGER,
    remeasured=True,
    source="a source",
)
ROW = Row(shape="s", extent=(1, 1, 1), role=Role.ACCEPTED, candidate="c", evidence="e", median_us=2.0)
GOOD = Entry(ROW, EVIDENCE)


def entry(base: Entry = GOOD, **changes: Any) -> Entry:
    of_row = {name: value for name, value in changes.items() if hasattr(base.row, name)}
    of_evidence = {name: value for name, value in changes.items() if name not in of_row}
    return Entry(replace(base.row, **of_row), replace(base.evidence, **of_evidence))


def worth(one: Entry, *others: Entry) -> Standing:
    return standing(one, Ledger((one, *others)))


def refused(claim: Claim, one: Entry, *others: Entry) -> bool:
    try:
        require_claim(claim, one, Ledger((one, *others)))
    except Refusal:
        return True
    return False


def test_what_others_measured_with_outputs_compared_is_reported_and_may_be_called_measured_and_best_found() -> None:
    assert worth(GOOD) is Standing.REPORTED
    assert not refused(Claim.MEASURED, GOOD)
    assert not refused(Claim.BEST_FOUND, GOOD)
    assert worth(entry(ours=True)) is Standing.MEASURED


def test_a_baseline_that_nobody_measured_again_is_never_called_measured_or_optimal() -> None:
    baseline = entry(role=Role.BASELINE, remeasured=False, plateau=True)
    assert worth(baseline) is Standing.SUPPLIED
    assert all(refused(claim, baseline) for claim in Claim)
    assert not refused(Claim.MEASURED, entry(role=Role.BASELINE))  # one that was measured is


@pytest.mark.parametrize("claim", Claim)
def test_a_run_that_failed_proves_nothing(claim: Claim) -> None:
    failed = entry(role=Role.FAILED, median_us=None)
    assert worth(failed) is Standing.NOTHING
    assert refused(claim, failed)


@pytest.mark.parametrize("claim", Claim)
def test_a_fast_wrong_result_is_no_result(claim: Claim) -> None:
    wrong = entry(correctness=Correctness.FAILED, median_us=0.1)
    assert worth(wrong) is Standing.WRONG
    assert refused(claim, wrong)


def test_nothing_is_optimal_without_a_plateau_that_was_shown() -> None:
    assert refused(Claim.OPTIMAL, GOOD)
    assert not refused(Claim.OPTIMAL, entry(plateau=True))
    assert refused(Claim.OPTIMAL, entry(plateau=True, role=Role.REJECTED))
    assert refused(Claim.OPTIMAL, entry(plateau=True, correctness=Correctness.OFF))


def test_a_stale_row_loses_to_the_authoritative_source() -> None:
    draft = entry(candidate="draft", authority=Authority.DRAFT, when=None, median_us=1.0)
    assert worth(draft, GOOD) is Standing.STALE
    assert worth(GOOD, draft) is Standing.REPORTED
    assert refused(Claim.MEASURED, draft, GOOD)
    assert Ledger((draft, GOOD)).best("s") == GOOD
    assert worth(draft) is Standing.REPORTED  # alone it overrides nothing


def test_of_two_rows_of_one_authority_the_later_wins_and_a_later_row_of_a_lesser_one_is_unconfirmed() -> None:
    earlier = entry(candidate="earlier", when="2026-08-01")
    assert worth(earlier, GOOD) is Standing.STALE
    later = entry(candidate="later", when="2026-09-06", authority=Authority.VARIANT)
    assert worth(later, GOOD) is Standing.UNCONFIRMED
    assert Ledger((later, GOOD)).best("s") == GOOD


def test_a_confounded_row_is_a_figure_and_no_verdict() -> None:
    confounded = entry(role=Role.REJECTED, confounded=True)
    assert worth(confounded) is Standing.CONFOUNDED
    assert not refused(Claim.MEASURED, confounded)
    assert refused(Claim.CANNOT_WORK, confounded)


def test_a_shape_without_an_accepted_row_has_no_best_and_one_without_comparison_neither() -> None:
    with pytest.raises(Refusal, match="nothing is accepted"):
        Ledger((entry(role=Role.BASELINE),)).best("s")
    with pytest.raises(Refusal, match="without a comparison"):
        Ledger((entry(correctness=Correctness.NOT_STATED),)).best("s")


def test_what_was_accepted_without_a_measured_figure_is_no_best() -> None:
    for changes in ({"remeasured": False}, {"median_us": None}):
        with pytest.raises(Refusal, match="without a figure that was measured"):
            Ledger((entry(**changes),)).best("s")


def test_a_quotient_is_of_one_product_and_device_and_over_right_outputs() -> None:
    for changes, word in (
        ({"extent": (2, 1, 1)}, "of one product"),
        ({"device": "another"}, "of one product and device"),
        ({"correctness": Correctness.FAILED}, "no divisor"),
    ):
        with pytest.raises(Refusal) as refusal:
            Ledger((GOOD, entry(role=Role.BASELINE, median_us=8.0, **changes))).speedup("s")
        assert word in str(refusal.value.hint)


def test_a_shape_accepted_twice_by_one_authority_on_one_day_is_undecided() -> None:
    data = json.loads(document())
    data["rows"].append({**data["rows"][0], "candidate": "another", "median_us": 3.0})
    with pytest.raises(Refusal, match="'s' is accepted twice by authority ledger of 2026-08-22"):
        parse_ledger(json.dumps(data).encode(), "file")


def test_one_shape_without_a_best_does_not_hide_the_others_and_is_named() -> None:
    lines = best_lines(Ledger((GOOD, entry(shape="t", correctness=Correctness.OFF))), Query())
    assert lines[1].startswith("s ")
    assert "No best: t: c was accepted without a comparison of its outputs." in lines


def test_a_plateau_of_what_was_rejected_makes_nothing_optimal() -> None:
    saying = "No row is optimal: the best found is not the best there is."
    rejected = entry(role=Role.REJECTED, candidate="r", plateau=True)
    assert saying in best_lines(Ledger((GOOD, rejected)), Query())
    assert saying not in best_lines(Ledger((entry(plateau=True), rejected)), Query())


def test_a_speed_up_says_whether_its_divisor_was_measured() -> None:
    for remeasured in (True, False):
        baseline = entry(role=Role.BASELINE, remeasured=remeasured, median_us=8.0)
        quotient = Ledger((GOOD, baseline)).speedup("s")
        assert (quotient.value, quotient.never_remeasured) == (4.0, not remeasured)
    with pytest.raises(Refusal, match="0 baselines"):
        Ledger((GOOD,)).speedup("s")


#: TOPS and quotients as the source prints them beside its figures: they hold our copy to it.
PRINTED = {
    "TP4 M4096 qkv": (113.51, 31.78),
    "TP4 M4096 o_proj": (85.48, 24.73),
    "TP4 M4096 gate_up": (116.76, 30.26),
    "TP4 M4096 down": (59.97, 20.39),
    "TP8 M4096 qkv": (102.7, 46.34),
    "TP8 M4096 o_proj": (106.4, 43.82),
    "TP8 M4096 gate_up": (111.1, 144.13),
    "TP8 M4096 down": (37.7, 63.01),
    "GLM TP8 M4096 fused_qkv_a": (140.86, 73.23),
    "GLM TP8 M4096 kv_b": (109.40, 50.51),
    "GLM TP8 M4096 q_b": (156.08, 65.35),
    "GLM TP8 M4096 o_proj": (135.64, 72.08),
    "GLM TP8 M4096 shared_down": (46.28, 63.57),
    "GLM TP8 M4096 shared_gate_up": (94.11, 77.62),
    "TP4 M3072 wqkv_a": (64.534, None),
    "TP4 M16 qkv": (None, 3.08),
    "TP4 M16 o_proj": (None, 3.00),
    "TP4 M16 gate_up": (None, 6.48),
    "TP4 M16 down": (None, 2.14),
    "TP4 M16 wqkv_a": (11.608, 3.84),
    "TP4 M16 wq_b": (None, 1.55),
    "TP4 M16 wo_b": (None, 1.07),
    "TP4 M16 shared_gate_up": (None, 3.31),
    "TP4 M16 shared_down": (None, 1.47),
    "TP4 M2 wqkv_a": (None, 3.35),
    "TP4 M3072 wq_b": (None, 13.43),
    "TP4 M3072 wo_b": (None, 13.31),
    "TP4 M3072 gate_up": (None, 9.61),
    "TP4 M3072 down": (None, 13.83),
}


@pytest.mark.parametrize("shape", PRINTED)
def test_rates_and_quotients_of_the_data_are_the_printed_ones(shape: str) -> None:
    tops, quotient = PRINTED[shape]
    if tops is not None:
        assert BOOK.best(shape).tops == pytest.approx(tops, abs=0.05 if tops == round(tops, 1) else 0.011)
    if quotient is not None:
        assert BOOK.speedup(shape).value == pytest.approx(quotient, abs=0.011)


def test_every_shape_with_an_accepted_row_is_held_to_what_is_printed() -> None:
    assert {shape for shape in BOOK.shapes if BOOK.authoritative(shape)} == set(PRINTED)


@pytest.mark.parametrize("report", ACCEPTED, ids=lambda report: report.shape)
def test_kernels_of_the_simulator_and_rows_of_the_ledger_mean_the_same_shapes(report: KernelReport) -> None:
    assert BOOK.best(report.shape.partition(",")[0]).row.extent == report.extent


def test_nothing_of_the_first_data_is_ours_and_no_row_is_optimal() -> None:
    assert not any(one.evidence.ours for one in BOOK.entries)
    for one in BOOK.entries:
        with pytest.raises(Refusal, match="plateau"):
            require_claim(Claim.OPTIMAL, one, BOOK)


def test_the_known_stale_wrong_and_unconfirmed_rows_are_found_by_rule() -> None:
    def of(worth: Standing) -> set[tuple[str, str]]:
        return {(e.row.shape, e.row.candidate) for e in BOOK.entries if standing(e, BOOK) is worth}

    assert of(Standing.STALE) == {
        ("TP8 M4096 down", "iteration 8"),
        ("TP4 M3072 wqkv_a", "first HIP kernel"),
        ("TP4 M16 down", "as a draft lists it"),
    }
    assert of(Standing.WRONG) == {("TP8 M4096 o_proj", "iteration 10"), ("TP4 M16 down", "stride 4 repack")}
    assert of(Standing.UNCONFIRMED) == {("TP8 M4096 down", "variant 303c7ee3")}
    assert BOOK.best("TP4 M16 down").row.extent == (16, 4096, 384)


def test_a_lower_figure_that_was_rejected_or_of_another_run_does_not_become_the_best() -> None:
    best = BOOK.best("TP4 M4096 qkv")
    lower = [e for e in BOOK.select("TP4 M4096 qkv") if (e.row.median_us or 1e9) < 756.73]
    assert best.row.median_us == 756.73
    assert {e.row.candidate for e in lower} >= {"iteration 6, coalesced stores", "iteration 19"}


def document(**row: Any) -> bytes:
    """A file of one row, changed."""
    evidence = {**EVIDENCE.__dict__, **row.pop("evidence_fields", {})}
    fields = {**ROW.__dict__, **row}
    return json.dumps({"version": 1, "evidence": {"e": evidence}, "rows": [fields]}).encode()


BAD_FILES = {
    "no JSON": (b"{", "not readable JSON"),
    "no object": (b"[]", "is not an object"),
    "another version": (b'{"version": 2, "evidence": {}, "rows": []}', "version 2"),
    "a field too many": (document(extra=1), "no such field"),
    "an unknown role": (document(role="best"), "is not one of"),
    "no such evidence": (document(evidence="x"), "no evidence"),
    "a figure below 0": (document(median_us=-1.0), "not all finite"),
    "a figure that is none": (document(median_us=float("nan")), "not all finite"),
    "an endless figure": (document(median_us=float("inf")), "not all finite"),
    "p90 below the median": (document(p90_us=1.0), "below the median"),
    "a failure with a figure": (document(role="failed"), "has no figure"),
    "a baseline without one": (document(role="baseline", median_us=None), "without a figure"),
    "an extent of 0": (document(extent=[0, 1, 1]), "extent"),
    "an escape sequence": (document(note="\x1b[2J"), "cannot be printed"),
    "an extent beyond int32": (document(extent=[2**31, 1, 1]), "extent"),
    "an absurd extent": (document(extent=[10**400, 1, 1]), "extent"),
    "an absurd figure": (document(median_us=10**400), "of the size of a float"),
    "a figure below a nanosecond": (document(median_us=5e-324), "not all finite and from"),
    "no shape": (document(shape=""), "without a shape"),
    "no candidate": (document(candidate=""), "without a shape or a candidate"),
    "a key twice": (document().replace(b'"p90_us": null', b'"p90_us": null, "median_us": 1.0'), "is there twice"),
    "no date": (document(evidence_fields={"when": "yesterday"}), "no date"),
    "an escape sequence in a name": (document(evidence_fields={"by": "\x1b[2J"}), "cannot be printed"),
    "nobody": (document(evidence_fields={"by": ""}), "must be said"),
    "ours without a date": (document(evidence_fields={"ours": True, "when": None}), "has a date"),
    "ours without comparison": (document(evidence_fields={"ours": True, "correctness": "off"}), "compares its outputs"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_breaks_a_rule_is_refused_by_name(name: str) -> None:
    raw, word = BAD_FILES[name]
    with pytest.raises(Refusal, match=word):
        parse_ledger(raw, "file")


def test_a_row_twice_is_refused_and_the_unchanged_file_is_read() -> None:
    assert parse_ledger(document(), "file").entries == (GOOD,)
    data = json.loads(document())
    data["rows"] *= 2
    with pytest.raises(Refusal, match="there before"):
        parse_ledger(json.dumps(data).encode(), "file")


def test_the_table_prints_rows_with_their_worth_and_who_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ledger", "TP8 M4096 o_proj"]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "iteration 10" in line)
    assert " wrong " in row
    assert "327.36" in row
    assert "Measured here: 0. Reported by: the authors of metainfer; the user of metainfer." in out
    assert "No row is optimal" in out
    assert cli.main(["ledger", "--role", "failed", "--worth", "nothing"]) == 0
    assert "proves nothing" in capsys.readouterr().out


def test_the_best_of_each_shape_is_printed_over_baselines_that_are_named_for_what_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["ledger", "--best"]) == 0
    out = capsys.readouterr().out
    assert "31.78 (never re-measured)" in out
    assert "3.84\n" in out  # a baseline that was measured in the same run
    assert "A supplied baseline is no measurement" in out
    assert out.count("\n") == len(PRINTED) + 5


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nothing*"], "no shape fits"),
        (["TP4 M2 down", "--role", "failed"], "no row of the ledger fits"),
        (["TP4 M2 down", "--best"], "nothing is accepted"),
        (["--file", "missing.json"], "cannot be read"),
    ],
)
def test_a_question_without_an_answer_ends_with_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ledger", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert word in captured.err


def test_another_ledger_is_read_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ours.json"
    file.write_bytes(document(evidence_fields={"ours": True}))
    assert cli.main(["ledger", "--file", str(file)]) == 0
    assert "Measured here: 1." in capsys.readouterr().out
