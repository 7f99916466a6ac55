"""Options that a user may get wrong in ways that must not be silent."""

from pathlib import Path

import numpy as np
import pytest

from tileproof.conformance.cli import main

CASE = "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0"


def test_an_option_that_counts_once_is_refused_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fault", "divide", "--fault", "ties-away", CASE]) == 2
    assert "--fault is given 2 times: divide, ties-away" in capsys.readouterr().err
    assert main(["check", "--input", "a.npy", "--input", "b.npy"]) == 2
    assert "--input is given 2 times" in capsys.readouterr().err


def test_an_unknown_architecture_is_one_line_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--arch", "sm_70", CASE]) == 2
    error = capsys.readouterr().err
    assert "error: unknown architecture 'sm_70'" in error
    assert "sm_90" in error


def test_the_replay_command_names_a_folder_that_is_not_the_usual_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my crashes"
    assert main(["check", "--fault", "ties-away", "--crash-dir", str(folder), CASE]) == 1
    last = next(line for line in capsys.readouterr().out.splitlines() if "Reproduce with" in line)
    assert last.endswith(f"--crash-dir '{folder}'")


@pytest.mark.parametrize(
    ("selector", "message", "hint"),
    [
        ("ninfer_quantise/fp8_quantize_rows/vector/T1.K64.bf16/ties/0", "unknown contract", "ninfer_quantize"),
        ("ninfer_quantize/fp8_quantize_rows/scalar/T1.K64.bf16/ties/0", "its shape takes vector", "use route vector"),
        ("ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/tie/0", "unknown input family 'tie'", "ties"),
    ],
)
def test_a_wrong_part_of_an_id_is_named_with_what_is_right(
    selector: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", selector]) == 2
    error, remedy = capsys.readouterr().err.strip().splitlines()
    assert message in error
    assert hint in remedy


def test_a_file_given_as_a_case_points_to_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"")
    assert main(["check", str(path)]) == 2
    assert f"--input {path}" in capsys.readouterr().err


@pytest.fixture
def tensor_file(tmp_path: Path) -> str:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((2, 8), np.float32))
    return str(path)


def test_a_fault_of_a_contract_that_takes_no_tensor_of_the_file_is_said(
    tensor_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its edited kernel must not be compiled under another contract's name."""
    assert main(["check", "--fault", "tma-full-parity", "--input", tensor_file]) == 2
    assert "takes none of its tensors" in capsys.readouterr().err


def test_a_tier_of_a_users_own_tensors_is_refused(tensor_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--tier", "full", "--input", tensor_file]) == 2
    assert "--tier full is given with --input" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["ninfer_quantize/*"], ["--tier", "smoke"]])
def test_the_list_of_faults_is_not_narrowed_down(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--faults", *more]) == 2
    assert "may be given with --faults" in capsys.readouterr().err


def test_a_fault_of_another_contract_than_the_selected_cases_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fault", "tma-full-parity", "ninfer_quantize/*"]) == 2
    error = capsys.readouterr().err
    assert "error: no selected case is of ninfer_linear_add" in error
    assert "'ninfer_linear_add/*'" in error


def test_a_case_too_large_for_this_machine_is_refused_with_what_it_would_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = "ninfer_quantize/fp8_quantize_rows/vector/T99999999999999.K64.bf16/ties/0"
    assert main(["check", "--target", "sim", case]) == 2
    output = capsys.readouterr().out
    assert "more memory than this machine gives: Unable to allocate 728. TiB" in output
    assert "choose a smaller shape" in output
