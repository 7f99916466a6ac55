"""The search: what it draws, that it finds and shrinks planted faults, keeps what is new, and ends as it should."""

import json
import re
from collections import Counter
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import pytest
from fuzz_fakes import FakeJudge, scope_of
from hypothesis import HealthCheck, given, settings
from page_files import DOUBLE, written

from tileproof.conformance.case import Shape
from tileproof.conformance.cli import main
from tileproof.conformance.contract import REFUSED, Arrays
from tileproof.conformance.events import CaseFinished, Event, FindingFound, RunFinished, read_events
from tileproof.conformance.fuzz.campaign import Alone, Campaign, Search
from tileproof.conformance.fuzz.codes import telling_codes
from tileproof.conformance.fuzz.corpus import Corpus
from tileproof.conformance.fuzz.explore import Allowance, Explored, Round
from tileproof.conformance.fuzz.judge import Judged
from tileproof.conformance.fuzz.round_work import Player, Setup
from tileproof.conformance.fuzz.shrink import Shrinker
from tileproof.conformance.fuzz.strategy import NOTHING_RUNS, space_of, trials
from tileproof.conformance.fuzz.trial import Edit, Trial
from tileproof.conformance.registry import contracts, find_case
from tileproof.conformance.target import Coordinates, Target
from tileproof.oracle.refusal import Refusal

QUANTIZE = "ninfer_quantize"
PLACE = Coordinates(Target.SIM)
THIN = "ninfer_attn_input_proj"
"""Its tiles begin at 1,792 rows: the contract whose tiled routes are drawn most rarely."""
TAIL = "unwritten/codes/tail"


def ragged(trial: Trial, inputs: Arrays) -> tuple[str, ...]:
    """Fails where two rows or more have a tail of five or more."""
    shape = trial.case.shape
    return (TAIL,) if shape.size("T") >= 2 and shape.size("K") % 8 >= 5 else ()


def explore(shows: object, seed: int = 1, examples: int = 60, **scope: object) -> tuple[Explored, FakeJudge]:
    judge = FakeJudge(shows)  # type: ignore[arg-type]
    given_scope = scope_of(QUANTIZE, **scope)
    return Round(given_scope, judge, frozenset(), seed, Allowance(examples)).run(), judge  # type: ignore[arg-type]


@pytest.mark.parametrize("name", contracts())
def test_every_contract_says_its_space_and_what_is_drawn_from_it_is_a_case(name: str) -> None:
    scope = scope_of(name)
    assert scope.contract.space is not None
    assert set(scope.space.extents) == set(scope.contract.dimensions)
    seen: list[Trial] = []

    @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(trials(scope))
    def draw(trial: Trial) -> None:
        scope.contract.check(trial.case)
        specs = {spec.short for spec in scope.contract.tensors(trial.case.shape)}
        assert {view.tensor for view in trial.case.shape.views} <= specs
        seen.append(trial)

    draw()
    assert any(trial.case.route != REFUSED for trial in seen)


def test_the_same_seed_draws_the_same_trials_and_another_one_others() -> None:
    first, again, other = (explore(lambda trial, inputs: (), seed)[1].trials for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(set(first)) > 25


def test_sizes_lie_at_the_edges_that_the_contract_names_and_between_them() -> None:
    _, judge = explore(lambda trial, inputs: (), examples=120)
    sizes = Counter(trial.case.shape.size("K") for trial in judge.trials)
    edges = {7, 8, 9, 63, 64, 65, 2047, 2048, 2049}
    assert sum(sizes[edge] for edge in edges) > 25
    assert len(set(sizes) - edges) > 8
    routes = Counter(trial.case.route for trial in judge.trials)
    assert routes["vector"] > 8
    assert routes["scalar"] > 8
    assert {trial.place.schedule for trial in judge.trials} == {"adversarial", "friendly"}
    assert any(trial.edits for trial in judge.trials)
    assert any(trial.case.shape.views for trial in judge.trials)


def test_a_find_is_shrunk_to_the_smallest_shape_that_shows_it() -> None:
    explored, judge = explore(ragged)
    shrunk = Shrinker(scope_of(QUANTIZE), judge, TAIL).shrink(explored.smallest[TAIL])  # type: ignore[arg-type]
    assert str(shrunk.trial.case).endswith("/T2.K5.bf16/all-codes/0")
    assert shrunk.trial.edits == ()
    assert shrunk.inputs is not None
    assert not shrunk.inputs["x"].view(np.uint16).any(), "no element matters, so none is left"


def test_signatures_are_kept_apart_and_each_is_shrunk_as_itself() -> None:
    def shows(trial: Trial, inputs: Arrays) -> tuple[str, ...]:
        rows, columns = (trial.case.shape.size(name) for name in "TK")
        return (*(("wide",) if columns > 100 else ()), *(("tall",) if rows > 3 else ()))

    # A round ends soon after its first find: by the seed, with one signature or with both.
    explored, judge = next(one for one in map(partial(explore, shows), range(9)) if len(one[0].smallest) == 2)
    assert set(explored.smallest) == {"wide", "tall"}
    least = {
        name: Shrinker(scope_of(QUANTIZE), judge, name).shrink(found).trial.case.shape  # type: ignore[arg-type]
        for name, found in explored.smallest.items()
    }
    assert {name: (shape.size("T"), shape.size("K")) for name, shape in least.items()} == {
        "wide": (0, 101),
        "tall": (4, 0),
    }


def test_an_element_that_matters_stays_and_all_others_become_zero() -> None:
    def shows(trial: Trial, inputs: Arrays) -> tuple[str, ...]:
        bits = inputs["x"].reshape(-1).view(f"u{inputs['x'].dtype.itemsize}")
        return ("negative",) if (bits >> (8 * bits.itemsize - 1)).any() else ()

    case = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T3.K17.bf16/ties/0")
    judge = FakeJudge(shows)
    least = Shrinker(scope_of(QUANTIZE), judge, "negative").shrink(judge.run(Trial(case, PLACE)))  # type: ignore[arg-type]
    assert least.inputs is not None
    assert np.count_nonzero(least.inputs["x"].view(np.uint16)) == 1
    assert least.origin == f"the id, x zero but for 1 of {least.inputs['x'].size}"


def test_shrinking_ends_when_it_may_not_go_on() -> None:
    case = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T3.K2051.bf16/ties/0")
    judge = FakeJudge(lambda trial, inputs: ("always",))
    found = judge.run(Trial(case, PLACE))
    least = Shrinker(scope_of(QUANTIZE), judge, "always", go_on=lambda: False).shrink(found)  # type: ignore[arg-type]
    assert least.trial.case == case
    assert len(judge.trials) == 1


def test_what_is_known_is_no_news() -> None:
    judge = FakeJudge(ragged)
    known = frozenset({TAIL})
    result = Round(scope_of(QUANTIZE), judge, known, 1, Allowance(60)).run()  # type: ignore[arg-type]
    assert not result.smallest
    assert any(judged.signatures for judged in result.judged)


def test_kept_trials_are_where_some_new_ones_begin() -> None:
    case = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T13.K1234.f16/peaks/7")
    _, judge = explore(lambda trial, inputs: (), kept=(Trial(case, PLACE),))
    assert any(trial.case.shape.size("K") == 1234 or trial.case.shape.size("T") == 13 for trial in judge.trials)


def test_telling_codes_have_both_ends_of_a_format() -> None:
    assert {0, 0x80, 0x7E, 0x7F, 0x01, 0x08} <= set(telling_codes("E4M3FN"))
    assert {0x7F80, 0x7F7F, 0xFF80, 0x0001, 0x3F80} <= set(telling_codes("BFLOAT16"))
    assert {0, 0x7F, 0x80, 0xFF} <= set(telling_codes("INT8"))
    assert all(0 <= code < 256 for code in (*telling_codes("E8M0FNU"), *telling_codes("E4M3FNUZ")))


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    case = find_case("ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0")
    assert Trial(case, PLACE, (Edit("x", 17, 0x7F81),)).inputs()["x"].view(np.uint16)[1, 8] == 0x7F81
    for edit in (Edit("x", 18, 0), Edit("y", 0, 0), Edit("x", 0, 1 << 16)):
        with pytest.raises(Refusal):
            Trial(case, PLACE, (edit,)).inputs()


def test_a_corpus_keeps_what_is_new_and_reads_it_again(tmp_path: Path) -> None:
    trial = Trial(find_case("ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0"), PLACE, (Edit("x", 1, 2),))
    corpus = Corpus(tmp_path)
    assert corpus.keep(trial, ("route scalar",), ("k@1:7",))
    assert not corpus.keep(trial, ("route scalar",), ("k@1:7",))
    other = Trial(find_case("ninfer_quantize/fp8_quantize_rows/scalar/T2.K10.bf16/ties/0"), PLACE)
    assert corpus.keep(other, (), ("k@1:8",))
    read, wrong = Corpus(tmp_path).read([QUANTIZE])
    assert {kept.trial for kept in read} == {trial, other}
    assert not wrong


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format": 1}', '{"format": 7}', "\x00"])
def test_a_damaged_kept_trial_is_said_and_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / QUANTIZE).mkdir()
    (tmp_path / QUANTIZE / "a.json").write_text(text)
    read, wrong = Corpus(tmp_path).read([QUANTIZE])
    assert not read
    assert len(wrong) == 1
    assert str(tmp_path) in wrong[0]


def test_a_fault_that_the_search_does_not_find_is_said_and_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    search = ["fuzz", "metainfer_pack", "--fault", "pack-halves-of-a-run-swapped", "--examples", "2", "--seed", "3"]
    assert main([*search, *folders]) == 2
    assert "fault pack-halves-of-a-run-swapped was NOT caught by these trials" in capsys.readouterr().out


def test_a_planted_fault_is_found_shrunk_kept_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    events = tmp_path / "run.ndjson"
    search = ["fuzz", QUANTIZE, "--fault", "tail-not-written", "--examples", "12", "--seed", "3", *folders]
    assert main([*search, "--events", str(events)]) == 1
    told = list(read_events(events))
    found = [event for event in told if isinstance(event, FindingFound)]
    smallest = min(found, key=lambda event: find_case(event.case).shape.size("K"))
    assert "/T1.K1." in smallest.case
    assert isinstance(told[-1], RunFinished)
    capsys.readouterr()
    crashes = {event.crash for event in found}
    assert main(["replay", smallest.crash, *folders[2:]]) == 1
    assert "as recorded" in capsys.readouterr().out
    kept = list((tmp_path / "corpus" / QUANTIZE).glob("*.json"))
    assert kept
    assert any(smallest.finding.signature in one for path in kept for one in json.loads(path.read_text())["why"])
    assert {path.stem for path in (tmp_path / "crashes").glob("*.json")} == crashes, "nothing else is left behind"


def test_a_right_kernel_gives_nothing_and_the_kept_trials_run_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    assert main(["fuzz", QUANTIZE, "--examples", "6", *folders]) == 0
    kept = len(list((tmp_path / "corpus" / QUANTIZE).glob("*.json")))
    assert kept
    out = capsys.readouterr().out
    assert f"nothing new found; {kept} trials kept" in out
    (reached,) = (line for line in out.splitlines() if line.startswith(f"{QUANTIZE}  "))
    assert re.match(rf"{QUANTIZE} +6 +[1-9][0-9]* +.*(scalar|vector) [1-6].*; not .*empty", reached)
    events = tmp_path / "run.ndjson"
    assert main(["fuzz", QUANTIZE, "--examples", "1", *folders, "--events", str(events)]) == 0
    assert sum(isinstance(event, CaseFinished) for event in read_events(events)) == kept + 1
    assert not list((tmp_path / "crashes").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fuzz", "ninfer_quantise"], "no contract matches 'ninfer_quantise'"),
        (["fuzz", "--arch", "sm_70"], "unknown architecture 'sm_70'"),
        (["fuzz", "--fault", "nosuch"], "unknown fault 'nosuch'"),
        (["fuzz", "astrai_*", "--fault", "divide"], "fault divide is one of ninfer_quantize"),
        (["fuzz", "--target", "cpu"], "unknown target"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_single_trial_of_a_narrow_space_is_drawn_however_many_draws_it_takes() -> None:
    judge = FakeJudge(lambda trial, inputs: ())
    for seed in range(12):
        scope = scope_of("metainfer_w8a8_gemm")
        found = Round(scope, judge, frozenset(), seed, Allowance(1)).run()  # type: ignore[arg-type]
        assert (len(found.judged), found.is_barren) == (1, False)


def test_a_page_that_no_search_affords_is_one_line_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = written(tmp_path, DOUBLE.replace('{"N": (5,)}', '{"N": (10**30,)}'))
    assert main(["fuzz", "--page", str(page), "--target", "host", "--examples", "5"]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: double: its least shape has N = 1.00e+30, and a search affords at most 262144"
    assert hint == "hint: list smaller sizes of N for it"


def test_a_space_without_a_shape_that_can_run_is_told_and_is_no_clean_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dear = DOUBLE.replace('{"N": (5,)}', '{"N": (5, 10**7)}')
    page = written(tmp_path, dear.replace('families=("normal",)', 'families=("normal",), only=lambda N: N > 5'))
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    assert main(["fuzz", "--page", str(page), "--target", "host", "--seconds", "30", *folders]) == 2
    assert "double: nothing can be drawn: no shape of its space is one that it takes" in capsys.readouterr().out


def test_the_first_round_of_a_contract_has_cheap_shapes_alone_and_later_ones_dear_ones_too() -> None:
    def works(turn: int) -> list[int]:
        judge = FakeJudge(lambda trial, inputs: ())
        Round(scope_of("ninfer_linear", turn=turn), judge, frozenset(), 5, Allowance(120)).run()  # type: ignore[arg-type]
        return [prod(max(1, trial.case.shape.size(name)) for name in "TNK") for trial in judge.trials]

    afforded = contracts()["ninfer_linear"].space
    assert afforded is not None
    assert max(works(0)) <= afforded.work / 4
    later = works(1)
    assert max(later) > afforded.work / 4
    assert sum(one <= afforded.work / 16 for one in later) > len(later) / 3


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == THIN else pytest.mark.slow) for one in contracts()]
)
def test_five_rounds_draw_every_route_on_which_anything_runs_and_few_trials_in_which_nothing_does(name: str) -> None:
    judge = FakeJudge(lambda trial, inputs: ())
    for seed in range(5):
        Round(scope_of(name, turn=seed), judge, frozenset(), seed, Allowance(20)).run()  # type: ignore[arg-type]
    routes = Counter(trial.case.route for trial in judge.trials)
    scope = scope_of(name)
    missing = {those[0].route for those in scope.listed} - routes.keys()
    assert len(missing) <= len(scope.listed) // 2, "of twenty routes some need more rounds"
    assert sum(routes[one] for one in NOTHING_RUNS) < len(judge.trials) / 4
    assert len(judge.trials) > 60
    if scope.space.any_bits:
        assert sum(bool(trial.edits) for trial in judge.trials) > len(judge.trials) / 6
    if scope.space.offsets:
        assert sum(bool(trial.case.shape.views) for trial in judge.trials) > len(judge.trials) / 12


def test_a_contract_without_a_space_is_searched_among_the_sizes_of_its_cases() -> None:
    from dataclasses import replace

    bare = replace(contracts()["metainfer_pack"], space=None)
    space = space_of(bare)
    assert space.extents["K"].holds(37)
    assert not space.extents["K"].holds(38 * 38)
    assert space.takes(Shape(()))


def test_what_a_round_had_found_is_told_and_kept_when_ctrl_c_ends_it(tmp_path: Path) -> None:
    setup = Setup((Target.SIM,), ("sm_90a",), tmp_path / "crashes", "tail-not-written")

    def tell(judged: Judged) -> None:
        if judged.signatures:
            raise KeyboardInterrupt

    campaign = Campaign(Search((QUANTIZE,), setup, tmp_path / "corpus", 3, 12), Alone(Player(setup, tell)))
    told: list[Event] = []

    def listen() -> None:
        for event in campaign.events():
            told.append(event)

    with pytest.raises(KeyboardInterrupt):
        listen()
    told.extend(campaign.interrupted())
    campaign.close()
    found = [event for event in told if isinstance(event, FindingFound)]
    assert {path.stem for path in (tmp_path / "crashes").glob("*.json")} == {event.crash for event in found} != set()
    assert campaign.kept
    assert isinstance(told[-1], RunFinished)
    assert told[-1].interrupted


def test_a_corpus_reads_nothing_that_does_not_end_and_counts_what_it_could_write(tmp_path: Path) -> None:
    folder = tmp_path / QUANTIZE
    folder.mkdir()
    (folder / "a.json").symlink_to("/dev/zero")
    assert Corpus(tmp_path).read([QUANTIZE]) == ([], [f"{folder / 'a.json'}: is a device, no regular file"])
    (tmp_path / "file").write_text("")
    trial = Trial(find_case("ninfer_quantize/fp8_quantize_rows/vector/T1.K64.f32/ties/0"), PLACE)
    corpus = Corpus(tmp_path / "file")
    assert not corpus.keep(trial, ("route scalar",))
    assert "cannot be written" in corpus.failure
