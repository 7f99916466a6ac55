"""Progress says what takes long: compiling, and a case that does not end; each without a word too many."""

import io
import time

import pytest

from tileproof.conformance.console import open_console
from tileproof.conformance.progress import BUSY_S, SILENCE_S, Listener, _Bar, _Lines
from tileproof.kernels import compile as compiling
from tileproof.oracle.busy import LOG, busy
from tileproof.simulators.ptx import Device
from tileproof.simulators.ptx.fast import turn

SOURCE = 'extern "C" __global__ void k%d() {}'


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ears(_Lines):
    """What is said to take long."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.heard: list[str] = []

    def busy(self, text: str) -> None:
        self.heard.append(text)


def test_what_takes_long_is_told_once_in_a_log_and_what_does_not_is_not() -> None:
    log = io.StringIO()
    lines = _Lines(log)
    now = time.monotonic()
    lines.busy("compiling mm_fp8.cu for sm_90a")
    lines.look(now + BUSY_S / 2)
    assert log.getvalue() == ""
    lines.look(now + BUSY_S + 1)
    lines.look(now + BUSY_S + 2)
    assert log.getvalue() == "compiling mm_fp8.cu for sm_90a\n"
    lines.busy("compiling another")
    lines.busy("")
    lines.look(now + 2 * BUSY_S + 3)
    assert log.getvalue().count("\n") == 1


def test_a_case_that_does_not_end_is_told_now_and_then_in_a_log() -> None:
    log = io.StringIO()
    lines = _Lines(log)
    now = time.monotonic()
    lines.look(now + SILENCE_S - 1)
    assert log.getvalue() == ""
    lines.case("a/b/c")
    lines.look(now + SILENCE_S + 1)
    assert log.getvalue() == "0 of 0 done, 0 failed, still at a/b/c\n"
    lines.look(time.monotonic() + 1)
    assert log.getvalue().count("\n") == 1


def test_the_thread_of_a_log_ends_with_the_run_and_with_its_reader() -> None:
    for closed in (False, True):
        log = io.StringIO()
        lines = _Lines(log)
        lines.start(1)
        if closed:
            log.close()
        lines.stop()
        assert not lines._watch.is_alive()


def test_a_further_pass_adds_its_cases_to_those_that_there_are() -> None:
    log = io.StringIO()
    lines = _Lines(log)
    lines.start(2)
    lines.stop()
    lines.more(1, 3)
    lines.look(time.monotonic() + SILENCE_S)
    assert "0 of 5 done" in log.getvalue()


def test_a_bar_names_what_takes_long_and_then_the_case_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = Screen()
    bar = _Bar(open_console(screen))
    bar.start(2)
    bar.case("a/b/c")
    bar.busy("compiling k.cu for sm_90a\x1b[2J")
    assert "compiling k.cu for sm_90a\\x1b[2J" in screen.getvalue()
    bar.busy("")
    bar.stop()
    assert "a/b/c" in screen.getvalue().rpartition("compiling")[2]


def test_a_listener_hears_of_every_compilation_until_it_is_closed() -> None:
    ears = Ears()
    listener = Listener(ears)
    listener.open()
    compiling.compile_source(SOURCE % 1, name="k.cu")
    listener.close()
    compiling.compile_source(SOURCE % 2, name="k.cu")
    assert ears.heard == ["compiling k.cu for sm_90a", ""]
    assert listener not in LOG.handlers


def test_the_first_kernel_with_new_instructions_says_that_the_device_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a fresh machine that takes half a minute; here its functions are there already."""
    monkeypatch.setattr(turn, "_PROVIDED", set())
    ears = Ears()
    device = Device()
    function = device.load(compiling.compile_source(SOURCE % 3, name="k.cu"))["k3"]
    listener = Listener(ears)
    listener.open()
    for _ in range(2):
        function.launch(grid=(1, 1, 1), block=(32, 1, 1), args=())
    listener.close()
    assert ears.heard[:2] == ["compiling the CPU device for k3, once: it is kept on disk", ""]
    assert sum("the CPU device for" in one for one in ears.heard) == 1, "not before the second launch"


def test_that_something_has_ended_is_told_whatever_ended_it() -> None:
    ears = Ears()
    listener = Listener(ears)
    listener.open()
    with pytest.raises(KeyboardInterrupt), busy("at it"):
        raise KeyboardInterrupt
    listener.close()
    assert ears.heard == ["at it", ""]
