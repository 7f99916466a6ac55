import re
from pathlib import Path

import pytest

from tileproof.conformance import cli
from tileproof.conformance.show import _shipped_files

KERNEL = 'extern "C" __global__ void k(float* out) { out[threadIdx.x] = 1.0f; }\n'


def test_resources_of_a_shipped_kernel_are_a_row_for_each_entry_and_architecture(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["show", "fp8_quantize_rows", "--resources", "--arch", "sm_90a", "--arch", "sm_89"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", heading)[0] == "entry"
    assert len(rows) == 12
    row = next(row for row in rows if "bf16_vector" in row and "sm_90a" in row)
    assert row.split()[2:9] == ["31", "0", "0", "36896", "256", "6", "48/64"]


@pytest.mark.parametrize("name", sorted(file.stem for file in _shipped_files()))
def test_every_shipped_kernel_is_shown_as_it_stands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", name, "--resources", "--threads", "128"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_a_variant_is_named_by_its_macros(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "mm_fp8", "--resources", "--define", "MM_FP8_FORMAT=E5m2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "with MM_FP8_FORMAT=E5m2" in shown
    assert "with MM_FP8_TILE=Tile64" in shown, "what the user does not say stays as it is shown without"


def test_a_users_file_needs_its_number_of_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.cu"
    file.write_text(KERNEL)
    assert cli.main(["show", str(file), "--resources"]) == 2
    assert "--threads" in capsys.readouterr().err
    assert cli.main(["show", str(file), "--resources", "--threads", "64"]) == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nothing_of_that_name", "--resources"], "fp8_quantize_rows"),
        (["missing.cu", "--resources"], "missing.cu"),
        (["fp8_quantize_rows"], "--resources"),
        (["fp8_quantize_rows", "--resources", "--arch", "sm_12"], "sm_12"),
        (["fp8_quantize_rows", "--resources", "--threads", "2000"], "1024"),
        (["mm_fp8", "--resources", "--define", "MM_FP8_LEAN"], "NAME=VALUE"),
    ],
)
def test_what_cannot_be_shown_ends_in_one_line_and_code_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", *arguments]) == 2
    error = capsys.readouterr().err
    assert word in error
    assert "Traceback" not in error
