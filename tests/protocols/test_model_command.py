"""`tileproof model`: verdict, trace and drawing; the kernels' own constants; every text of a model in its kernel."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.kernel_constants import kernel_constant, kernel_constants
from tileproof.conformance.protocol_progress import progress_line
from tileproof.conformance.protocol_source import line_of, place_of
from tileproof.conformance.protocols import PROTOCOLS, fault_name, tma_consumers
from tileproof.kernels.source import source_text
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import Source
from tileproof.simulators.protocols.search import Progress, decide


def test_a_right_model_is_proved_with_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "election", "--blocks", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "model    election: 3 blocks, 2 across, 2 slots, 2 launches, 2 pairs"
    assert lines[1].startswith("states   6,")
    assert lines[-1] == "verdict  proved"


def test_a_fault_prints_its_trace_with_places_in_the_kernel_and_draws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawing = tmp_path / "trace.svg"
    arguments = ["model", "election", "--blocks", "2", "--slots", "1", "--fault", "no-release", "--svg", str(drawing)]
    assert main(arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "verdict  the last block publishes without the maximum of some block, or with one of another launch" in lines
    ticket = next(line for line in lines if "takes a ticket" in line)
    number = int(ticket.split()[0].removeprefix("fp8_scale_ring.cuh:"))
    assert "atomicAdd(fold.counter" in source_text("fp8_scale_ring.cuh").splitlines()[number - 1]
    root = ElementTree.fromstring(drawing.read_text())
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"block 0", "block 1"} <= set(words)
    boxes = [element.get("class") for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert boxes[-1] == "broken"
    assert boxes.count("broken") == 1
    assert len(boxes) == sum(
        line.split("  ")[-1] != "" and line.lstrip().startswith(("fp8_", *"123456789")) for line in lines
    )


def test_a_proved_model_has_no_trace_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "split-k", "--parts", "2", "--svg", str(tmp_path / "x.svg")]) == 2
    assert "there is no trace to draw" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "no model 'nothing'"),
        (["election", "--fault", "no-relase"], "one of: no-release"),
        (["split-k", "--blocks", "3"], "--blocks has no meaning for split-k"),
        (["election", "--slots", "9"], "9 slots; it must lie in 1..4"),
        (["election", "--blocks", "4", "--states", "100", "--whole"], "more than 100 states"),
        (["tma-ring", "--stages", "0"], "0 stages; it must lie in 1..8"),
        (["tma-ring", "--consumers", "9"], "9 consumers; it must lie in 1..8"),
        (["tma-ring", "--tiles", "99999999999999999999"], "99999999999999999999 tiles; it must lie in 0..30"),
        (["tma-ring", "--replay"], "no kernel has this fault"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_interrupted_search_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tileproof.simulators.protocols.search.decide", interrupted)
    assert main(["model", "split-k"]) == 2
    assert capsys.readouterr().err == "error: interrupted\n"


def test_how_far_a_search_is_goes_to_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileproof.conformance.protocol_progress.PLAIN_INTERVAL_S", 0.0)
    assert main(["model", "election", "--blocks", "4"]) == 0
    shown = capsys.readouterr()
    assert "states, " not in shown.out.splitlines()[-1]
    assert progress_line(Progress(2_000_000, 1_500_000, 70, 0.5)) == (
        "2,000,000 states, 500,000 of them to be looked at, depth 70, 3.0 M/s, 0 s"
    )
    assert all(" of them to be looked at, depth " in line for line in shown.err.splitlines())
    assert shown.err


def test_models_are_listed_with_their_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PROTOCOLS)
    assert "tma-ring\tthe ring of tensor copies\tfp8_a8_gemm_tma" in lines


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_text_of_a_model_occurs_once_in_its_kernel(name: str) -> None:
    model = PROTOCOLS[name].build({}, None).model()
    sources = [action.source for role in model.roles for action in role.actions if action.source is not None]
    assert len(sources) >= 3 or not PROTOCOLS[name].kernels
    assert all(line_of(source) > 0 for source in sources)


def test_a_text_that_the_kernel_has_moved_on_from_is_refused() -> None:
    with pytest.raises(Refusal, match="holds the model's text 0 times"):
        place_of(Source("fp8_scale_ring.cuh", "atomicAdd(fold.tickets"))


def test_constants_of_kernels_are_the_kernels() -> None:
    assert (kernel_constant("fp8_a8_gemm_tma", "kStages"), tma_consumers()) == (4, 8)
    assert kernel_constants("fp8_a8_gemm_cp_async")["kStages"] == 2
    assert PROTOCOLS["cp-async-ring"].defaults["stages"] == 2
    with pytest.raises(Refusal, match="declares no number kNothing"):
        kernel_constant("fp8_a8_gemm_tma", "kNothing")


@pytest.mark.parametrize("name", [name for name, one in PROTOCOLS.items() if name != "multicast-ring"])
def test_a_model_with_its_kernels_constants_is_proved(name: str) -> None:
    assert decide(PROTOCOLS[name].build({}, None).model()).is_right


def test_names_of_faults_are_distinct_words() -> None:
    for one in PROTOCOLS.values():
        assert all(fault_name(fault).replace("-", "").isalpha() and one.words[fault] for fault in one.faults if fault)
