"""Texts that fuzzing showed to end otherwise than in a refusal, findings or a run; and 10**5 more of their kind."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from async_kernels import module
from corpus import Source
from mutator import hostile
from trial import ENDS, Verdict, judge

from tileproof.simulators.ptx.device import Device

TEXTS, CHUNK = 100_000, 5_000
GATE_TEXTS = 200
COMPILES_S = 300.0
"""For one text: what it needs, the engine itself too, may be compiled at its first use, which nothing may interrupt."""
ENGINES = ("fast", "reference")
FOLDERS = [str(Path(__file__).parents[1] / name) for name in ("fuzz", "hostile", "order_table", "simulators")]


def found(text: str, engine: str = "fast", **launch: int) -> Verdict:
    return judge(Source("", text, **launch), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "end"),
    [
        # An atomic none of whose addresses is aligned has no place at all.
        ("atom.shared.add.u32 %r2, [tile+1], %r0; ret;", "findings"),
        ("atom.global.add.u32 %r2, [%d1+1], %r0; ret;", "findings"),
        # A wait that leaves more groups in flight than there can be waits for none.
        ("cp.async.wait_group 4294967295; ret;", "ran"),
        ("cp.async.wait_group 18446744073709551615; ret;", "ran"),
        ("cp.async.bulk.wait_group 18446744073709551615; ret;", "ran"),
        ("cp.async.bulk.wait_group.read 4294967295; ret;", "ran"),
    ],
)
def test_a_body_at_a_limit_ends_as_its_meaning_says(body: str, end: str, engine: str) -> None:
    assert found(module(body, ""), engine).end == end


@pytest.mark.parametrize("count", [1 << 31, 1 << 32, (1 << 64) - 1])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_wait_for_products_leaves_any_number_in_flight(engine: str, count: int) -> None:
    body = f"wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {count}; ret;"
    assert found(module(body, ""), engine, threads=128).end == "ran"


@pytest.mark.parametrize("operand", ["-1", "0f3F800000", "%r1"])
def test_a_number_of_groups_that_is_none_is_refused(operand: str) -> None:
    assert found(module(f"cp.async.wait_group {operand}; ret;", "")).end == "refused"


@pytest.mark.parametrize(
    ("word", "said"),
    [("a" * 100_000, "100000 characters: a name"), ("ld.u64" + "a" * 2000, "2006 characters: an opcode")],
)
def test_the_message_about_an_endless_word_is_short(word: str, said: str) -> None:
    verdict = found(module(f"{word} %r1, %r2;", ""))
    assert verdict.end == "refused"
    assert said in verdict.detail
    assert len(verdict.detail) < 200


@pytest.mark.parametrize(
    ("function", "body", "said"),
    [
        (".func f() { .reg .b32 %r<2000>; mov.b32 %r1, 1; ret; }\n", "call f;" * 200, "more than 262144 registers"),
        (".func f() { call f; ret; }\n", "call f;", "recursive calls"),
    ],
)
def test_calls_that_multiply_registers_or_recur_are_refused(function: str, body: str, said: str) -> None:
    head = ".version 8.6\n.target sm_90a\n.address_size 64\n"
    verdict = found(f"{head}{function}.visible .entry k() {{ {body} ret; }}\n")
    assert said in verdict.detail
    assert verdict.allowed


def test_hostile_texts_depend_on_their_seed_alone_and_are_of_many_kinds() -> None:
    assert hostile(7) == hostile(7)
    assert len({hostile(seed).text for seed in range(50)}) > 45


def test_hostile_texts_end_as_they_may() -> None:
    wrong, ends = [], Counter[str]()
    for seed in range(GATE_TEXTS):
        verdict = judge(hostile(seed), limit_s=COMPILES_S)
        ends[verdict.end] += 1
        if verdict.end not in ENDS:  # the seconds are the slow test's
            wrong.append((seed, verdict))
    assert wrong == []
    assert ends["refused"] > GATE_TEXTS // 2
    assert ends["ran"] + ends["findings"] > GATE_TEXTS // 10


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), RecursionError(), KeyError("k"), OverflowError()])
def test_any_other_error_is_no_end_that_a_text_may_have(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(Device, "load_ptx", broken)
    assert not judge(hostile(0)).allowed


def test_a_text_that_takes_too_long_is_no_end_that_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr("trial.MOST_SECONDS", 0.2)
    monkeypatch.setattr(Device, "load_ptx", slow)
    assert judge(hostile(0)).end == "too slow"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, TEXTS, CHUNK))
def test_a_hundred_thousand_hostile_texts_end_as_they_may(first: int) -> None:
    """In processes of their own, with 8 GiB of address space: a crash of one is told with its text's seed."""
    done = judged(first, CHUNK)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"


def judged(first: int, count: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).with_name("judge_many.py")), str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((*FOLDERS, *sys.path))}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
