"""Nothing in a PTX text reaches the host: no file, module, attribute, code or process, and no byte beyond a memory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from host_words import ways_out
from watch_host import LEAKS

import tileproof.simulators.ptx.device

PACKAGE = Path(tileproof.simulators.ptx.device.__file__).parent
FOLDERS = [str(Path(__file__).parents[1] / name) for name in ("fuzz", "hostile", "order_table", "simulators")]
#: Names and files of the package's own: its parts by a table, fields of its records, its sources to stamp its cache.
ALLOWED = {
    "__init__.py": {
        "from importlib import import_module",
        "getattr(import_module(f'{__name__}.{home}'), name)",
        "import_module(f'{__name__}.{home}')",
    },
    "alu/approximate.py": {"getattr(end, part)"},
    "fast/stamp.py": {"from pathlib import Path", "path.read_bytes()"},
    "machine/order/compiled_warps.py": {
        "from pathlib import Path",
        "Path(__file__).read_bytes()",
        "Path(core.__file__ or '').read_bytes()",
    },
    "machine/weak/held.py": {"getattr(self, field.name)", "getattr(self, f.name)", "getattr(others, f.name)"},
    "machine/weak/past.py": {"getattr(self, field.name)", "getattr(self, f.name)", "getattr(others, f.name)"},
}


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((*FOLDERS, *sys.path))}
    command = [sys.executable, str(Path(__file__).with_name(name)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_no_code_of_the_device_turns_text_into_behaviour_or_opens_anything() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 100
    found = [
        f"{path.relative_to(PACKAGE)}: {way}"
        for path in modules
        for way in ways_out(path.read_text())
        if way not in ALLOWED.get(path.relative_to(PACKAGE).as_posix(), ())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "exec(text)",
        "x = compile(text, '', 'eval')",
        "open(path)",
        "getattr(module, name)",
        "setattr(module, 'a', 1)",
        "message.format(name)",
        "Path(name).read_text()",
        "import os",
        "import os.path",
        "from subprocess import run",
        "importlib.import_module(name)",
        "__import__(name)",
    ],
)
def test_each_way_to_the_host_would_be_seen_in_the_code(source: str) -> None:
    assert list(ways_out(source))


@pytest.mark.parametrize("source", ["getattr(self, 'moves')", "'{}'.format(1)", "re.compile('a')", "f'{name}'"])
def test_what_is_harmless_is_not_taken_for_one(source: str) -> None:
    assert not list(ways_out(source))


@pytest.mark.slow
def test_reading_and_running_hostile_texts_touches_nothing_of_the_host() -> None:
    done = script("watch_host.py", "500")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "0 events" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_whatever_touched_the_host_would_be_seen_while_it_runs(leak: str) -> None:
    assert script("watch_host.py", "1", leak).returncode == 1


@pytest.mark.slow
def test_compiled_code_touches_no_byte_beyond_a_memory() -> None:
    done = script("guard_pages.py", "1500")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
def test_a_byte_beyond_a_memory_would_be_seen() -> None:
    assert script("guard_pages.py", "0", "beyond").returncode == -signal.SIGSEGV
