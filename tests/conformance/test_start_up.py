"""What a process loads before it does anything: each of these packages takes longer than all of ours together."""

import subprocess
import sys

import pytest

COMPILER, GPU, TERMINAL = {"numba", "llvmlite"}, {"cupy", "cuda", "torch"}, {"typer", "rich"}
COMMANDS = """
import contextlib, io
from tileproof.conformance.cli import main
for line in ("--help", "check --help", "ptx run --help", "show --help", "model --help", "list", "list --faults"):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(line.split()) == 0, line
"""


def loaded(code: str) -> set[str]:
    """The top-level packages that a fresh process has loaded when it has run the code."""
    code += "\nimport sys\nprint(*{name.partition('.')[0] for name in sys.modules})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(process.stdout.splitlines()[-1].split())


def test_commands_that_run_no_kernel_load_no_compiler_and_no_gpu() -> None:
    assert loaded(COMMANDS).isdisjoint(COMPILER | GPU)


def test_the_cpu_device_loads_its_compiler_and_neither_command_line_nor_gpu() -> None:
    found = loaded("from tileproof.simulators.ptx import Device\nDevice()")
    assert found >= COMPILER
    assert found.isdisjoint(GPU | TERMINAL)


def test_the_parser_of_ptx_loads_no_compiler() -> None:
    assert loaded("import tileproof.simulators.ptx.text.parse").isdisjoint(COMPILER | GPU | TERMINAL)


def test_a_name_that_the_cpu_device_lacks_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Gadget'"):
        from tileproof.simulators.ptx import Gadget  # type: ignore[attr-defined]  # noqa: F401
