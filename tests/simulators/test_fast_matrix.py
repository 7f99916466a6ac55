"""Matrix instructions in machine code: the bits, counters and findings of the reference engine, in every form."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.kernels.matrix_probe import probe_source
from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_tile import Major, tile_addresses
from tileproof.oracle.units.instruction import Family, Instruction, parse_instruction
from tileproof.oracle.units.unit_table import ENTRIES
from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.fast import lower_matrix
from tileproof.simulators.ptx.fast.layout import COLD, OP
from tileproof.simulators.ptx.fast.lower import lower
from tileproof.simulators.ptx.fast.matrix_layout import MN_MAJOR, OPERAND_WORDS, TILE_ROWS
from tileproof.simulators.ptx.fast.matrix_operand import chunk_address
from tileproof.simulators.ptx.fast.matrix_record import product_record
from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.machine import matrix
from tileproof.simulators.ptx.program import MATRIX_KINDS, Kind
from tileproof.simulators.ptx.text.parse import parse_module

Array = NDArray[Any]


def said(report: Report) -> tuple[object, ...]:
    """What both engines must say alike."""
    return report.findings, report.notes, report.counters


Calls = list[Kind]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The matrix steps that the reference handlers make."""
    made: Calls = []

    def counted(kind: Kind, handler: Any) -> Any:
        def call(*arguments: Any) -> None:
            made.append(kind)
            handler(*arguments)

        return call

    for kind, handler in matrix.MATRIX_HANDLERS.items():
        monkeypatch.setitem(matrix.MATRIX_HANDLERS, kind, counted(kind, handler))
    return made


def every_form() -> Iterator[Instruction]:
    """Every form of sm_90 that the probe can issue."""
    for entry in ENTRIES:
        if "sm_90" in entry.architectures and entry.family in (Family.MMA, Family.WGMMA):
            for instruction in entry.instructions():
                shape = instruction.shape
                if (shape.m, shape.n) in ((16, 8), (64, 8)) and instruction.accumulator != "f64":
                    yield instruction


def test_every_form_has_machine_code() -> None:
    forms = list(dict.fromkeys(every_form()))
    module = parse_module(compile_source(probe_source(forms), name="probe.cu").ptx)
    cold = set()
    for entry in module.entries.values():
        program = decode_entry(module, entry)
        for step, line in zip(program.steps, lower(program, "sm_90a").code, strict=True):
            if step.kind in MATRIX_KINDS - {Kind.WGMMA_ORDER} and line[OP] == COLD:
                cold.add(step.opcode)
    assert cold == set()
    assert len(forms) > 30


TRANSFERS = [
    (f"m8n8.{count}{trans}.shared.b16", f"m8n8.{count}{trans}.shared.b16", int(count[1]), int(count[1]), "sm_90a")
    for count in ("x1", "x2", "x4")
    for trans in ("", ".trans")
]
TRANSFERS += [
    ("m16n16.x1.trans.shared.b8", "m16n8.x2.trans.shared.b8", 2, 2, "sm_120a"),
    ("m16n16.x2.trans.shared.b8", "m16n8.x4.trans.shared.b8", 4, 4, "sm_120a"),
]


def transfer_ptx(load: str, store: str, loaded: int, stored: int, target: str) -> str:
    """Two warps: memory to registers by ldmatrix, turned by movmatrix, to other memory by stmatrix, all out."""
    x = [f"%x{i}" for i in range(4)]
    outs = "\n".join(f"st.global.u32 [%out+{256 * i}], {name};" for i, name in enumerate(x))
    back = "\n".join(
        f"ld.shared.u32 %v, [%put+{128 * i}]; st.global.u32 [%out+{1024 + 256 * i}], %v;" for i in range(4)
    )
    return f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .shared .align 128 .b8 memory[2048];
    .reg .b32 %t, %warp, %lane, %row, %get, %put, %v, %y, {", ".join(x)};
    .reg .b32 %w<4>;
    .reg .b64 %in, %out, %d;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %lane, %laneid;
    shr.u32 %warp, %t, 5;
    mul.wide.u32 %d, %t, 16;
    add.s64 %in, %in, %d;
    mul.wide.u32 %d, %t, 4;
    add.s64 %out, %out, %d;
    ld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%in];
    mov.u32 %get, memory;
    mad.lo.u32 %put, %t, 16, %get;
    st.shared.v4.u32 [%put], {{%w0, %w1, %w2, %w3}};
    st.shared.v4.u32 [%put+1024], {{%w3, %w2, %w1, %w0}};
    bar.sync 0;
    mad.lo.u32 %get, %warp, 512, %get;
    mad.lo.u32 %row, %lane, 5, %warp;
    and.b32 %row, %row, 31;
    mad.lo.u32 %row, %row, 16, %get;
    {" ".join(f"mov.u32 {name}, {i};" for i, name in enumerate(x))}
    ldmatrix.sync.aligned.{load} {{{", ".join(x[:loaded])}}}, [%row];
    movmatrix.sync.aligned.m8n8.trans.b16 %y, %x0;
    stmatrix.sync.aligned.{store} [%row+1024], {{{", ".join(["%y", *x[1:stored]])}}};
    bar.sync 0;
    mad.lo.u32 %put, %lane, 4, %get;
    add.u32 %put, %put, 1024;
    {outs}
    {back}
}}
"""


def run_transfer(text: str, arch: str, engine: str, **device: Any) -> tuple[Report, Array]:
    machine = Device(arch, engine=engine, order=False, **device)
    given = np.random.default_rng(3).integers(0, 1 << 32, 256, np.uint32)
    out = machine.upload(np.zeros(512, np.uint32))
    report = machine.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(64, 1, 1), args=(machine.upload(given), out))
    return report, out.download()


@pytest.mark.parametrize("form", TRANSFERS, ids=lambda form: f"{form[0]} {form[1]}")
@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), ("adversarial", 4)])
def test_transfers_are_those_of_the_reference(
    form: tuple[str, str, int, int, str], schedule: str, seed: int, calls: Calls
) -> None:
    text, arch = transfer_ptx(*form), form[-1]
    expected, words = run_transfer(text, arch, "reference", schedule=schedule, seed=seed)
    assert set(calls) == {Kind.MATRIX_LOAD, Kind.MATRIX_TRANSPOSE, Kind.MATRIX_STORE}
    calls.clear()
    report, result = run_transfer(text, arch, "fast", schedule=schedule, seed=seed)
    assert said(report) == said(expected)
    assert report.findings == []
    assert np.array_equal(result, words)
    assert calls == [] or schedule == "adversarial"  # parts of a warp that come apart meet in the reference engine


FAULTS = {
    "a row at no multiple of 16": ("mad.lo.u32 %row, %row, 16, %get;", "mad.lo.u32 %row, %row, 8, %get;"),
    "a row past the memory": ("mad.lo.u32 %row, %row, 16, %get;", "mad.lo.u32 %row, %row, 128, %get;"),
    "a row that nothing wrote": ("st.shared.v4.u32 [%put], {", "setp.ne.u32 %p, %t, 7; @%p st.shared.v4.u32 [%put], {"),
    "an address that nothing wrote": ("[%row];", "[%never];"),
    "two rows at one place": ("and.b32 %row, %row, 31;", "and.b32 %row, %row, 30;"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_transfer_is_found_alike(name: str, calls: Calls) -> None:
    right, wrong = FAULTS[name]
    text = transfer_ptx(*TRANSFERS[-3])
    assert right in text
    text = text.replace(right, wrong).replace(".reg .b32 %w<4>;", ".reg .b32 %w<4>, %never; .reg .pred %p;")
    expected, words = run_transfer(text, "sm_90a", "reference")
    report, result = run_transfer(text, "sm_90a", "fast")
    assert said(report) == said(expected)
    assert report.findings
    assert np.array_equal(result, words)


def test_a_tile_of_wgmma_runs_in_machine_code(calls: Calls) -> None:
    source = (Path(__file__).parents[2] / "benchmarks" / "kernels" / "e4m3_gemm_wgmma.cu").read_text()
    device = Device(order=False)
    codes, out = device.upload(np.zeros((128, 256), np.uint8)), device.allocate((128, 128), np.float32)
    function = device.load(compile_source(source, name="tile.cu"))["e4m3_gemm_wgmma"]
    args = (codes, codes, out, np.int32(128), np.int32(256))
    assert function.launch(grid=(1, 1, 1), block=(256, 1, 1), args=args).findings == []
    assert set(calls) == {Kind.WGMMA_ORDER}


def _addresses(record: Array, descriptor: int, count: int) -> Array:
    found = np.empty(count, np.int64)
    for chunk in range(count):
        found[chunk] = chunk_address(record, 0, descriptor, chunk)
    return found


_compiled_addresses: Any = numba.njit(_addresses)


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("major", list(Major))
def test_chunks_lie_where_the_descriptor_says(span: int, major: Major) -> None:
    random, record = np.random.default_rng(span), np.zeros(OPERAND_WORDS, np.int64)
    rows, step = 64, 8
    record[[TILE_ROWS, MN_MAJOR]] = rows, major is Major.MN
    for _ in range(20):
        start, leading, stride = (16 * random.integers(0, 1 << 10, 3)).tolist()
        base = int(random.integers(0, 8)) if span else 0
        descriptor = MatrixDescriptor(
            start=start, leading_bytes=leading, stride_bytes=stride, span_bytes=span, base_offset=base
        )
        elements = tile_addresses(descriptor, rows=rows, bits=16, major=major)
        expected = (elements[:, ::step] if major is Major.K else elements[::step].T).reshape(-1)
        bits = np.uint64(descriptor.encode()).astype(np.int64)
        assert np.array_equal(_compiled_addresses(record, bits, expected.size), expected)


def test_a_wrong_map_gives_wrong_products(monkeypatch: pytest.MonkeyPatch, calls: Calls) -> None:
    """The comparisons above see one element in another's place."""

    def wrong(product: Any, arch: str) -> Any:
        record = product_record(product, arch)
        assert record is not None
        record = record.copy()
        first = record[record[12] + 3]
        record[[first, first + 1]] = record[[first + 1, first]]
        kept.append(record)
        return record

    kept: list[Any] = []
    monkeypatch.setattr(lower_matrix, "product_record", wrong)
    instruction = parse_instruction("mma.m16n8k32.f32.e4m3.e4m3")
    codes = np.random.default_rng(0).integers(0, 0x70, (24, 32), np.uint8)
    results = []
    for engine in ("fast", "reference"):
        device = Device(engine=engine, order=False)
        source = probe_source([instruction]).replace("tiles", "tiles_")  # a text that no other test has lowered
        function = next(iter(device.load(compile_source(source, name="wrong.cu")).values()))
        out = device.upload(np.zeros((16, 8), np.float32))
        args = (device.upload(codes[:16]), device.upload(codes[16:]), device.upload(np.zeros((16, 8), np.float32)), out)
        function.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(*args, np.int32(1)))
        results.append(out.download())
    assert kept
    assert (results[0] != results[1]).any()
