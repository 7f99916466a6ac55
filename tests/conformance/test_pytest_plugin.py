"""The pytest plugin: a page's cases are tests, a failure ends in its replay command, what is wrong is said at once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
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


EXAMPLES = Path(__file__).parents[2] / "examples"
CHOSEN = "double or (T3 and K257) or Rows33.Columns33"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest shows of all these files, and of two cases of the examples, in a process of its own."""
    folder = tmp_path_factory.mktemp("tests")
    refused = {name: text for name, (text, _) in REFUSED.items()}
    for name, text in {"double_page.py": DOUBLE, "wrong_page.py": WRONG, **PASSES, **FAILS, **refused}.items():
        (folder / name).write_text(text)
    for path in (*EXAMPLES.glob("quantize_rows*"), *EXAMPLES.glob("column_sums*"), EXAMPLES / "test_own_kernels.py"):
        shutil.copy(path, folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tileproof.conformance.pytest_plugin"]
    command += ["--continue-on-collection-errors", "-k", CHOSEN]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_each_case_is_a_test_those_of_the_examples_too(shown: str) -> None:
    passed = 2 + 2  # the right page, by its file and in the test's own; a case of each example
    assert f"2 failed, {passed} passed" in shown
    assert f"{len(REFUSED)} errors" in shown
    assert "assert (5,) == (6,)" in shown


def test_a_failure_is_its_block_with_the_replay_command(shown: str) -> None:
    block = shown.partition("FAIL  double  mismatch in y")[2].partition("____")[0]
    assert "Reproduce with:  tileproof replay " in block
    assert "--page wrong_page.py" in block
    assert "conformance/" not in block


def test_what_is_wrong_with_a_judged_test_is_an_error_of_collection(shown: str) -> None:
    assert [told for _, told in REFUSED.values() if told not in shown] == []
    assert "INTERNALERROR" not in shown


def test_the_plugin_imports_nothing_heavy_before_a_test_asks() -> None:
    code = "import sys; import tileproof.conformance.pytest_plugin; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_options_choices_are_those_of_the_runner() -> None:
    assert set(pytest_plugin.TARGETS) == set(Target)
    assert set(pytest_plugin.TIERS) == set(Tier)
    assert set(pytest_plugin.SCHEDULES) == set(Schedule)
