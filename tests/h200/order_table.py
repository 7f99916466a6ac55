"""Run on a machine with an H200: the kernels of the order table, their values and what compute-sanitizer says of them.

python tests/h200/order_table.py EVIDENCE.json                  all of it
python tests/h200/order_table.py --child right|wrong FIRST      (used by itself, under compute-sanitizer)

Of each wrong kernel: in how many of 3,000 launches a value was wrong. Of each kernel, right and wrong: which of the
four tools report something. A kernel that may wait for ever is not launched.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

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
CHILD_DEADLINE_S = 420
_REPORT = re.compile(r"^=+ (?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY)(\S.*)$", re.MULTILINE)


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


def child(side: str, first: int) -> None:
    """Launch the kernels from `first` on, each announced, so that the tool's words can be told apart."""
    for index, pair in enumerate(PAIRS[first:], start=first):
        sys.stdout.write(f"\n@@ {index}\n")
        sys.stdout.flush()
        if not (side == "wrong" and pair.may_hang):
            Launcher(pair, side).launch()
            cupy.cuda.runtime.deviceSynchronize()
    sys.stdout.write("\n@@ done\n")


def tool_says(tool: str, side: str) -> dict[int, str]:
    """The first words of a tool for each kernel that it says something of; a kernel that kills the process included."""
    said: dict[int, str] = {}
    first = 0
    while first < len(PAIRS):
        command = ["compute-sanitizer", "--tool", tool, sys.executable, __file__, "--child", side, str(first)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_DEADLINE_S, check=False)
            text = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            text = (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else str(late.stdout or "")
        parts = re.split(r"^@@ (\d+|done)$", text, flags=re.MULTILINE)
        last = first
        for index, words in zip(parts[1::2], parts[2::2], strict=True):
            if index == "done":
                return said
            last = int(index)
            found = _REPORT.search(words)
            if found:
                said[last] = found[1][:160]
        said.setdefault(
            last, "the process ended here: " + text.strip().splitlines()[-1][:120] if text.strip() else "late"
        )
        first = last + 1
    return said


def main() -> None:
    if sys.argv[1] == "--child":
        child(sys.argv[2], int(sys.argv[3]))
        return
    values = {pair.name: None if pair.may_hang else wrong_values(pair) for pair in PAIRS}
    works = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=False)
    jobs = list(product(TOOLS, SIDES))
    with ThreadPoolExecutor(len(jobs)) as pool:
        answers = dict(zip(jobs, pool.map(lambda job: tool_says(*job), jobs), strict=True))
    rows = [
        {
            "name": pair.name,
            "edge": pair.edge,
            "wrong_values": values[pair.name],
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
