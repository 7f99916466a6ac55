"""Whatever a command is given instead of a file: one clear line, exit 2, and no waiting."""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tileproof.conformance.cli import main

CASE = "ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0"
KERNEL = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"
COMMANDS: Mapping[str, tuple[str, Callable[[str], list[str]]]] = {
    "crash file": ("f.json", lambda file: ["replay", file]),
    "crash file to explain": ("f.json", lambda file: ["triage", file]),
    "event file": ("f.ndjson", lambda file: ["report", file]),
    "event file to compare": ("f.ndjson", lambda file: ["compare", file, file]),
    "event file to go on with": ("f.ndjson", lambda file: ["check", CASE, "--resume", file]),
    "event file to keep": ("f.ndjson", lambda file: ["history", "add", file, "--db", f"{file}.db"]),
    "events of coverage": ("f.ndjson", lambda file: ["coverage", "metainfer_pack", "--run", file]),
    "waivers": ("f.toml", lambda file: ["check", CASE, "--waivers", file]),
    "tensors, .npy": ("f.npy", lambda file: ["check", "--input", file]),
    "tensors, .npz": ("f.npz", lambda file: ["check", "--input", file]),
    "tensors, .safetensors": ("f.safetensors", lambda file: ["check", "--input", file]),
    "an argument's array": ("f.npy", lambda file: ["ptx", "run", "k.ptx", "--arg", f"@{file}"]),
    "PTX": ("f.ptx", lambda file: ["ptx", "run", file]),
    "CUDA": ("f.cu", lambda file: ["ptx", "run", file]),
    "CUDA to show": ("f.cu", lambda file: ["show", file, "--resources"]),
    "CUDA to judge": ("f.cu", lambda file: ["try", file]),
    "PTX to judge": ("f.ptx", lambda file: ["try", file]),
    "a page": ("f.py", lambda file: ["try", file]),
    "a page to search": ("f.py", lambda file: ["fuzz", "--page", file, "--examples", "1"]),
    "a ledger": ("f.json", lambda file: ["ledger", "--file", file]),
    "results of mutants": ("f.ndjson", lambda file: ["mutate", "int8_combine", "--prove", "--results", file]),
    "a listing": ("f.isa", lambda file: ["gfx928", "isa", file]),
    "a history": ("f.db", lambda file: ["history", "list", "--db", file]),
}


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


MADE: Mapping[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("gone"),
    "too large": _large,
}


PAIRS = [
    *((command, made) for command in COMMANDS for made in ("a FIFO", "too large")),
    *((command, made) for command in ("event file", "tensors, .npy", "a page", "a history") for made in MADE),
]


@pytest.mark.parametrize(("command", "made"), dict.fromkeys(PAIRS))
def test_what_is_no_file_to_read_ends_in_one_line(
    command: str, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(KERNEL)
    file, arguments = COMMANDS[command]
    MADE[made](Path(file))
    watch = threading.Timer(20.0, os._exit, (3,))  # whoever waits for a FIFO cannot be told to stop
    watch.start()
    try:
        code = main(arguments(file))
    finally:
        watch.cancel()
    said = capsys.readouterr()
    error = said.err or "error: " + " ".join(said.out.split())  # of a crash file, which is one of several
    assert code == 2, error
    lines = error.splitlines()
    assert lines[0].startswith("error: "), error
    assert file in lines[0]
    assert "internal" not in lines[0]
    assert all(line.startswith("hint: ") for line in lines[1:]), error
