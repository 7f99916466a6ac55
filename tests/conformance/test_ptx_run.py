from pathlib import Path

import numpy as np
import pytest

from tileproof.conformance import cli
from tileproof.conformance.launch_argument import parse_argument
from tileproof.conformance.ptx_trace import elements
from tileproof.kernels.compile import compile_source

SOURCE = """
extern "C" __global__ void scale(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""
TWO = SOURCE + SOURCE.replace("scale", "other")


@pytest.fixture
def cu(tmp_path: Path) -> str:
    file = tmp_path / "scale.cu"
    file.write_text(SOURCE)
    return str(file)


def run(file: str, *arguments: str) -> int:
    return cli.main(["ptx", "run", file, *arguments])


def four(n: int, *, grid: str = "2") -> tuple[str, ...]:
    specs = ("f32[64]", "f32[64]:ramp", "f32:2", f"s32:{n}")
    return (*(part for spec in specs for part in ("--arg", spec)), "--grid", grid, "--block", "32")


def test_a_right_launch_exits_0_and_shows_what_its_buffers_hold(cu: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cu, *four(64)) == 0
    out = capsys.readouterr().out
    assert "argument 0  f32[64]: 64 elements, all written: 0.0 2.0 4.0" in out
    assert "global memory 256 bytes read, 256 written" in out
    assert out.endswith("no finding\n")


def test_elements_that_nothing_wrote_are_shown_as_such(cu: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cu, *four(3)) == 0
    assert "61 of 64 elements unwritten: 0.0 2.0 4.0 ? ?" in capsys.readouterr().out


def test_a_finding_exits_1_and_names_the_cuda_line(cu: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cu, *four(65, grid="3")) == 1
    out = capsys.readouterr().out
    assert "FAIL  out-of-bounds" in out
    assert "scale.cu:4" in out
    assert out.endswith("2 findings\n")


def test_a_bare_ptx_file_runs_for_its_own_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scale.ptx"
    file.write_text(compile_source(SOURCE, name="scale.cu", arch="sm_89").ptx)
    assert run(str(file), *four(64)) == 0
    assert "sim (sm_89," in capsys.readouterr().out


def test_arrays_go_in_and_out_as_files(cu: str, tmp_path: Path) -> None:
    source, target = tmp_path / "x.npy", tmp_path / "y.npy"
    x = np.arange(64, dtype=np.float32)[::-1].copy()
    np.save(source, x)
    arguments = ["--arg", "f32[64]", "--arg", f"@{source}", "--arg", "f32:-0.5", "--arg", "s32:64", "--grid", "2"]
    assert run(cu, *arguments, "--save", f"0={target}") == 0
    assert np.array_equal(np.load(target), x * np.float32(-0.5))


def test_random_arguments_depend_on_the_seed_alone(cu: str, tmp_path: Path) -> None:
    arguments = ["--arg", "f32[64]", "--arg", "f32[64]:random", "--arg", "f32:1", "--arg", "s32:64", "--grid", "2"]
    results = []
    for seed in (1, 1, 2):
        assert run(cu, *arguments, "--seed", str(seed), "--save", f"0={tmp_path / 'y.npy'}") == 0
        results.append(np.load(tmp_path / "y.npy"))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_random_integers_reach_both_ends_of_their_type() -> None:
    for name in ("u8", "s8"):
        values = parse_argument(f"{name}[5000]:random").contents
        assert values is not None
        assert {values.min(), values.max()} == {np.iinfo(values.dtype).min, np.iinfo(values.dtype).max}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--arg", "f31:0"], "f31:0"),
        (["--arg", "s32"], "no value"),
        (["--arg", "s8:128"], "s8:128"),
        (["--arg", "u32:1.5"], "u32:1.5"),
        (["--arg", "f32[8]:wild"], "wild"),
        (["--arg", "f32[999999999999]"], "limit"),
        (["--arg", "f32[4,,4]"], "empty length"),
        (["--arg", "@nowhere.npy"], "nowhere.npy"),
        (["--arg", "f32[64]"], "takes 4\nhint: in order: scale_param_0 of 8 bytes (.u64), scale_param_1 of 8 bytes"),
        (["--block", "0"], "at least 1"),
        (["--grid", "1,2,3,4"], "1,2,3,4"),
        (["--entry", "missing"], "scale"),
        (["--arch", "sm_70"], "unknown architecture 'sm_70'\nhint: one of sm_80, "),
        (["--save", "0"], "--save"),
        ([*four(64), "--save", "3=x.npy"], "no buffer"),
    ],
)
def test_what_cannot_run_ends_in_one_line_and_code_2(
    cu: str, arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cu, *arguments) == 2
    error = capsys.readouterr().err
    assert word in error
    assert "internal" not in error


def test_a_file_that_is_no_ptx_and_a_file_with_two_kernels_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise, two = tmp_path / "noise.ptx", tmp_path / "two.cu"
    noise.write_bytes(b"\xff\xfe\x00")
    two.write_text(TWO)
    assert run(str(noise)) == run(str(two)) == run(str(tmp_path / "absent.ptx")) == 2
    error = capsys.readouterr().err
    assert "2 kernels" in error
    assert "internal" not in error


def test_the_trace_of_an_element_ends_at_the_inputs(cu: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cu, *four(64), "--trace", "0[35]") == 0
    out = capsys.readouterr().out
    assert "where argument 0 [35] came from" in out
    assert "st.global.f32 at PTX line" in out
    assert "once, block (1, 0, 0): threads 3" in out
    assert "%f3 = 0x428c0000" in out  # 70.0
    assert "from   argument 1  f32[64]:ramp: 1 element, [35]" in out
    assert "from   parameters scale_param_2" in out


@pytest.mark.parametrize(
    ("element", "words"),
    [("0", "no element"), ("0[64]", "no element of a buffer"), ("2[0]", "argument 2 is no buffer")],
)
def test_an_element_to_trace_that_is_none_is_refused(
    cu: str, element: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cu, *four(64), "--trace", element) == 2
    assert words in capsys.readouterr().err


def test_counters_are_a_table_when_asked_for(cu: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cu, *four(64), "--counters") == 0
    out = capsys.readouterr().out
    assert "  64  ld.global.f32\n" in out
    assert "shared memory, by instruction" not in out  # there is none
    assert run(cu, *four(64)) == 0
    assert "ld.global.f32" not in capsys.readouterr().out


def test_bank_conflicts_are_a_table_and_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "stride.cu"
    file.write_text("""extern "C" __global__ void stride(float* y) {
        __shared__ float tile[512];
        tile[threadIdx.x * 16] = 1;
        y[threadIdx.x] = tile[threadIdx.x * 16];
    }""")
    assert run(str(file), "--arg", "f32[32]", "--counters") == 0
    out = capsys.readouterr().out
    assert "16-way bank conflicts" in out
    assert "      1      16            15    16  st.shared.u32 at PTX line" in out


@pytest.mark.parametrize(
    ("flat", "shape", "words"),
    [
        ([0, 1, 2, 5], (8,), "[0..2, 5]"),
        ([12, 13, 14], (4, 4), "[3, 0..2]"),
        ([1, 5, 9, 13], (4, 4), "[0..3, 1]"),
        ([0, 5], (4, 4), "[0, 0], [1, 1]"),
        ([17, 21], (2, 4, 4), "[1, 0..1, 1]"),
    ],
)
def test_elements_are_told_as_ranges(flat: list[int], shape: tuple[int, ...], words: str) -> None:
    assert elements(flat, shape) == words
