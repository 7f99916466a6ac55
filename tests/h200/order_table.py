"""Run on a machine with an H200: the kernels of the order table, their values and what compute-sanitizer says of them.

python tests/h200/order_table.py EVIDENCE.json                  all of it
python tests/h200/order_table.py --child|--values right|wrong FIRST      (used by itself)

Of each wrong kernel: in how many of 3,000 launches a value was wrong. Of each kernel, right and wrong: which of the
four tools report something. A kernel that may wait for ever is not launched.
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parents[1] / "order_table"))

import cupy
import numpy as np
from pair import WORDS, Pair, input_words
from table import PAIRS

from tileproof.conformance.environment import capture
from tileproof.conformance.records import to_json
from tileproof.kernels.compile import compile_source

LAUNCHES = 3000
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SIDES = ("right", "wrong")
# Seconds without a word after which a child is given up: one that counts values, one under a tool.
VALUES_SILENCE_S, TOOL_SILENCE_S = 8.0, 25.0
_REPORT = re.compile(r"^=+ (?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY)(\S.*)$", re.MULTILINE)
_END = re.compile(r"^!! (.*)$", re.MULTILINE)


class Launcher:
    """One kernel on the GPU, with buffers of its own."""

    def __init__(self, pair: Pair, side: str) -> None:
        module = compile_source(getattr(pair, side), name="k.cu")
        loaded = cupy.cuda.function.Module()
        loaded.load(module.cubin)
        self._function = loaded.get_function("k")
        self._pair = pair
        self.expected = cupy.asarray(pair.expected(input_words()))
        self._in, self._work = cupy.asarray(input_words()), cupy.zeros(WORDS, cupy.uint32)
        self.out = cupy.zeros(self.expected.size, cupy.uint32)

    def launch(self) -> None:
        self._work.fill(0)
        arguments = tuple(np.uint64(array.data.ptr) for array in (self.out, self._in, self._work))
        self._function((self._pair.blocks,), (self._pair.threads,), arguments)


def wrong_values(pair: Pair) -> int:
    """In how many launches a word of the output was wrong."""
    launcher = Launcher(pair, "wrong")
    count = cupy.zeros((), cupy.int64)
    for _ in range(LAUNCHES):
        launcher.out.fill(0xFFFFFFFF)
        launcher.launch()
        count += (launcher.out != launcher.expected).any()
    return int(count)


def child(side: str, first: int, *, values: bool) -> None:
    """Launch the kernels from `first` on, each announced, so that what is said of each can be told apart."""
    for index, pair in enumerate(PAIRS[first:], start=first):
        say(f"@@ {index}")
        if side == "wrong" and pair.may_hang:
            continue
        if values:
            say(f"## {wrong_values(pair)}")
        else:
            Launcher(pair, side).launch()
            cupy.cuda.runtime.deviceSynchronize()
    say("@@ done")


def say(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def followed(command: Sequence[str], silence_s: float) -> Iterator[tuple[int, str]]:
    """Run children from the first kernel to the last: (kernel, what its child wrote). A child that ends early or that
    is silent for long is replaced by one that goes on behind its last kernel."""
    first = 0
    while first < len(PAIRS):
        last, words, done = first, "", False
        process = subprocess.Popen(
            [*command, str(first)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        assert process.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=pump, args=(process.stdout, lines), daemon=True).start()
        end = "the process ended here"
        while True:
            try:
                line = lines.get(timeout=silence_s)
            except queue.Empty:
                end = "it did not end"
                break
            if line is None:
                break
            if line.startswith("@@ "):
                if words:
                    yield last, words
                words, done = "", "done" in line
                last = last if done else int(line.split()[1])
            else:
                words += line
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if done:
            return
        yield last, f"{words}\n!! {end}"
        first = last + 1


def pump(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def tool_says(tool: str, side: str) -> dict[int, str]:
    """The first words of a tool for each kernel that it says something of; a kernel that ends the process included."""
    said: dict[int, str] = {}
    command = ["compute-sanitizer", "--tool", tool, sys.executable, __file__, "--child", side]
    for index, words in followed(command, TOOL_SILENCE_S):
        found = _REPORT.search(words) or _END.search(words)
        if found:
            said.setdefault(index, found[1][:160])
    return said


def all_values() -> dict[int, int | None]:
    """For each kernel, in how many launches a value was wrong; None where it did not end or was not launched."""
    counts: dict[int, int | None] = dict.fromkeys(range(len(PAIRS)))
    for index, words in followed([sys.executable, __file__, "--values", "wrong"], VALUES_SILENCE_S):
        found = re.search(r"^## (\d+)$", words, re.MULTILINE)
        counts[index] = int(found[1]) if found else None
    return counts


def main() -> None:
    if sys.argv[1] in ("--child", "--values"):
        child(sys.argv[2], int(sys.argv[3]), values=sys.argv[1] == "--values")
        return
    values = all_values()
    works = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=False)
    jobs = list(product(TOOLS, SIDES))
    with ThreadPoolExecutor(len(jobs)) as pool:
        answers = dict(zip(jobs, pool.map(lambda job: tool_says(*job), jobs), strict=True))
    rows = [
        {
            "name": pair.name,
            "edge": pair.edge,
            "wrong_values": values[index],
            **{side: {tool: answers[tool, side].get(index, "") for tool in TOOLS} for side in SIDES},
        }
        for index, pair in enumerate(PAIRS)
    ]
    evidence = {
        "what": "order table: launches with a wrong value, and the words of compute-sanitizer",
        "environment": to_json(capture()),
        "compute_sanitizer": works.stdout.strip().splitlines()[-1] if works.stdout else works.stderr[:200],
        "launches": LAUNCHES,
        "rows": rows,
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    shown = sum(1 for count in values.values() if count)
    found, alarms = (
        len({index for (_, of), said in answers.items() if of == side for index in said}) for side in SIDES[::-1]
    )
    sys.stdout.write(
        f"{len(rows)} rows: {shown} wrong kernels show a value, tools report {found}, {alarms} right ones\n"
    )


if __name__ == "__main__":
    main()
