"""The wheel is whole: installed in an empty environment, it checks the shipped kernel with no checkout in reach."""

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tileproof.conformance.contract import Tier
from tileproof.conformance.registry import contracts

ROOT = Path(__file__).parent.parent
SOURCES = ("oracle", "simulators", "kernels", "conformance")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, so that the build leaves nothing in the checkout."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree / file)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(out), str(tree)], check=True)
    return next(out.glob("tileproof-*.whl"))


def test_the_wheel_holds_every_source_file_and_nothing_else_at_its_top(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    suffixes = {".py", ".cu", ".cuh", ".json", ".typed"}
    expected = {
        f"tileproof/{path.relative_to(ROOT).as_posix()}"
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes
    }
    assert expected - names == set()
    assert {name.split("/")[0] for name in names} == {
        "tileproof",
        next(n for n in names if "dist-info" in n).split("/")[0],
    }


def test_the_wheel_makes_the_pytest_plugin_known(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel)
    (name,) = [name for name in files.namelist() if name.endswith("entry_points.txt")]
    plugin = "tileproof.conformance.pytest_plugin"
    assert f"[pytest11]\n{plugin} = {plugin}\n" in files.read(name).decode()
    assert f"{plugin.replace('.', '/')}.py" in files.namelist()


def test_an_empty_environment_with_the_wheel_checks_the_kernel(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], check=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    checked = ("ninfer_quantize", "ninfer_linear_swiglu")
    count = sum(len(contracts()[name].cases(Tier.SMOKE)) for name in checked)
    command = [str(environment / "bin" / "tileproof"), "check", "--tier", "smoke", *(f"{name}/*" for name in checked)]
    result = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{count} passed, 0 failed, 0 not run" in result.stdout
    (elsewhere / "fill.cu").write_text('extern "C" __global__ void fill(float* x, int n) { if (n) x[0] = 1; }')
    listed = subprocess.run([command[0], "try", "fill.cu", "--list"], cwd=elsewhere, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "fill/fill/own/N257/specials/0" in listed.stdout
