import json
import sys
from pathlib import Path

import pytest
from record_sentryward import launch, main, verdict
from table import PAIRS


def report(result: object, *codes: str) -> str:
    return json.dumps({"result": result, "diagnostics": [{"code": code} for code in codes]})


def test_a_result_is_taken_and_a_refusal_says_why() -> None:
    assert verdict(report("race_free")) == "race_free"
    assert verdict(report("potential_race", "conflicting_accesses_unordered")) == "potential_race"
    assert verdict(report("unsupported", "control_predicate_not_static", "other")) == (
        "unsupported: control_predicate_not_static"
    )
    assert verdict(report("unsupported")) == "unsupported"


@pytest.mark.parametrize(
    "output",
    [
        "",
        "usage: sentryward",
        "[]",
        "{}",
        report("invalid_input", "physical_pointer_value"),
        report("tool_failure"),
        report(7),
    ],
)
def test_what_is_no_word_about_the_kernel_is_not_taken_for_one(output: str) -> None:
    with pytest.raises(ValueError, match=r"SentryWard says|Expecting value"):
        verdict(output)


def test_the_launch_is_the_table_s() -> None:
    pair = next(pair for pair in PAIRS if pair.cluster == 2)
    assert launch(pair)["launch"] == {
        "grid_dim": [2, 1, 1],
        "block_dim": [128, 1, 1],
        "cluster_dim": [2, 1, 1],
        "dynamic_shared_bytes": 0,
    }


def test_the_evidence_has_a_row_for_every_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("record_sentryward.PAIRS", PAIRS[:2])
    tool = tmp_path / "tool"
    answer = 'print(\'{"result": "potential_race"}\' if "bar.sync" in text else \'{"result": "race_free"}\')'
    tool.write_text(f"#!{sys.executable}\nimport sys\ntext = open(sys.argv[1]).read()\n{answer}\n")
    tool.chmod(0o755)
    main([str(tmp_path / "new" / "evidence.json"), str(tool)])
    rows = json.loads((tmp_path / "new" / "evidence.json").read_text())["rows"]
    assert [row["name"] for row in rows] == [pair.name for pair in PAIRS[:2]]
    assert rows[0]["digest"] == PAIRS[0].digest
    assert (rows[0]["right"], rows[0]["wrong"]) == ("potential_race", "race_free")
