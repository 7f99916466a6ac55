"""Cases and rounds on a cluster: verdicts of one process, and no case lost with a worker."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from fake_ray import FakeRay
from runner_fakes import SIM

from tileproof.conformance.cli import main
from tileproof.conformance.cluster.actors import MAX_DEATHS, Actors, Answered, Cluster, Lost
from tileproof.conformance.cluster.check import OnCluster
from tileproof.conformance.contract import Tier
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import CaseErrored, CaseFinished, CaseNotRun, Event, RunFinished, read_events
from tileproof.conformance.registry import contracts
from tileproof.conformance.session import Plan, Session, runners_for
from tileproof.conformance.side_by_side import Helpers
from tileproof.oracle.refusal import Refusal

SMOKE = contracts()["ninfer_quantize"].cases(Tier.SMOKE)
SMALL = tuple(case for case in SMOKE if case.shape.size("T") * case.shape.size("K") < 100)[:4]


def doubling() -> Callable[[int], int]:
    return lambda task: 2 * task


def all_of(workers: "Actors[int, int]", tasks: int) -> list[Answered[int, int] | Lost[int]]:
    left, ended = list(range(tasks)), list[Answered[int, int] | Lost[int]]()
    while left or workers.is_working:
        while left and workers.room:
            workers.hand_out(left.pop(0))
        ended += workers.take()
    return ended


def use(monkeypatch: pytest.MonkeyPatch, ray: FakeRay) -> None:
    monkeypatch.setitem(sys.modules, "ray", ray)


def ends(events: list[Event]) -> Counter[str]:
    return Counter(e.case for e in events if isinstance(e, CaseFinished | CaseErrored | CaseNotRun))


def test_every_task_has_an_answer_and_workers_are_used_again() -> None:
    ray = FakeRay()
    workers: Actors[int, int] = Actors(doubling, Cluster(workers=3), ray)
    assert sorted(all_of(workers, 9), key=lambda one: one.task) == [Answered(n, 2 * n) for n in range(9)]
    assert len(ray.made) == 3
    workers.close()
    assert ray.killed == 3
    assert not ray.is_up


def test_the_task_of_a_lost_worker_goes_to_another_one() -> None:
    ray = FakeRay(lambda worker, task: worker == 1)
    workers: Actors[int, int] = Actors(doubling, Cluster(workers=2), ray)
    assert sorted(all_of(workers, 5), key=lambda one: one.task) == [Answered(n, 2 * n) for n in range(5)]


def test_a_task_that_takes_two_workers_with_it_is_lost_and_no_other() -> None:
    workers: Actors[int, int] = Actors(doubling, Cluster(workers=2), FakeRay(lambda worker, task: task == 3))
    ended = all_of(workers, 5)
    (lost,) = (one for one in ended if isinstance(one, Lost))
    assert lost == Lost(3, "2 workers that ran it were lost: RayActorError: The actor died: its node has gone.")
    assert len(ended) == 5


def test_a_cluster_that_only_loses_workers_ends_the_run() -> None:
    workers: Actors[int, int] = Actors(doubling, Cluster(workers=1), FakeRay(lambda worker, task: True))
    with pytest.raises(Refusal, match=f"{MAX_DEATHS} workers of the cluster were lost one after another"):
        all_of(workers, 20)


def test_each_gpu_has_a_worker_of_its_own() -> None:
    ray = FakeRay(CPU=32.0, GPU=4.0)
    workers: Actors[int, int] = Actors(doubling, Cluster("auto", gpus=1), ray)
    all_of(workers, 9)
    assert [made["num_gpus"] for made in ray.made] == [1, 1, 1, 1]


def test_a_run_on_a_cluster_has_the_verdicts_of_one_process_also_where_workers_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeRay(lambda worker, task: worker == 1 or task == SMALL[2]))
    run = OnCluster(Plan(SMALL, (SIM,)), Helpers(2, tmp_path), Cluster(workers=2))
    events = list(run.events())
    run.close()
    plan = Plan(SMALL, (SIM,))
    alone = list(Session(plan, CrashFolder(tmp_path), runners_for(plan.coordinates, deadline_s=None)).events())
    digests = {e.case: e.output_digest for e in alone if isinstance(e, CaseFinished)}
    del digests[str(SMALL[2])]
    assert {e.case: e.output_digest for e in events if isinstance(e, CaseFinished)} == digests
    assert ends(events) == Counter(map(str, SMALL))
    (lost,) = (event for event in events if isinstance(event, CaseErrored))
    assert lost.message.startswith("2 workers that ran it were lost")
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 2


def test_a_round_that_is_lost_is_said_and_no_clean_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, FakeRay(lambda worker, ticket: ticket.number == 1))  # type: ignore[attr-defined]
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    search = ["fuzz", "metainfer_pack", "--examples", "22", "--cluster", "local", "--jobs", "1"]
    assert main([*search, *folders]) == 2
    out = capsys.readouterr().out
    assert "metainfer_pack: 20 trials of seed " in out
    assert "lost: 2 workers that ran it were lost" in out
    assert "sim: 2 passed" in out


def test_without_ray_or_a_cluster_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, FakeRay())
    assert main(["check", str(SMALL[0]), "--cluster", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: no cluster at 'nowhere': Could not find any running Ray instance."
    )

    monkeypatch.setitem(sys.modules, "ray", None)
    for command in (["check", str(SMALL[0])], ["fuzz", "metainfer_pack"]):
        assert main([*command, "--cluster", "local"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: Ray cannot be imported: ")
        assert error.endswith('hint: install "tileproof[cluster]"\n')


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_two_processes_loses_one_and_no_case(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `cluster`")
    cases = tuple(case for case in SMOKE if case.shape.size("T") * case.shape.size("K") < 300)[:20]
    run = OnCluster(Plan(cases, (SIM,)), Helpers(2, tmp_path), Cluster(workers=2))
    events: list[Event] = []
    try:
        for event in run.events():
            events.append(event)
            if len(ends(events)) == 3 and isinstance(event, CaseFinished):
                _kill_a_worker()
    finally:
        run.close()
    assert ends(events) == Counter(map(str, cases))
    assert sum(isinstance(event, CaseFinished) and event.passed for event in events) == len(cases)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_search_on_a_cluster_of_two_processes_finds_and_shrinks(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `cluster`")
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    events = tmp_path / "run.ndjson"
    search = ["fuzz", "ninfer_quantize", "--fault", "tail-not-written", "--examples", "60", "--cluster", "local"]
    assert main([*search, "--jobs", "2", *folders, "--events", str(events)]) == 1
    assert any("/T1.K1." in event.case for event in read_events(events) if isinstance(event, CaseFinished))


def _kill_a_worker() -> None:
    """One of the actors of the cluster that this process started, from outside."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if path.joinpath("cmdline").read_bytes().startswith(b"ray::Servant") and _parent(_parent(path)) == _own():
                os.kill(int(path.name), signal.SIGKILL)
                return
    raise AssertionError("there is no worker")


def _parent(process: Path) -> Path:
    """By the fourth field of its status, behind the name in brackets."""
    return Path("/proc") / process.joinpath("stat").read_text().rpartition(")")[2].split()[1]


def _own() -> Path:
    return Path("/proc") / str(os.getpid())
