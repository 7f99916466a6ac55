"""Every script is one that its interpreter reads, and no file holds two versions of itself."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("oracle", "simulators", "kernels", "conformance", "tests", "docs", "benchmarks", "examples", ".ci")
SUFFIXES = {".py", ".md", ".toml", ".cu", ".cuh", ".cpp", ".json", ".ptx", ".html", ""}


def files() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    every = [*inside, *ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"]
    return [path for path in every if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts]


def has_marker(text: bytes) -> bool:
    return any(line.startswith((b"<" * 7 + b" ", b">" * 7 + b" ")) for line in text.splitlines())


def test_no_file_is_left_between_two_versions() -> None:
    assert len(files()) > 500
    assert [str(path) for path in files() if has_marker(path.read_bytes())] == []
    assert has_marker(b"one\n" + b"<" * 7 + b" HEAD\n"), "the rule sees a marker"


@pytest.mark.parametrize("script", ["tests/h200/run", ".ci/run"])
def test_a_shell_script_is_whole(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(ROOT / script)], check=False).returncode == 0
