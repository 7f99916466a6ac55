"""Run on a machine with an H200: the kernels of the order table, their values and what compute-sanitizer says of them.

python tests/h200/order_table.py EVIDENCE.json [SECONDS [OLD.json]]

Of each kernel, right and wrong: in how many of 3,000 launches a value was wrong, and which of the four tools report
something. The kernels are launched by `order_table.cpp` (built here with nvcc), so that no interpreter runs under a
tool. A process that ends early or is silent for long is replaced by one that goes on behind its last kernel; a kernel
whose silence is doubtful gets a process of its own. What SECONDS (330) leave no time for is recorded as null.
EVIDENCE.logs.txt keeps what the tools wrote. Words that OLD.json has for the same kernels are taken from there.
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "order_table"))

from launch import name as entry
from launch import texts
from pair import Pair, input_words
from table import PAIRS

from tileproof.conformance import sanitizer_words
from tileproof.kernels.compile import compile_source

LAUNCHES = 3000
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SIDES = ("wrong", "right")
#: Kernels of one process, processes at once, seconds without a word after which one is given up.
TOGETHER, AT_ONCE, SILENCE_S = 6, 12, 20.0
#: The same where no tool slows the kernels down, and before the first kernel: a context can take long.
VALUES_SILENCE_S, BEGIN_SILENCE_S = 6.0, 60.0
#: How long a tool may write after its launcher was ended.
LAST_WORDS_S = 6.0
#: How much of the time the values may take.
VALUES_SHARE = 0.4
DID_NOT_END, ENDED = "it did not end", "the process ended here"
_OPTIONS = ("--show-backtrace", "no", "--print-limit", "0", "--check-exit-code", "no", "--launch-timeout", "30")
#: Where the analysis of races ends its process, the hazards alone may not.
_SECOND_TRY = ("--racecheck-report", "hazard", "--racecheck-num-workers", "1")
_PORTS = 49152
_MOST_OF_A_LOG = 20_000
NOISE = """extern "C" __global__ void fill() {
    extern __shared__ unsigned words[];
    for (unsigned i = threadIdx.x; i < 227 * 256; i += blockDim.x) words[i] = 0xABCDEF01u;
}
extern "C" __global__ void noise(unsigned* words, unsigned count) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] = words[i] * 5 + 1;
}"""


@dataclass(frozen=True)
class Task:
    """Some kernels under one tool.

    Args:
        tool: one of TOOLS, or "values" for launches without a tool.
        side: "right" or "wrong".
        kernels: places in the table.
        again: a second try: of a kernel that ended its process without a word, or of all if none began.
    """

    tool: str
    side: str
    kernels: tuple[int, ...]
    again: bool = False


@dataclass(frozen=True)
class Followed:
    """What a process of the launcher came to: kernels begun, wrong launches, how it ended ("" at its regular end)."""

    begun: tuple[int, ...]
    wrong: Mapping[int, int]
    end: str


@dataclass(frozen=True)
class Word:
    """What a tool said of a kernel: "" where it was silent."""

    said: str
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """Of a task: what is known of each kernel, and what is to be done still."""

    known: Mapping[int, Word | int]
    left: tuple[Task, ...] = ()


class Bench:
    """The compiled kernels and the launcher, in a folder."""

    def __init__(self, folder: Path, launcher: Sequence[str], tool: str = "compute-sanitizer") -> None:
        self.folder, self.launcher, self.tool = folder, tuple(launcher), tool
        self.logs: list[str] = []
        self._count = 0
        self._lock = threading.Lock()

    def path(self, name: str) -> Path:
        """A path of its own for each call."""
        with self._lock:
            self._count += 1
            return self.folder / f"{self._count}_{name}"

    def launches(self, task: Task) -> list[str]:
        """The launcher's command for a task."""
        manifest = self.path("manifest")
        manifest.write_text("\n".join((f"{self.folder}/in {self.folder}/noise", *map(self._line, _every(task)))) + "\n")
        return [*self.launcher, "values" if task.tool == "values" else "once", str(manifest)]

    def _line(self, kernel: tuple[int, str]) -> str:
        index, side = kernel
        pair = PAIRS[index]
        name = entry(pair, side)
        return f"{index} {name} {self.folder}/{name} {self.folder}/expected{index} {pair.blocks} {pair.threads}"


def _every(task: Task) -> Iterator[tuple[int, str]]:
    return ((index, task.side) for index in task.kernels)


def run(task: Task, bench: Bench, worker: int) -> Answer:
    """Do a task."""
    if task.tool == "values":
        return values(task, followed(bench.launches(task), VALUES_SILENCE_S))
    log = bench.path("log")
    options = ("--tool", task.tool, "--log-file", str(log), "--port", str(_PORTS + 32 * worker), *_OPTIONS)
    extra = _SECOND_TRY if task.again and task.tool == "racecheck" else ()
    seen = followed([bench.tool, *options, *extra, *bench.launches(task)], SILENCE_S)
    said = log.read_text(errors="replace") if log.exists() else ""
    bench.logs.append(f"## {task} {seen}\n{said[:_MOST_OF_A_LOG]}\n")
    return words(task, seen, said)


def values(task: Task, seen: Followed) -> Answer:
    """Wrong launches of the kernels that came to their end, words for the one that did not."""
    known: dict[int, Word | int] = dict(seen.wrong)
    if seen.end and seen.begun:
        known[seen.begun[-1]] = Word(seen.end)
    behind = task.kernels[len(seen.begun) :]
    return Answer(known, (Task(task.tool, task.side, behind),) if behind and seen.begun else ())


def words(task: Task, seen: Followed, log: str) -> Answer:
    """What the log says of each kernel that came to its end; whose silence is doubtful comes alone."""
    if not seen.begun and not task.again:
        return Answer({}, (replace(task, again=True),))
    if sanitizer_words.blind(log) or not seen.begun:
        return Answer({})
    found: dict[int, list[sanitizer_words.Report]] = {index: [] for index in seen.begun}
    for report in sanitizer_words.reports(log):
        named = re.search(r"\bk(\d{3})_", report.text)
        found.setdefault(int(named[1]) if named else seen.begun[-1], []).append(report)
    known: dict[int, Word | int] = {index: _word(reports, task.side) for index, reports in found.items()}
    behind = task.kernels[len(seen.begun) :]
    left = [Task(task.tool, task.side, behind)] if behind else []
    for index in doubtful(seen, log):
        if found[index]:
            continue
        hung = seen.end == DID_NOT_END and index == seen.begun[-1]
        known[index] = Word(seen.end or ENDED)
        if not hung and len(task.kernels) > 1:
            left.append(Task(task.tool, task.side, (index,)))
        elif not hung and task.tool == "racecheck" and not task.again:
            left.append(Task(task.tool, task.side, (index,), again=True))
    return Answer(known, tuple(left))


def doubtful(seen: Followed, log: str) -> tuple[int, ...]:
    """Kernels whose silence says nothing: all if the tool itself broke off, the last one if the launcher did."""
    if sanitizer_words.summary(log) is None:
        return seen.begun
    return seen.begun[-1:] if seen.end else ()


def _word(reports: Sequence[sanitizer_words.Report], side: str) -> Word:
    """Reports without the names that the kernels have here."""

    def plain(text: str) -> str:
        return re.sub(rf"\bk\d{{3}}_{side}\b", "k", text)

    if not reports:
        return Word("")
    return Word(plain(reports[0].said), [plain(line) for line in sanitizer_words.lines(reports)])


def followed(command: Sequence[str], silence_s: float) -> Followed:
    """Run the launcher, under a tool or not, until it ends or is silent for long."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    stream = process.stdout
    assert stream is not None
    told: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_pump, args=(stream, told), daemon=True)
    reader.start()
    begun: list[int] = []
    wrong: dict[int, int] = {}
    end = ENDED
    launcher = 0
    while True:
        try:
            line = told.get(timeout=silence_s if begun or end == DID_NOT_END else BEGIN_SILENCE_S)
        except queue.Empty:
            if end == DID_NOT_END or not launcher:
                break
            # The launcher goes first: the tool then writes what it knows.
            end, silence_s = DID_NOT_END, LAST_WORDS_S
            _kill(launcher)
            continue
        if line is None:
            break
        word, _, rest = line.strip().partition(" ")
        if word == "@@" and rest == "done":
            end = ""
        elif word == "@@" and rest.startswith("process "):
            launcher = int(rest.split()[1])
        elif word == "@@":
            begun.append(int(rest))
        elif word == "##":
            wrong[begun[-1]] = int(rest)
        elif word == "!!" and end != DID_NOT_END:
            end = rest
    try:
        process.wait(timeout=10.0 if end != DID_NOT_END else 0.1)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    reader.join()
    stream.close()
    return Followed(tuple(begun), wrong, end)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _pump(stream: IO[str], told: "queue.Queue[str | None]") -> None:
    for line in stream:
        told.put(line)
    told.put(None)


def run_all(
    tasks: Sequence[Task], bench: Bench, at_once: int, deadline: float
) -> dict[tuple[str, str, int], Word | int]:
    """Do tasks, and what they leave, until all is known or the time is over."""
    known: dict[tuple[str, str, int], Word | int] = {}
    todo = list(tasks)
    running: dict[Future[Answer], tuple[Task, int]] = {}
    workers = set(range(at_once))
    with ThreadPoolExecutor(at_once) as pool:
        while running or (todo and time.monotonic() < deadline):
            while todo and workers and time.monotonic() < deadline:
                worker, task = workers.pop(), todo.pop(0)
                running[pool.submit(run, task, bench, worker)] = (task, worker)
            ready, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                task, worker = running.pop(future)
                workers.add(worker)
                answer = future.result()
                known |= {(task.tool, task.side, index): word for index, word in answer.known.items()}
                todo += answer.left
    return known


def tool_tasks(pairs: Sequence[Pair], known: Iterable[tuple[str, str, int]] = ()) -> list[Task]:
    """Every tool over every kernel that is not known, wrong ones first; what may hang comes last and alone."""
    done = set(known)
    together: list[Task] = []
    alone: list[Task] = []
    for side, tool in product(SIDES, TOOLS):
        missing = [index for index in range(len(pairs)) if (tool, side, index) not in done]
        hanging = [index for index in missing if pairs[index].may_hang and side == "wrong"]
        others = iter([index for index in missing if index not in hanging])
        together += [Task(tool, side, chunk) for chunk in iter(lambda: tuple(islice(others, TOGETHER)), ())]  # noqa: B023
        alone += [Task(tool, side, (index,)) for index in hanging]
    return together + alone


def words_of(old: Mapping[str, Any]) -> dict[tuple[str, str, int], Word | int]:
    """The tools' words that an evidence file has for today's kernels."""
    rows = {row["name"]: row for row in old["rows"]}
    known: dict[tuple[str, str, int], Word | int] = {}
    for index, pair in enumerate(PAIRS):
        row = rows.get(pair.name, {})
        if row.get("digest") != pair.digest:
            continue
        for side, tool in product(SIDES, TOOLS):
            if row[side][tool] is not None:
                known[tool, side, index] = Word(row[side][tool], row.get("lines", {}).get(f"{side}, {tool}", []))
    return known


def build(folder: Path) -> Bench:
    """Compile the launcher and all kernels.

    Raises:
        subprocess.CalledProcessError: the launcher does not compile.
    """
    launcher = folder / "launcher"
    source = Path(__file__).with_suffix(".cpp")
    subprocess.run(["nvcc", "-O1", "-std=c++17", "-o", launcher, source, "-ldl"], check=True)
    (folder / "in").write_bytes(input_words().tobytes())
    (folder / "noise").write_bytes(compile_source(NOISE, name="noise.cu").cubin)
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(partial(assemble, folder), texts()):
            pass
    for index, pair in enumerate(PAIRS):
        (folder / f"expected{index}").write_bytes(pair.expected(input_words()).tobytes())
    return Bench(folder, [str(launcher)])


def assemble(folder: Path, name: str) -> None:
    """A kernel's machine code, from the PTX that the CPU device runs, without its line information: with it the tools
    name inlined functions where they would name the kernel."""
    ptx = folder / f"{name}.ptx"
    ptx.write_text(bare(texts()[name]))
    subprocess.run(["nvcc", "-cubin", "-arch=sm_90a", "-o", folder / name, ptx], check=True)


def bare(ptx: str) -> str:
    """PTX without line information."""
    without = re.sub(r"^\s*\.(?:loc|file)\b.*\n", "", ptx, flags=re.MULTILINE)
    return re.sub(r"^\s*\.section\s+\.debug.*?^\s*\}\n", "", without, flags=re.MULTILINE | re.DOTALL)


def row(index: int, pair: Pair, known: Mapping[tuple[str, str, int], Word | int]) -> dict[str, Any]:
    """One row of the evidence; null where nothing is known."""

    def count(side: str) -> dict[str, Any]:
        value = known.get(("values", side, index))
        if isinstance(value, Word):
            return {f"{side}_values": None, f"{side}_ended": value.said}
        return {f"{side}_values": value}

    def of(side: str) -> dict[str, Any]:
        found = {tool: known.get((tool, side, index)) for tool in TOOLS}
        return {tool: word.said if isinstance(word, Word) else None for tool, word in found.items()}

    lines = {
        f"{side}, {tool}": word.lines
        for tool, side in product(TOOLS, SIDES)
        if isinstance(word := known.get((tool, side, index)), Word) and word.lines
    }
    return {
        "name": pair.name,
        "edge": pair.edge,
        "digest": pair.digest,
        **count("wrong"),
        **count("right"),
        **{side: of(side) for side in SIDES},
        **({"lines": lines} if lines else {}),
    }


def main() -> None:
    """Write the evidence."""
    from tileproof.conformance.environment import capture
    from tileproof.conformance.records import to_json

    start, seconds = time.monotonic(), float(sys.argv[2]) if len(sys.argv) > 2 else 330.0
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"
    with TemporaryDirectory() as folder:
        bench = build(Path(folder))
        say(start, "built")
        everything = tuple(range(len(PAIRS)))
        known = run_all([Task("values", side, everything) for side in SIDES], bench, 1, start + VALUES_SHARE * seconds)
        say(start, "values")
        old = json.loads(Path(sys.argv[3]).read_text()) if len(sys.argv) > 3 else {"rows": []}
        known |= words_of(old)
        known |= run_all(tool_tasks(PAIRS, known), bench, AT_ONCE, start + seconds - SILENCE_S)
        say(start, "tools")
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=False)
    rows = [row(index, pair, known) for index, pair in enumerate(PAIRS)]
    evidence = {
        "what": "order table: launches with a wrong value, and the words of compute-sanitizer",
        "how": "150 rounds of 20 launches at once, before each of them all shared memory is filled; every second round"
        " beside a kernel that streams through 256 MiB",
        "environment": to_json(capture()),
        "compute_sanitizer": version.stdout.strip().splitlines()[-1] if version.stdout else version.stderr[:200],
        "launches": LAUNCHES,
        **({"attribution": old["attribution"]} if "attribution" in old else {}),
        "rows": rows,
    }
    Path(sys.argv[1]).with_suffix(".logs.txt").write_text("".join(bench.logs))
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    for side in SIDES:
        shown = sum(bool(line[f"{side}_values"]) for line in rows)
        told = {tool: sum(bool(line[side][tool]) for line in rows) for tool in TOOLS}
        missing = sum(line[side][tool] is None for line in rows for tool in TOOLS)
        sys.stdout.write(
            f"{side}: {len(rows)} kernels, {shown} show a wrong value, tools: {told}, not run: {missing}\n"
        )
    for line in rows:
        sys.stdout.write(f"{line['name']}: {line['wrong_values']} {line.get('wrong_ended', '')} {line['wrong']}\n")


def say(start: float, what: str) -> None:
    """Progress, on a line of its own."""
    sys.stdout.write(f"{time.monotonic() - start:6.1f} s: {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
