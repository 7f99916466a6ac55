"""Every check of the wave machine rejects a wrong kernel and lets the right one pass."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tile_cases import BY_NAME, inputs, mismatch

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.machine.findings import Findings
from tileproof.simulators.gfx928.machine.machine import Block, Counters
from tileproof.simulators.gfx928.machine.memory import Buffer
from tileproof.simulators.gfx928.machine.operations import (
    Barrier,
    Counter,
    DsRead,
    DsWrite,
    GlobalLoad,
    GlobalStore,
    Mmac,
    Operation,
    ShflXor,
    Wait,
    Zero,
)
from tileproof.simulators.gfx928.tiles.tile_launch import TileRun, run_tile
from tileproof.simulators.gfx928.tiles.tile_program import Product, tile_program
from tileproof.simulators.gfx928.wave import LANE
from tileproof.simulators.ptx.findings import FindingKind

SINGLE = BY_NAME["TP4 M4096 qkv"]
DOUBLE = BY_NAME["TP4 M4096 down"]
SMALL = BY_NAME["GLM TP8 M4096 shared_gate_up"]

Program = Sequence[Operation]


def kinds(run: TileRun) -> set[FindingKind]:
    return {finding.kind for finding in run.findings}


def positions(program: Program, kind: type) -> list[int]:
    return [line for line, operation in enumerate(program) if isinstance(operation, kind)]


def without(line: int) -> Callable[[Program], Program]:
    return lambda program: [*program[:line], *program[line + 1 :]]


def mapped(change: Callable[[Operation], Operation]) -> Callable[[Program], Program]:
    return lambda program: [change(operation) for operation in program]


def small_program(stages: int = 3) -> Program:
    return tile_program(SMALL, Product(SMALL.rows, SMALL.columns, stages * SMALL.stage), 0, 0)


SMALL_BARRIERS = positions(small_program(), Barrier)
SMALL_WAITS = positions(small_program(2), Wait)


@pytest.mark.parametrize("kernel", [SINGLE, DOUBLE, SMALL], ids=str)
def test_the_right_kernels_have_no_finding(kernel: object) -> None:
    assert isinstance(kernel, type(SMALL))
    run = run_tile(kernel, inputs(kernel, kernel.rows - 3, 3))
    assert (run.findings, run.unwritten) == ((), 0)


@pytest.mark.parametrize("line", SMALL_BARRIERS[:-1])
def test_a_missing_barrier_is_a_race(line: int) -> None:
    run = run_tile(SMALL, inputs(SMALL, 64, 3), rewrite=without(line))
    assert kinds(run) == {FindingKind.RACE}
    assert "no barrier between" in run.findings[0].message


def test_the_last_barrier_orders_nothing_and_may_go() -> None:
    assert run_tile(SMALL, inputs(SMALL, 64, 3), rewrite=without(SMALL_BARRIERS[-1])).findings == ()


@pytest.mark.parametrize("number", range(5))
def test_a_missing_barrier_of_the_single_buffer_is_a_race(number: int) -> None:
    program = tile_program(SINGLE, Product(64, 128, 192), 0, 0)
    run = run_tile(SINGLE, inputs(SINGLE, 64, 3), rewrite=without(positions(program, Barrier)[number]))
    assert kinds(run) == {FindingKind.RACE}


@pytest.mark.parametrize("line", SMALL_WAITS)
def test_a_missing_wait_is_a_race(line: int) -> None:
    run = run_tile(SMALL, inputs(SMALL, 64, 2), rewrite=without(line))
    assert kinds(run) == {FindingKind.RACE}
    wait = small_program(2)[line]
    assert isinstance(wait, Wait)
    words = [f"{wait.counter.value}(0) between", "no barrier between"]
    assert any(word in finding.message for finding in run.findings for word in words)


def test_a_wait_behind_the_barrier_instead_of_before_it_is_a_race() -> None:
    """The barrier does not wait for the write: another wave may read before it arrives."""

    def swapped(program: Program) -> Program:
        first = positions(program, Barrier)[0]
        assert program[first - 1] == Wait(Counter.LGKM)
        return [*program[: first - 1], program[first], program[first - 1], *program[first + 1 :]]

    run = run_tile(SMALL, inputs(SMALL, 64, 1), rewrite=swapped)
    assert kinds(run) == {FindingKind.RACE}
    assert "byte" in run.findings[0].message


def test_publishing_to_the_buffer_that_is_read_is_a_race() -> None:
    def same_buffer(operation: Operation) -> Operation:
        if isinstance(operation, DsWrite):
            return replace(operation, addresses=operation.addresses % SMALL.stage_bytes)
        return operation

    assert FindingKind.RACE in kinds(run_tile(SMALL, inputs(SMALL, 64, 2), rewrite=mapped(same_buffer)))


def test_two_lanes_of_a_write_on_one_byte_are_a_race() -> None:
    def folded(operation: Operation) -> Operation:
        if isinstance(operation, DsWrite):
            return replace(operation, addresses=operation.addresses // 32 * 32)
        return operation

    run = run_tile(SMALL, inputs(SMALL, 64, 1), rewrite=mapped(folded))
    assert any("two lanes of wave" in finding.message for finding in run.findings)


def test_lds_that_is_a_byte_too_small_is_out_of_bounds() -> None:
    assert run_tile(SINGLE, inputs(SINGLE, 64, 1), lds_bytes=SINGLE.lds_bytes - 16).findings == ()  # the padding
    run = run_tile(SINGLE, inputs(SINGLE, 64, 1), lds_bytes=SINGLE.lds_bytes - 17)
    assert FindingKind.OUT_OF_BOUNDS in kinds(run)
    assert "LDS of 14575 bytes" in run.findings[0].message


@pytest.mark.parametrize("access", [GlobalLoad, GlobalStore])
def test_a_tail_that_is_not_masked_is_out_of_bounds(access: type) -> None:
    def unmasked(operation: Operation) -> Operation:
        if isinstance(operation, GlobalLoad | GlobalStore) and isinstance(operation, access):
            return replace(operation, active=np.ones_like(operation.active))
        return operation

    run = run_tile(SMALL, inputs(SMALL, 63, 1), rewrite=mapped(unmasked))
    assert FindingKind.OUT_OF_BOUNDS in kinds(run)
    assert run_tile(SMALL, inputs(SMALL, 64, 1), rewrite=mapped(unmasked)).findings == ()


@pytest.mark.parametrize("number", range(4))
def test_a_stage_that_is_not_written_is_uninitialised(number: int) -> None:
    line = positions(tile_program(SMALL, Product(64, 64, 64), 0, 0), DsWrite)[number]
    run = run_tile(SMALL, inputs(SMALL, 64, 1), rewrite=without(line))
    assert kinds(run) == {FindingKind.UNINITIALISED}
    assert "nothing wrote" in run.findings[0].message


def test_only_outputs_that_an_unwritten_byte_decides_are_uninitialised() -> None:
    """Rows 0..15 of A, which wave 0 stages, are missing in one half: 16 of 64 rows of outputs."""

    def without_wave_0(program: Program) -> Program:
        line = positions(program, DsWrite)[0]
        write = program[line]
        assert isinstance(write, DsWrite)
        active = write.active.copy()
        active[0] = False
        return [*program[:line], replace(write, active=active), *program[line + 1 :]]

    run = run_tile(SMALL, inputs(SMALL, 64, 1), rewrite=without_wave_0)
    assert kinds(run) == {FindingKind.UNINITIALISED}
    assert 4 * sum(finding.count for finding in run.findings) == 16 * 64


def test_a_store_of_16_bytes_at_stride_72_is_misaligned() -> None:
    def whole(program: Program) -> Program:
        return [
            replace(op, nbytes=16) if isinstance(op, DsWrite) and op.first == 0 else op
            for op in program
            if not (isinstance(op, DsWrite) and op.first)
        ]

    run = run_tile(DOUBLE, inputs(DOUBLE, 128, 1), rewrite=whole)
    assert FindingKind.MISALIGNED in kinds(run)
    assert all("no multiple of 16" in f.message for f in run.findings if f.kind is FindingKind.MISALIGNED)


def test_a_barrier_that_a_wave_misses_is_a_deadlock_and_leaves_the_output_unwritten() -> None:
    def one_stays_away(program: Program) -> Program:
        line = positions(program, Barrier)[1]
        return [*program[:line], Barrier(frozenset({0, 1, 3})), *program[line + 1 :]]

    run = run_tile(SMALL, inputs(SMALL, 64, 2), rewrite=one_stays_away)
    assert [finding.kind for finding in run.findings] == [FindingKind.DEADLOCK]
    assert "waves [2] never come" in run.findings[0].message
    assert run.findings[0].count == 3 * 64
    assert run.unwritten == 64 * 64


def test_an_output_that_is_stored_twice_is_a_race_and_another_stays_unwritten() -> None:
    def folded(operation: Operation) -> Operation:
        if isinstance(operation, GlobalStore):
            return replace(operation, addresses=operation.addresses // 16 * 16)
        return operation

    run = run_tile(SMALL, inputs(SMALL, 64, 1), rewrite=mapped(folded))
    assert kinds(run) == {FindingKind.RACE}
    assert run.unwritten == 64 * 64 // 2


def test_all_waves_on_the_columns_of_the_first_give_wrong_numbers_and_no_finding() -> None:
    """A chunk number computed as lane >> 6, always 0 in a wave of 64: only the comparison sees it."""

    def first_columns(operation: Operation) -> Operation:
        if isinstance(operation, DsRead) and operation.register.startswith("b"):
            return replace(operation, addresses=np.repeat(operation.addresses[:1], SMALL.waves, axis=0))
        return operation

    given = inputs(SMALL, 64, 1)
    run = run_tile(SMALL, given, rewrite=mapped(first_columns))
    assert run.findings == ()
    count, _ = mismatch(run, given)
    assert 64 * 32 * 9 // 10 < count <= 64 * 32


def test_a_wrong_shuffle_gives_wrong_numbers() -> None:
    given = inputs(SMALL, 64, 1)
    run = run_tile(SMALL, given, rewrite=mapped(lambda op: replace(op, mask=8) if isinstance(op, ShflXor) else op))
    assert run.findings == ()
    assert mismatch(run, given)[0] > 0


def test_stale_data_of_the_stage_before_gives_wrong_numbers() -> None:
    """A buffer that was written once is not uninitialised any more; the bits are wrong all the same."""
    given = inputs(SMALL, 64, 3)
    line = positions(small_program(), DsWrite)[-1]
    run = run_tile(SMALL, given, rewrite=without(line))
    assert run.findings == ()
    assert mismatch(run, given)[0] > 0


def block(waves: int = 1, lds_bytes: int = 64) -> Block:
    return Block(waves, lds_bytes, {}, Findings(), Counters())


@pytest.mark.parametrize(
    ("program", "word"),
    [
        ([Mmac("c", "a", "b")], "never written"),
        ([GlobalLoad("a", "none", LANE[np.newaxis], 1, np.ones((1, 64), np.bool_))], "no buffer none"),
        ([Zero("a", 8), DsWrite("a", 0, LANE, 1, np.ones(64, np.bool_))], "addresses"),
        ([Zero("a", 8), DsWrite("a", 0, LANE[np.newaxis], 1, np.ones((2, 64), np.bool_))], "addresses"),
    ],
)
def test_a_program_that_means_nothing_is_refused(program: Program, word: str) -> None:
    with pytest.raises(Refusal, match=word):
        block().run(program)


def test_a_register_that_is_read_into_again_before_the_wait_is_a_race() -> None:
    read = DsRead("a", 4, 0, 4 * (LANE % 16)[np.newaxis], 4)
    programs: list[tuple[Program, int]] = [([read, Wait(Counter.LGKM), read], 0), ([read, read], 1)]
    for program, count in programs:
        one = block()
        one.run(program)
        assert [finding.kind for finding in one.findings.all()] == [FindingKind.RACE] * count


LOW, HIGH = (4 * LANE[np.newaxis] + 256 * half for half in (0, 1))
EVERY = np.ones((1, 64), np.bool_)
FILLED = (Zero("z", 8), DsWrite("z", 0, 2 * LOW, 8, EVERY), Wait(Counter.LGKM))


@pytest.mark.parametrize(
    ("program", "races"),
    [
        ([DsRead("r", 8, 4, HIGH, 4), DsRead("r", 8, 0, LOW, 4), Wait(Counter.LGKM)], 0),
        ([DsRead("r", 8, 0, LOW, 4), DsRead("r", 8, 4, HIGH, 4), Wait(Counter.LGKM), DsRead("r", 8, 4, LOW, 4)], 0),
        ([DsRead("r", 8, 4, LOW, 4), DsRead("r", 8, 4, HIGH, 4)], 1),
        ([DsRead("r", 8, 0, LOW, 4), DsRead("r", 4, 0, HIGH, 4)], 1),
        ([GlobalLoad("r", "in", 2 * LOW, 8, EVERY), DsRead("r", 8, 4, LOW, 4)], 1),
        ([GlobalLoad("r", "in", 2 * LOW, 8, EVERY), Wait(Counter.LGKM), DsRead("r", 16, 8, 2 * LOW, 8)], 1),
        ([GlobalLoad("r", "in", 2 * LOW, 8, EVERY), Wait(Counter.VM), DsRead("r", 8, 4, LOW, 4)], 0),
    ],
)
def test_parts_of_a_register_may_be_read_in_any_order_and_none_while_it_is_awaited(
    program: Program, races: int
) -> None:
    one = Block(1, 512, {"in": Buffer(np.zeros(512, np.uint8))}, Findings(), Counters())
    one.run([*FILLED, *program])
    assert [finding.kind for finding in one.findings.all()] == [FindingKind.RACE] * races


def test_an_address_at_the_end_of_all_addresses_is_out_of_bounds() -> None:
    one = Block(1, 512, {}, Findings(), Counters())
    one.run([*FILLED, DsRead("r", 8, 0, np.full((1, 64), 2**63 - 8), 8)])
    assert [finding.kind for finding in one.findings.all()] == [FindingKind.OUT_OF_BOUNDS]


@pytest.mark.parametrize(
    "operation",
    [
        DsWrite("z", 4, LOW, 8, EVERY),
        DsRead("r", 8, 4, LOW, 8),
        DsRead("r", 8, 0, LOW, 0),
        DsRead("r", 4, 0, LOW.astype(np.float64), 4),
        GlobalStore("z", "in", LOW, 4, EVERY),
    ],
    ids=str,
)
def test_bytes_that_a_register_does_not_have_are_refused(operation: Operation) -> None:
    one = Block(1, 512, {"in": Buffer(np.zeros(512, np.uint8))}, Findings(), Counters())
    with pytest.raises(Refusal, match="operation 3"):
        one.run([*FILLED, operation])


def test_a_register_that_is_loaded_again_before_the_wait_is_a_race() -> None:
    load = GlobalLoad("a", "in", LANE[np.newaxis], 1, np.ones((1, 64), np.bool_))
    programs: list[tuple[Program, int]] = [([load, Wait(Counter.VM), load], 0), ([load, load], 1)]
    for program, count in programs:
        one = Block(1, 64, {"in": Buffer(np.zeros(64, np.uint8))}, Findings(), Counters())
        one.run(program)
        assert [finding.kind for finding in one.findings.all()] == [FindingKind.RACE] * count


@pytest.mark.parametrize(("active", "kinds_found"), [(False, []), (True, ["out-of-bounds", "uninitialised"])])
def test_a_lane_that_is_switched_off_loads_zeros_and_one_out_of_bounds_nothing(
    active: bool, kinds_found: list[str]
) -> None:
    """Lane 63 would load byte 63 of 63."""
    buffers = {"in": Buffer(np.full(63, 7, np.uint8)), "out": Buffer(np.full(64, 9, np.uint8))}
    lanes = LANE[np.newaxis]
    mask = (lanes < 63) | active
    one = Block(1, 64, buffers, Findings(), Counters())
    every = np.ones((1, 64), np.bool_)
    one.run([GlobalLoad("a", "in", lanes, 1, mask), Wait(Counter.VM), GlobalStore("a", "out", lanes, 1, every)])
    assert [finding.kind.value for finding in one.findings.all()] == kinds_found
    assert buffers["out"].data.tolist() == [7] * 63 + [0]


@pytest.mark.parametrize(("waves", "lds_bytes"), [(0, 64), (33, 64), (1, 0), (1, 65_537)])
def test_a_block_that_cannot_be_is_refused(waves: int, lds_bytes: int) -> None:
    with pytest.raises(Refusal):
        block(waves, lds_bytes)
