"""The page docs/order_table.md: the order table beside what other tools and an H200 say of its kernels."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pair import Pair
from table import GROUPS, PAIRS
from unseen import UNSEEN

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
NOT_RUN, SILENT = "not run", "–"
Rows = Mapping[str, Mapping[str, Any]]

#: Words of compute-sanitizer and what a cell has for them.
_SHORT = (
    (r"Error: Race reported", "race"),
    (r"Warning: Race reported", "race (warning)"),
    (r"Barrier error detected\. (Divergent|Missing)", "barrier error"),
    (r"Potential invalid __shared__", "early or late access"),
    (r"Unknown Error|CUDA_ERROR|hit CUDA", "GPU error"),
    (r"it did not end", "does not end"),
    (r"the process ended here", "process ended"),
)
_WARD = {
    "race_free": SILENT,
    "potential_race": "race",
    "not_wellsynced": "not synchronised",
    "invalid_lifecycle": "lifecycle",
    "timeout": "timeout",
}


def rows_of(path: Path, pairs: Sequence[Pair]) -> Rows:
    """The rows of an evidence file that are of today's kernels, by name."""
    rows = {row["name"]: row for row in json.loads(path.read_text())["rows"]}
    return {pair.name: rows[pair.name] for pair in pairs if rows.get(pair.name, {}).get("digest") == pair.digest}


def short(said: str | None) -> str:
    """A cell for the words of compute-sanitizer; what is not known stays as it is."""
    if said is None:
        return NOT_RUN
    if not said:
        return SILENT
    found = next((word for pattern, word in _SHORT if re.search(pattern, said)), None)
    return found or said[:40].replace("|", "/")


def ward(said: str | None) -> str:
    """A cell for the result of SentryWard."""
    if said is None:
        return NOT_RUN
    return "unsupported" if said.startswith("unsupported") else _WARD.get(said, said)


def both(wrong: str, right: str) -> str:
    """One cell for the two kernels: wrong, then right; one word where they are the same."""
    return wrong if wrong == right else f"{wrong} / {right}"


def values(row: Mapping[str, Any]) -> str:
    """In how many launches a value was wrong."""
    count, ended, in_turn = (row.get(f"wrong_{key}") for key in ("values", "ended", "values_in_turn"))
    cell = f"{count:,}" if count is not None else short(ended) if ended else NOT_RUN
    return cell if in_turn is None else f"{cell}; in turn {in_turn:,}"


def line(pair: Pair, ours: Rows, gpu: Rows, sentryward: Rows) -> str:
    """One row of the table."""
    own, on_gpu, said = (rows.get(pair.name, {}) for rows in (ours, gpu, sentryward))
    kinds = ", ".join(own["wrong"]["kinds"]) if own else NOT_RUN
    tools = [both(*(short(on_gpu.get(side, {}).get(tool)) for side in ("wrong", "right"))) for tool in TOOLS]
    shown = values(on_gpu) if pair.visible else "none can be"
    cells = (
        pair.name,
        pair.edge,
        kinds,
        *tools,
        both(ward(said.get("wrong")), ward(said.get("right"))),
        shown,
    )
    return f"| {' | '.join(cells)} |"


def table(pairs: Sequence[Pair], ours: Rows, gpu: Rows, sentryward: Rows) -> str:
    """The rows of some pairs under their heading."""
    heading = ("row", "what orders", "tileproof", *TOOLS, "SentryWard", "wrong values")
    lines = [f"| {' | '.join(heading)} |", "|" + " --- |" * len(heading)]
    return "\n".join(lines + [line(pair, ours, gpu, sentryward) for pair in pairs]) + "\n"


def counts(ours: Rows, gpu: Rows, sentryward: Rows) -> str:
    """What each tool makes of the kernels that it was run on: a summary table."""

    def of(words: Mapping[str, tuple[str | None, str | None]], silent: Sequence[str], none: Sequence[str]) -> list[str]:
        found = [wrong for wrong, _ in words.values() if wrong not in (*silent, *none)]
        alarms = [right for _, right in words.values() if right not in (*silent, *none)]
        run = [sum(side not in none for side in sides) for sides in zip(*words.values(), strict=True)]
        return [f"{len(found)} of {run[0]}", f"{len(alarms)} of {run[1]}"]

    lines = ["| | wrong kernels with a report | right kernels with one |", "| --- | --- | --- |"]
    seeds = [(row["wrong"], row["right"]) for row in ours.values()]
    found, silent = (
        sum(side["as_expected"] == side["launches"] for side in sides) for sides in zip(*seeds, strict=True)
    )
    lines.append(f"| tileproof, every schedule | {found} of {len(seeds)} | {len(seeds) - silent} of {len(seeds)} |")
    for tool in TOOLS:
        said = {name: (short(row["wrong"][tool]), short(row["right"][tool])) for name, row in gpu.items()}
        lines.append(f"| {tool} | {' | '.join(of(said, (SILENT,), (NOT_RUN,)))} |")
    words = {name: (ward(row["wrong"]), ward(row["right"])) for name, row in sentryward.items()}
    lines.append(f"| SentryWard | {' | '.join(of(words, (SILENT,), (NOT_RUN, 'unsupported')))} |")
    keys = ("wrong_values", "wrong_values_in_turn"), ("right_values",)
    shown = [sum(any(row.get(key) for key in side) for row in gpu.values()) for side in keys]
    ended = [sum(any(row.get(key) is not None for key in side) for row in gpu.values()) for side in keys]
    lines.append(f"| a wrong value on the H200 | {shown[0]} of {ended[0]} | {shown[1]} of {ended[1]} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """docs/order_table.md."""
    ours = rows_of(EVIDENCE / "cpu_device" / "order_table.json", PAIRS)
    recorded = EVIDENCE / "h200-2026-11-30" / "order_table.json"
    gpu, facts = rows_of(recorded, PAIRS), json.loads(recorded.read_text())
    sentryward = rows_of(EVIDENCE / "sentryward-0.1.1" / "order_table.json", PAIRS)
    parts = [
        f"""# The order table

Generated by `docs/generate.py` from `tests/order_table` and the evidence. Each of the {len(PAIRS)} rows is an edge of
the happens-before order with two micro-kernels: the right one, and the same one without the edge. Edges between kernels
(stream, graph, `griddepcontrol`) need two launches: `tests/simulators/test_launch_graph.py`.

* **tileproof**: the kinds of the findings on the wrong kernel under the friendly schedule. Every wrong kernel is found
  under `friendly` and on each of 50 seeds of the adversarial schedule, every right one is silent and right under
  `friendly` and on 200 seeds (`docs/evidence/cpu_device/order_table.json`; `tests/order_table/test_order_table.py` has
  a sample of the seeds in the gate and all of them in the slow lane).
* **memcheck, racecheck, initcheck, synccheck**: compute-sanitizer {_version(facts)} on an H200, one launch of each
  kernel (`tests/h200/order_table.py`). A cell has the word for the wrong kernel, then for the right one; one word
  stands for both. "{SILENT}" is silence, "{NOT_RUN}" that the kernel was not launched under that tool. By its manual
  racecheck looks at shared memory only.
* **SentryWard** 0.1.1, a static verifier of PTX made for sm_100 (`tests/order_table/record_sentryward.py`);
  "{SILENT}" is its `race_free`.
* **wrong values**: of {facts["launches"]:,} launches of the wrong kernel on the H200 those that left a wrong word. A
  kernel that shows none is wrong all the same. How it was launched: {facts["how"]}{_in_turn(facts)}.

## Counts

{counts(ours, gpu, sentryward)}"""
    ]
    parts += [_unseen()]
    parts += [f"\n## {name.capitalize()}\n\n{table(pairs, ours, gpu, sentryward)}" for name, pairs in GROUPS.items()]
    return "".join(parts)


def _unseen() -> str:
    rows = "".join(f"| {name} | {why} |\n" for name, why in UNSEEN.items())
    return f"""
## Where no wrong value comes out

Of the {len(PAIRS)} wrong kernels all but these {len(UNSEEN)} give a wrong value on some of 51 seeds of the adversarial
schedule, and again on the
same seed (`tests/order_table/test_wrong_values.py`):

| row | why not |
| --- | --- |
{rows}"""


def _version(facts: Mapping[str, Any]) -> str:
    found = re.search(r"[\d.]+\d", facts["compute_sanitizer"])
    return found[0] if found else "of unknown version"


def _in_turn(facts: Mapping[str, Any]) -> str:
    return f'; "in turn": {facts["how_in_turn"]}' if "how_in_turn" in facts else ""
