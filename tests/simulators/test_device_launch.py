"""Launches: arguments, shapes, limits, targets, waves, seeds, and sizes from nothing to very many."""

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report
from tileproof.simulators.ptx.machine.budget import StepBudgetExceeded

Extent = tuple[int, int, int]


def module(body: str, parameters: str = ".param .u64 out", directives: str = "", target: str = "sm_90") -> str:
    """A kernel; %r0 is the global thread index, %d0 is parameter `out`."""
    return f"""
.version 9.0
.target {target}
.address_size 64
.extern .shared .align 16 .b8 s[];
.visible .entry k({parameters})
{directives}
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r0, %r1, %r2, %r3;
    {body}
}}
"""


STORE = "mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0; st.global.u32 [%d1], %r0; ret;"


def launch(
    device: Device,
    text: str,
    args: Sequence[Any],
    grid: Extent = (1, 1, 1),
    block: Extent = (1, 1, 1),
    shared_bytes: int = 0,
) -> Report:
    return device.load_ptx(text)["k"].launch(grid=grid, block=block, args=args, shared_bytes=shared_bytes)


MANY = ".param .u64 out, .param .u8 a, .param .s16 b, .param .f32 c, .param .f64 d, .param .align 4 .b8 e[12]"


def test_every_argument_comes_through_at_its_offset() -> None:
    text = module(
        """
        ld.param.u8 %r4, [a];
        ld.param.s16 %r5, [b];
        ld.param.u32 %r6, [c];
        ld.param.u64 %d2, [d];
        ld.param.u32 %r7, [e+8];
        st.global.v4.u32 [%d0], {%r4, %r5, %r6, %r7};
        st.global.u64 [%d0+16], %d2;
        ret;""",
        MANY,
    )
    device = Device()
    out = device.allocate((6,), np.uint32)
    structure = np.array([(1, 2, 0xDEADBEEF)], "u4,u4,u4")[0]
    report = launch(device, text, (out, np.uint8(200), np.int16(-2), np.float32(1.5), np.float64(-2.0), structure))
    assert report.findings == []
    assert out.download()[:4].tolist() == [200, 0xFFFF_FFFE, 0x3FC0_0000, 0xDEAD_BEEF]
    assert out.download()[4:].view(np.float64)[0] == -2.0


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (1, np.uint16(7), r"argument 1 \(a\) has 2 bytes: the kernel declares 1 byte \(\.u8\)"),
        (1, 7, r"argument 1 \(a\) is a Python int, whose width is not known"),
        (3, 1.5, r"argument 3 \(c\) is a Python float"),
        (1, True, r"argument 1 \(a\) is a Python bool"),
        (3, np.int32(1), r"argument 3 \(c\) is a int32: the kernel declares 4 bytes \(\.f32\)"),
        (2, np.float16(1), r"argument 2 \(b\) is a float16: the kernel declares 2 bytes \(\.s16\)"),
        (5, np.zeros(12, np.uint8), r"argument 5 \(e\) is a numpy array, which lies in host memory"),
        (5, np.void(b"12345678"), r"argument 5 \(e\) has 8 bytes: the kernel declares 12 bytes \(\.b8\[12\]\)"),
        (0, np.uint32(0), r"argument 0 \(out\) has 4 bytes: the kernel declares 8 bytes \(\.u64\)"),
        (0, None, r"argument 0 \(out\) is a NoneType"),
        (0, "x", r"argument 0 \(out\) is a Python str"),
    ],
)
def test_arguments_of_another_width_or_type_are_refused(place: int, value: Any, said: str) -> None:
    device = Device()
    args = [
        device.allocate((6,), np.uint32),
        np.uint8(1),
        np.int16(1),
        np.float32(1),
        np.float64(1),
        np.void(bytes(12)),
    ]
    assert launch(device, module("ret;", MANY), args).findings == []
    args[place] = value
    with pytest.raises(Refusal, match=said):
        launch(device, module("ret;", MANY), args)


def test_a_wrong_number_of_arguments_is_refused() -> None:
    for args in ((), (np.uint64(0), np.uint64(0))):
        with pytest.raises(
            Refusal, match=rf"{len(args)} arguments: the kernel k takes 1\nhint: in order: out of 8 bytes"
        ):
            launch(Device(), module("ret;"), args)


def test_a_buffer_of_another_device_is_refused() -> None:
    here, there = Device(), Device()
    here.upload(np.zeros(4))
    foreign = there.upload(np.zeros(4))
    with pytest.raises(Refusal, match="belongs to another device"):
        launch(here, module("ret;"), (foreign,))
    with pytest.raises(Refusal, match="belongs to another device"):
        here.free(foreign)


def test_buffers_keep_shape_dtype_and_bits() -> None:
    device = Device()
    for array in (np.float32(3.5), np.zeros((0, 3), np.int8), np.arange(12, dtype=np.int16).reshape(3, 4).T, np.nan):
        buffer: Buffer = device.upload(np.asarray(array))
        assert buffer.shape == np.shape(array)
        assert buffer.download().tobytes() == np.ascontiguousarray(array).tobytes()
        assert buffer.written().all()
    assert device.allocate(5, np.float64).nbytes == 40
    with pytest.raises(Refusal, match="a length is negative"):
        device.allocate((2, -1), np.uint8)


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "said"),
    [
        ((0, 1, 1), (1, 1, 1), 0, r"grid \(0, 1, 1\)"),
        ((1, 65536, 1), (1, 1, 1), 0, r"grid \(1, 65536, 1\)"),
        ((2**31, 1, 1), (1, 1, 1), 0, r"grid \(2147483648, 1, 1\)"),
        ((1, 1, 1), (1025, 1, 1), 0, r"block \(1025, 1, 1\)"),
        ((1, 1, 1), (1, 1, 65), 0, r"block \(1, 1, 65\)"),
        ((1, 1, 1), (32, 33, 1), 0, "has 1056 threads, the limit is 1024"),
        ((1, 1, 1), (1, -1, 1), 0, r"block \(1, -1, 1\)"),
        ((1, 1, 1), (1, 1, 1), 227 * 1024 + 1, "sm_90a has 232448 a block"),
        ((1, 1, 1), (1, 1, 1), -1, "-1 of dynamic shared memory"),
    ],
)
def test_shapes_beyond_the_limits_are_refused(grid: Extent, block: Extent, shared_bytes: int, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        launch(Device(), module("ret;"), (np.uint64(0),), grid, block, shared_bytes)


@pytest.mark.parametrize(
    ("directive", "block", "fits"),
    [
        (".maxntid 64, 1, 1", (64, 1, 1), True),
        (".maxntid 64, 1, 1", (32, 2, 1), True),
        (".maxntid 64, 1, 1", (65, 1, 1), False),
        (".reqntid 64", (64, 1, 1), True),
        (".reqntid 64", (32, 2, 1), False),
        (".reqntid 64", (63, 1, 1), False),
        (".maxntid 64 .minnctapersm 2 .maxnreg 40", (64, 1, 1), True),
    ],
)
def test_the_block_sizes_that_a_kernel_was_compiled_for_are_kept(directive: str, block: Extent, fits: bool) -> None:
    text = module("ret;", directives=directive)
    if fits:
        assert launch(Device(), text, (np.uint64(0),), block=block).findings == []
    else:
        with pytest.raises(Refusal, match=r"was compiled with \.(max|req)ntid \(64, 1, 1\)"):
            launch(Device(), text, (np.uint64(0),), block=block)


@pytest.mark.parametrize(
    ("target", "arch", "runs"),
    [
        ("sm_80", "sm_90a", True),
        ("sm_90", "sm_90a", True),
        ("sm_90a", "sm_90a", True),
        ("sm_90a", "sm_90", False),
        ("sm_90a", "sm_100a", False),
        ("sm_90", "sm_120a", True),
        ("sm_100", "sm_90a", False),
        ("sm_100f", "sm_103a", True),
        ("sm_100f", "sm_120a", False),
    ],
)
def test_ptx_runs_on_the_architectures_that_its_target_allows(target: str, arch: str, runs: bool) -> None:
    text = module("ret;", target=target)
    if runs:
        assert launch(Device(arch=arch), text, (np.uint64(0),)).findings == []
    else:
        with pytest.raises(Refusal, match=f"PTX for {target} does not run on {arch}"):
            Device(arch=arch).load_ptx(text)


@pytest.mark.parametrize(
    "wrong",
    [{"grid": 1}, {"grid": (1.0, 1, 1)}, {"block": (32, True, 1)}, {"cluster": None}, {"shared_bytes": 16.0}],
    ids=str,
)
def test_a_shape_of_anything_but_whole_numbers_is_refused(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"grid": (1, 1, 1), "block": (np.int64(32), 1, 1), "args": (np.uint64(0),)}
    kernel = Device().load_ptx(module("ret;"))["k"]
    assert kernel.launch(**right).findings == []
    with pytest.raises(Refusal):
        kernel.launch(**{**right, **wrong})


@pytest.mark.parametrize(
    "wrong", [{"arch": None}, {"seed": -1}, {"seed": "a"}, {"seed": 1.5}, {"shared_base": "x"}, {"shared_base": 1040.0}]
)
def test_a_device_of_something_that_is_no_number_or_name_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        Device(**wrong)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(Refusal, match="unknown architecture 'sm_91'"):
        Device(arch="sm_91")
    with pytest.raises(Refusal, match="unknown schedule 'fair'"):
        Device(schedule="fair")


@pytest.mark.parametrize(("schedule", "blocks"), [("friendly", 100_000), ("adversarial", 30_000)])
def test_very_many_tiny_blocks_take_seconds(schedule: str, blocks: int) -> None:
    device = Device(schedule=schedule)
    out = device.allocate((blocks,), np.uint32)
    start = time.process_time()
    report = launch(device, module(STORE), (out,), grid=(blocks, 1, 1))
    assert time.process_time() - start < 20
    assert report.findings == []
    np.testing.assert_array_equal(out.download(), np.arange(blocks))


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_a_block_of_32_warps_with_all_shared_memory_takes_little_memory(schedule: str) -> None:
    body = """
        and.b32 %r4, %r0, 1023;
        mul.lo.u32 %r5, %r4, 227;
        mov.u32 %r6, s;
        add.u32 %r5, %r5, %r6;
        st.shared.u8 [%r5], %r4;
        st.shared.u8 [%r5+226], %r4;
        bar.sync 0;
        xor.b32 %r4, %r4, 1023;
        mul.lo.u32 %r5, %r4, 227;
        add.u32 %r5, %r5, %r6;
        ld.shared.u8 %r7, [%r5+226];"""
    store = "mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0; st.global.u32 [%d1], %r7; ret;"
    device = Device(schedule=schedule)
    out = device.allocate((4096,), np.uint32)
    tracemalloc.start()
    report = launch(device, module(body + store), (out,), (4, 1, 1), (1024, 1, 1), shared_bytes=227 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.findings == []
    np.testing.assert_array_equal(out.download(), np.tile(np.arange(1024)[::-1] & 255, 4))
    assert peak < 256 << 20, "and of that only the pages that are touched are taken"


def test_the_step_budget_is_for_one_wave() -> None:
    device = Device(step_budget=12)
    out = device.allocate((60_000,), np.uint32)
    assert launch(device, module(STORE), (out,), grid=(60_000, 1, 1)).findings == []
    with pytest.raises(StepBudgetExceeded):
        launch(Device(step_budget=11), module("add.u32 %r1, %r1, 1;" * 6 + STORE), (np.uint64(0),))


RECORD = """
    mov.u32 %r4, 1;
    atom.global.add.u32 %r5, [%d0], %r4;
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d1, %d1, %d0;
    st.global.u32 [%d1+4], %r5;
    ret;"""


def tickets(device: Device) -> tuple[int, ...]:
    """In which order the threads of a launch came to a counter."""
    out = device.upload(np.zeros(1 + 640, np.uint32))
    assert launch(device, module(RECORD), (out,), (10, 1, 1), (64, 1, 1)).findings == []
    result: list[int] = out.download()[1:].tolist()
    assert sorted(result) == list(range(640))
    return tuple(result)


def test_the_same_seed_gives_the_same_run_and_every_launch_its_own() -> None:
    first, again = Device(schedule="adversarial", seed=7), Device(schedule="adversarial", seed=7)
    runs = [tickets(first) for _ in range(3)]
    assert [tickets(again) for _ in range(3)] == runs
    assert len(set(runs)) == 3
    assert tickets(Device(schedule="adversarial", seed=8)) not in runs


def test_blocks_start_in_every_order_under_the_adversary_and_in_order_otherwise() -> None:
    assert tickets(Device()) == tuple(range(640))
    firsts = {tickets(Device(schedule="adversarial", seed=seed)).index(0) // 64 for seed in range(40)}
    assert len(firsts) > 5


def test_a_finding_is_the_same_on_every_replay_of_its_seed() -> None:
    def findings() -> Report:
        device = Device(schedule="adversarial", seed=3)
        body = "mov.u32 %r6, s; st.shared.u32 [%r6], %r0; ld.shared.u32 %r4, [%r6]; ret;"
        return launch(device, module(body), (np.uint64(0),), block=(128, 1, 1), shared_bytes=16)

    assert findings().findings == findings().findings
    assert {f.kind for f in findings().findings} == {FindingKind.RACE}


def test_counters_count_threads_and_bytes() -> None:
    device = Device()
    out = device.allocate((80,), np.uint32)
    counters = launch(device, module(STORE), (out,), (2, 1, 1), (40, 1, 1)).counters
    assert counters.global_bytes_written == 80 * 4
    assert counters.thread_instructions == 80 * 9
