"""`tileproof try` and replays of what it finds: exit codes, one clear line for what is wrong, no code of a crash."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from page_files import DOUBLE, HEAD

from tileproof.conformance.cli import main
from tileproof.conformance.crash import seal
from tileproof.conformance.registry import built_in, contracts

FILL = """extern "C" __global__ void fill(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i * 2;
}
"""
FILL_PAGE = (
    HEAD
    + """
def tensors(N):
    return Output("x", "f32", (N,))

def launch(x, N):
    return Launch(grid=1, block=64, args=(x, N))

def expected(N):
    return np.arange(N, dtype=np.float32) * 2

FAMILIES = ("normal",)
PAGE = Page("fill", Cuda("fill.cu"), {"N": (40,)}, tensors, launch, expected, families=FAMILIES)
"""
)

Try = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Try:
    """The command line in a fresh folder: exit code, data, errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


def put(name: str, text: str) -> None:
    Path(name).write_text(text)


def test_a_page_is_written_once_and_used_from_then_on(tried: Try) -> None:
    put("fill.cu", FILL)
    code, out, _ = tried("try", "fill.cu", "--list")
    first = Path("fill_page.py").read_text()
    assert (code, out) == (0, "".join(f"fill/fill/own/N{n}/{family}/0\n" for n, family in LISTED))
    Path("fill_page.py").write_text(first.replace("around(256)", "(7,)"))
    code, out, _ = tried("try", "fill.cu", "--list")
    assert code == 0
    assert out.splitlines()[0] == "fill/fill/own/N7/normal/0"


LISTED = tuple(
    zip(
        (1, 255, 256, 257, 511, 512, 513),
        ("normal", "integers", "wide", "specials", "normal", "integers", "wide"),
        strict=True,
    )
)


def test_a_right_kernel_is_0_and_a_wrong_one_1_with_a_command_that_replays_it(tried: Try) -> None:
    put("fill.cu", FILL)
    put("fill_page.py", FILL_PAGE)
    assert tried("try", "fill.cu")[0] == 0
    put("fill.cu", FILL.replace("i < n", "i < n - 3"))
    code, out, _ = tried("try", "fill.cu")
    assert code == 1
    assert "3 of 40 were never written" in out
    (command,) = [line.partition("Reproduce with:  tileproof ")[2] for line in out.splitlines() if "Reproduce" in line]
    assert tried(*command.split())[:2] == (1, tried(*command.split())[1])
    put("fill.cu", FILL)
    code, out, _ = tried(*command.split())
    assert code == 0
    assert out.startswith("FIXED")


def test_a_crash_file_runs_no_page(tried: Try) -> None:
    put("fill.cu", FILL.replace("i < n", "i < n - 3"))
    put("fill_page.py", FILL_PAGE)
    tried("try", "fill.cu")
    (crash,) = Path(".tileproof/crashes").glob("*.json")
    put("fill_page.py", "from pathlib import Path\nPath('ran').touch()\n" + FILL_PAGE)
    for command in ("replay", "triage"):
        code, out, err = tried(command, crash.stem)
        assert code == 2
        assert "a page, 'fill_page.py', and a crash file runs no code" in out + err
    record = json.loads(crash.read_text())
    record.pop("checksum")
    crash.write_text(json.dumps(seal({**record, "page": "\x1b[31m/tmp/../evil.py"})))
    code, out, _ = tried("replay", crash.stem)
    assert (code, "\x1b" in out) == (2, False)
    assert not Path("ran").exists()
    assert tried("replay", crash.stem, "--page", "fill_page.py")[0] == 1
    assert Path("ran").exists()
    code, out, _ = tried("triage", crash.stem, "--page", "fill_page.py")
    assert code == 1
    assert "never written" in out


def test_pages_leave_the_contracts_as_they_were(tried: Try) -> None:
    put("double_page.py", DOUBLE)
    tried("try", "double_page.py", "--list")
    assert contracts() == built_in()


def test_a_function_that_takes_its_process_along_is_a_finding_of_its_case(tried: Try) -> None:
    text = DOUBLE.replace("    return 2 * x\n\ndef tensors", "    import os\n    os._exit(3)\n\ndef tensors")
    put("double_page.py", text)
    code, out, _ = tried("try", "double_page.py")
    assert code == 1
    assert "the process exited with 3" in out


def test_a_page_runs_on_the_friendly_schedule_too(tried: Try) -> None:
    put("fill.cu", FILL)
    put("fill_page.py", FILL_PAGE)
    code, out, _ = tried("try", "fill.cu", "--schedule", "friendly")
    assert code == 0
    assert "schedule friendly" in out


def test_several_launches_and_scratch_that_nothing_wrote(tried: Try) -> None:
    text = (
        FILL
        + """extern "C" __global__ void copy(const float* s, float* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = s[threadIdx.x];
}
"""
    )
    page = (
        FILL_PAGE.replace('return Output("x"', 'return Scratch("s", "f32", (N,)), Output("x"')
        .replace("def launch(x, N)", "def launch(s, x, N)")
        .replace(
            "return Launch(grid=1, block=64, args=(x, N))",
            'return Launch(1, 64, (s, N), entry="fill"), Launch(1, 64, (s, x, N), entry="copy")',
        )
    )
    put("fill.cu", text)
    put("fill_page.py", page)
    assert tried("try", "fill.cu")[0] == 0
    put("fill_page.py", page.replace('Launch(1, 64, (s, N), entry="fill"), ', ""))
    code, out, _ = tried("try", "fill.cu")
    assert code == 1
    assert "uninitialised" in out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("args=(x, N)", "args=(x,)", "passes 1 arguments, fill takes 2"),
        ("args=(x, N)", "args=(N, x)", "argument 1 has 8 bytes; the kernel declares .u32"),
        ("args=(x, N)", "args=(x, 0.5)", "argument 1 is 0.5; the kernel declares .u32"),
        ("args=(x, N)", "args=(x, 1 << 40)", "which .u32 does not hold"),
        ("args=(x, N)", "args=(x, 'N')", "argument 1 is 'N' of type str"),
        ("grid=1", "grid=0", "CUDA refuses an extent below 1"),
        ("grid=1", "grid=(1, 2, 3, 4)", "grid is (1, 2, 3, 4)"),
        ("block=64", 'block=64, entry="fil"', "no kernel 'fil' in fill.cu"),
        ("return Launch(grid", "return 1 // 0, Launch(grid", "fill_page.py:9, launch: ZeroDivisionError"),
    ],
)
def test_a_wrong_launch_is_an_error_in_the_pages_line(old: str, new: str, told: str, tried: Try) -> None:
    put("fill.cu", FILL)
    put("fill_page.py", FILL_PAGE.replace(old, new))
    code, out, err = tried("try", "fill.cu")
    assert code == 2
    assert told in out + err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.cu",), "there is no file none.cu"),
        (("fill.c",), "neither a kernel nor a page"),
        (("none_page.py",), "there is no page none_page.py"),
        (("fill.cu", "--entry", "fil"), "fill_page.py is there, and says something else"),
        (("fill.cu", "-D", "X"), "fill_page.py is there, and says something else"),
        (("fill_page.py", "-D", "X"), "is a page, which says itself"),
        (("fill.cu", "--target", "host"), "kernel files run on sim or gpu"),
        (("double_page.py", "--target", "sim"), "Python functions run on host or gpu"),
        (("fill.cu", "fill/fill/own/N5*"), "no case matches"),
        (("fill.cu", "ninfer_quantize/*"), "no case matches"),
        (("fill.cu", "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0"), "is of no page in fill_page.py"),
        (("fill.cu", "--arch", "sm_1"), "sm_1"),
        (("other.cu", "--page", "fill_page.py"), "is there, and is no page of other.cu"),
        (("other.cu", "--entry", "fil"), "other.cu has no kernel 'fil'"),
        (("other.cu", "--like", "ninfer"), "no contract 'ninfer'"),
        (("broken.cu",), "broken.cu(2): error:"),
        (("empty.ptx",), "empty.ptx has no kernel"),
        (("empty.ptx", "-D", "X"), "is PTX, which is compiled already"),
        (("binary.cu",), "is no text"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(arguments: tuple[str, ...], told: str, tried: Try) -> None:
    put("fill.cu", FILL)
    put("other.cu", FILL)
    put("fill_page.py", FILL_PAGE)
    put("double_page.py", DOUBLE)
    put("broken.cu", "__global__ void f(int* x) {\n  *x = ;\n}\n")
    put("empty.ptx", "")
    Path("binary.cu").write_bytes(b"\x7fELF\xff\xff")
    code, _, err = tried("try", *arguments)
    assert code == 2
    assert told in err


AXPY = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("rounding", "code"), [(".rn", 0), ("", 1)])
def test_what_an_assembler_may_fuse_is_run_both_ways(rounding: str, code: int, tried: Try) -> None:
    text = (AXPY / "axpy.ptx").read_text()
    put("axpy.ptx", text.replace("mul.rn.f32", f"mul{rounding}.f32").replace("add.rn.f32", f"add{rounding}.f32"))
    put("axpy_page.py", (AXPY / "axpy_page.py").read_text())
    came, out, _ = tried("try", "axpy.ptx", "axpy/axpy/own/N255/normal/0")
    assert came == code
    assert ("bytes differ where the assembler fuses a multiplication and an addition" in out) == bool(code)


def test_a_tensor_may_pass_from_a_later_element_on(tried: Try) -> None:
    put("fill.cu", FILL)
    page = FILL_PAGE.replace("args=(x, N)", "args=(x.at(8), N - 8)").replace("* 2\n\nF", "* 2 - 16\n\nF")
    put("fill_page.py", page)
    code, out, _ = tried("try", "fill.cu")
    assert code == 1
    assert "8 of 40 were never written" in out
    assert "also   mismatch" not in out


def test_a_report_of_a_pages_run_names_the_page_and_runs_none_that_is_not_given(tried: Try) -> None:
    put("fill.cu", FILL.replace("i < n", "i < n - 3"))
    put("fill_page.py", FILL_PAGE)
    tried("try", "fill.cu", "--events", "run.ndjson")
    put("fill_page.py", "from pathlib import Path\nPath('ran').touch()\n" + FILL_PAGE)
    code, _, err = tried("report", "run.ndjson")
    assert code == 2
    assert "a page, 'fill_page.py', and reading it runs no code" in err
    assert not Path("ran").exists()
    assert tried("report", "run.ndjson", "--page", "fill_page.py", "--junit", "run.xml")[0] == 0
    assert " --page fill_page.py" in Path("run.xml").read_text()
    assert " --page fill_page.py" in tried("report", "run.ndjson", "--page", "fill_page.py")[1]


def test_several_processes_share_a_pages_cases(tried: Try) -> None:
    put("double_page.py", DOUBLE.replace("(5,)", "(5, 6, 7)"))
    code, out, _ = tried("try", "double_page.py", "--jobs", "2")
    assert code == 0
    assert "host: 3 passed, 0 failed, 0 not run" in out


CROSSED = """asm volatile("bar.sync %0, 64;" :: "r"(threadIdx.x < 32 ? 1 : 2)); \
  asm volatile("bar.sync %0, 64;" :: "r"(threadIdx.x < 32 ? 2 : 1));"""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (CROSSED, "deadlock"),
        ("if (i < n) x[(i + 1) % n] = i * 2;", "race"),
        ("__shared__ float s[64]; if (i < n && s[i] > 0) x[i] = 1;", "uninitialised"),
        ("if (i == 0) x[n] = 1;", "out-of-bounds"),
    ],
)
@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_what_the_cpu_device_sees_is_a_finding_of_a_users_kernel(
    line: str, kind: str, schedule: str, tried: Try
) -> None:
    put("fill.cu", FILL.replace("  if (i < n)", f"  {line}\n  if (i < n)"))
    put("fill_page.py", FILL_PAGE)
    code, out, _ = tried("try", "fill.cu", "--schedule", schedule)
    assert code == 1
    assert f"  {kind}" in out
    assert "at     fill.cu:3" in out or kind in ("race", "deadlock")
