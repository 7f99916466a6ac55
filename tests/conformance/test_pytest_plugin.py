"""The pytest plugin: a page's cases are tests, a failure ends in its replay command, what is wrong is said at once."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from page_files import DOUBLE

from tileproof.conformance import pytest_plugin
from tileproof.conformance.contract import Tier
from tileproof.conformance.target import Schedule, Target

TEST = """
from tileproof.conformance.pytest_plugin import judged

@judged("double_page.py")
def test_double(result):
    assert result.outputs["y"].shape == (5,)
"""
IN_ITS_OWN_FILE = (
    DOUBLE
    + """
from tileproof.conformance.pytest_plugin import judged

@judged(PAGE)
def test_double(result):
    pass
"""
)
WRONG = DOUBLE.replace("    return 2 * x\n\ndef tensors", "    return 3 * x\n\ndef tensors")


PASSES = {"test_right.py": TEST, "test_own_file.py": IN_ITS_OWN_FILE}
FAILS = {
    "test_wrong.py": TEST.replace("double_page", "wrong_page"),
    "test_body.py": TEST.replace("(5,)", "(6,)"),
}
REFUSED = {
    "test_no_argument.py": (TEST.replace("(result)", "()"), "a judged test takes `result`"),
    "test_no_page.py": (TEST.replace("double_page", "no_page"), "there is no page no_page.py"),
    "test_nameless.py": (
        IN_ITS_OWN_FILE.replace("@judged(PAGE)", "import copy\n@judged(copy.copy(PAGE))"),
        "the page stands in no name of the test's file",
    ),
}


def run(folder: Path, files: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """pytest over these files and the two pages, in a process of its own."""
    for name, text in {"double_page.py": DOUBLE, "wrong_page.py": WRONG, **files}.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tileproof.conformance.pytest_plugin"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_cases_are_tests_and_a_failure_ends_in_its_replay_command(tmp_path: Path) -> None:
    result = run(tmp_path, {**PASSES, **FAILS})
    assert result.returncode == 1
    assert "2 failed, 2 passed" in result.stdout
    assert "assert (5,) == (6,)" in result.stdout
    block = result.stdout.partition("FAIL  double  mismatch in y")[2].partition("____")[0]
    assert "Reproduce with:  tileproof replay " in block
    assert "--page wrong_page.py" in block
    assert "conformance/" not in block


def test_what_is_wrong_with_a_judged_test_is_an_error_of_collection(tmp_path: Path) -> None:
    result = run(tmp_path, {name: text for name, (text, _) in REFUSED.items()})
    assert result.returncode == 2
    assert [told for _, told in REFUSED.values() if told not in result.stdout] == []
    assert "INTERNALERROR" not in result.stdout


def test_the_plugin_imports_nothing_heavy_before_a_test_asks() -> None:
    code = "import sys; import tileproof.conformance.pytest_plugin; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_options_choices_are_those_of_the_runner() -> None:
    assert set(pytest_plugin.TARGETS) == set(Target)
    assert set(pytest_plugin.TIERS) == set(Tier)
    assert set(pytest_plugin.SCHEDULES) == set(Schedule)
