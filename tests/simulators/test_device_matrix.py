"""`mma` and `wgmma` on the CPU device: what an H200 recorded, and what the oracle says of every other form."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.matrix_probe import MatrixProbe
from tileproof.oracle.fragments import find_fragments
from tileproof.oracle.matrix_unit import multiply_add
from tileproof.oracle.units.instruction import Family, Instruction, parse_instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES
from tileproof.oracle.units.unit_table import ENTRIES
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

Array = NDArray[Any]

GOLDEN = Path(__file__).parents[1] / "golden"
with np.load(GOLDEN / "h200_matrix_unit.npz") as file:
    RECORDED: dict[str, Array] = dict(file)
with np.load(GOLDEN / "h200_fragments.npz") as file:
    FRAGMENTS: dict[str, Array] = {name: array for name, array in file.items() if name.startswith("mma.")}
RECORDED_NAMES = sorted({name.rsplit(".", 1)[0] for name in RECORDED})


def instruction_of(name: str) -> Instruction:
    """Of a recording's name, such as "mma_m16n8k32_e4m3_e5m2"."""
    family, shape, a, b = name.split("_")
    return parse_instruction(f"{family}.{shape}.f32.{a}.{b}")


def probed() -> list[Instruction]:
    """Every form of sm_90 that the probe can issue."""
    found = [
        instruction
        for entry in ENTRIES
        if "sm_90" in entry.architectures and entry.family in (Family.MMA, Family.WGMMA)
        for instruction in entry.instructions()
        if (instruction.shape.m, instruction.shape.n) in ((16, 8), (64, 8)) and instruction.accumulator != "f64"
    ]
    return list(dict.fromkeys(found))


def bits(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


#: In machine code all of them run where order is not checked.
on_both_engines = pytest.mark.parametrize(
    "device", [{}, {"order": False}, {"engine": "reference"}], ids=["fast", "fast without order", "reference"]
)


@on_both_engines
@pytest.mark.parametrize("name", RECORDED_NAMES)
def test_a_kernel_that_issues_a_recorded_form_gives_the_recorded_bits(name: str, device: dict[str, Any]) -> None:
    a, b, c, d = (RECORDED[f"{name}.{part}"] for part in "ABCD")
    probe = MatrixProbe(Device(**device), [instruction_of(other) for other in RECORDED_NAMES])
    result = probe.run(instruction_of(name), a, b, c)
    assert np.array_equal(bits(result), bits(d))


def test_a_wrong_operand_does_not_give_the_recorded_bits() -> None:
    name = "wgmma_m64n8k32_e4m3_e4m3"
    a, b, c, d = (RECORDED[f"{name}.{part}"][:8] for part in "ABCD")
    probe = MatrixProbe(Device(), [instruction_of(name)])
    assert not np.array_equal(bits(probe.run(instruction_of(name), a[:, :, ::-1], b, c)), bits(d))


@pytest.mark.parametrize("seed", range(3))
def test_no_schedule_changes_a_product(seed: int) -> None:
    names = ("mma_m16n8k16_bf16_bf16", "wgmma_m64n8k32_e5m2_e5m2")
    probe = MatrixProbe(Device(schedule="adversarial", seed=seed), [instruction_of(name) for name in names])
    for name in names:
        a, b, c, d = (RECORDED[f"{name}.{part}"][:13] for part in "ABCD")
        assert np.array_equal(bits(probe.run(instruction_of(name), a, b, c)), bits(d))


@on_both_engines
def test_every_form_of_sm_90_gives_the_oracles_bits(device: dict[str, Any]) -> None:
    chosen, random = probed(), np.random.default_rng(1)
    probe = MatrixProbe(Device(**device), chosen)
    for instruction in chosen:
        shape = instruction.shape
        a, b = (
            random.integers(0, 256, (5, rows, shape.k * operand.code_dtype.itemsize), np.uint8).view(operand.code_dtype)
            for operand, rows in ((instruction.a, shape.m), (instruction.b, shape.n))
        )
        c = random.integers(-9, 10, (5, shape.m, shape.n)).astype(ACCUMULATOR_DTYPES[instruction.accumulator])
        expected = multiply_add(instruction.name, a, b, c, arch="sm_90a", assembler="13.0")
        assert np.array_equal(bits(probe.run(instruction, a, b, c)), bits(expected)), instruction.name
    assert len(chosen) > 30


def mma_ptx(form: str, instruction: Instruction, target: str) -> str:
    """One warp: registers of A, B and C from memory, D to memory."""
    fragments = find_fragments(instruction.name)
    assert fragments.b is not None
    counts = [fragments.a.registers, fragments.b.registers, fragments.c.registers]
    names = [[f"%{part}{index}" for index in range(count)] for part, count in zip("abc", counts, strict=True)]
    every = [name for part in names for name in part]
    width = fragments.a.register_bits
    pitch = 4 * width  # bytes of one register of all lanes
    loads = "\n".join(f"ld.global.u{width} {name}, [%p0+{pitch * index}];" for index, name in enumerate(every))
    stores = "\n".join(f"st.global.u{width} [%p1+{pitch * index}], %d{index};" for index in range(counts[2]))
    d = [f"%d{index}" for index in range(counts[2])]
    a, b, c, d_list = ("{" + ", ".join(part) + "}" for part in (*names, d))
    return f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{{
    .reg .b32 %t;
    .reg .b{width} {", ".join((*every, *d))};
    .reg .b64 %p<3>;
    ld.param.u64 %p0, [x];
    ld.param.u64 %p1, [y];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %p2, %t, {width // 8};
    add.s64 %p0, %p0, %p2;
    add.s64 %p1, %p1, %p2;
    {loads}
    mma.sync.aligned.{form} {d_list}, {a}, {b}, {c};
    {stores}
}}
"""


def run_mma(device: Device, form: str, instruction: Instruction, words: Array, target: str) -> tuple[Array, Report]:
    """Registers of D [32, registers] of the registers of A, B and C [32, registers]."""
    function = device.load_ptx(mma_ptx(form, instruction, target))["k"]
    registers = find_fragments(instruction.name).c.registers
    out = device.allocate((registers, 32), words.dtype)
    given = device.upload(np.ascontiguousarray(words.T))
    report = function.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(given, out))
    return out.download().T, report


FORMS = sorted(name[4:-3] for name in FRAGMENTS if name.endswith(".in"))


@on_both_engines
@pytest.mark.parametrize("form", [form for form in FORMS if not re.search(r"\.(s4|b1)\.", form)])
def test_registers_of_mma_hold_what_an_h200_recorded(form: str, device: dict[str, Any]) -> None:
    shape, _, _, accumulator, a, b, _ = form.split(".")
    instruction = parse_instruction(f"mma.{shape}.{accumulator}.{a}.{b}")
    words, expected = FRAGMENTS[f"mma.{form}.in"], FRAGMENTS[f"mma.{form}.out"]
    c = np.zeros((32, expected.shape[1]), np.uint32)
    result, report = run_mma(Device(**device), form, instruction, np.concatenate([words, c], axis=1), "sm_90")
    assert report.findings == []
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("form", [form for form in FORMS if re.search(r"\.(s4|b1)\.", form)])
def test_types_without_a_model_are_refused_by_name(form: str) -> None:
    text = mma_ptx("m16n8k32.row.col.s32.s8.s8.s32", parse_instruction("mma.m16n8k32.s32.s8.s8"), "sm_90")
    with pytest.raises(NotModelled, match=r"mma\.sync\.aligned\S* at PTX line"):
        Device().load_ptx(text.replace("m16n8k32.row.col.s32.s8.s8.s32", form))


def random_registers(instruction: Instruction, seed: int) -> tuple[Array, Array, Array, Array]:
    """A, B, C, and their registers side by side."""
    fragments, random, shape = find_fragments(instruction.name), np.random.default_rng(seed), instruction.shape
    assert fragments.b is not None
    assert instruction.a.record is not None
    assert instruction.b.record is not None
    a = random.integers(0, 1 << instruction.a.record.bits, (shape.m, shape.k)).astype(np.uint8)
    b = random.integers(0, 1 << instruction.b.record.bits, (shape.n, shape.k)).astype(np.uint8)
    a, b = (np.where(x & 0x7F == 0x7F, 0, x).astype(np.uint8) for x in (a, b))
    c = random.normal(0, 100, (shape.m, shape.n)).astype(np.float32)
    words = (fragments.a.gather(a), fragments.b.gather(b), fragments.c.gather(c))
    return a, b, c, np.concatenate(words, axis=1)


def test_one_text_gives_each_architectures_bits() -> None:
    instruction = parse_instruction("mma.m16n8k32.f32.e4m3.e4m3")
    a, b, c, words = random_registers(instruction, 3)
    results = {}
    for arch in ("sm_89", "sm_90", "sm_120"):
        form = "m16n8k32.row.col.f32.e4m3.e4m3.f32"
        result, report = run_mma(Device(arch), form, instruction, words, "sm_89")
        assert report.findings == []
        results[arch] = find_fragments(instruction.name).c.scatter(np.ascontiguousarray(result), np.float32)
        expected = multiply_add(instruction.name, a, b, c, arch=arch, assembler="13.0")
        assert np.array_equal(bits(results[arch]), bits(expected))
    assert not np.array_equal(results["sm_89"], results["sm_90"])


@pytest.mark.parametrize("types", ["e4m3.e2m1", "e3m2.e2m3", "e5m2.e4m3"])
def test_narrow_codes_of_kind_f8f6f4_are_found_in_their_bytes(types: str) -> None:
    instruction = parse_instruction(f"mma.m16n8k32.kind::f8f6f4.f32.{types}")
    a, b, c, words = random_registers(instruction, 4)
    form = f"kind::f8f6f4.m16n8k32.row.col.f32.{types}.f32"
    result, report = run_mma(Device("sm_120a"), form, instruction, words, "sm_120a")
    assert report.findings == []
    expected = multiply_add(instruction.name, a, b, c, arch="sm_120a", assembler="13.0")
    d = find_fragments(instruction.name).c.scatter(np.ascontiguousarray(result), np.float32)
    assert np.array_equal(bits(d), bits(expected))


@on_both_engines
@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
def test_doubles_are_multiplied_as_the_oracle_does(shape: str, device: dict[str, Any]) -> None:
    instruction = parse_instruction(f"mma.{shape}.f64.f64.f64")
    fragments, random = find_fragments(instruction.name), np.random.default_rng(8)
    assert fragments.b is not None
    a, b, c = (random.normal(0, 9, (f.rows, f.columns)) for f in (fragments.a, fragments.b, fragments.c))
    words = (fragments.a.gather(bits(a)), fragments.b.gather(bits(b)), fragments.c.gather(bits(c)))
    form = f"{shape}.row.col.f64.f64.f64.f64"
    result, report = run_mma(Device(**device), form, instruction, np.concatenate(words, axis=1), "sm_90")
    assert report.findings == []
    expected = multiply_add(instruction.name, bits(a), bits(b), c, arch="sm_90", assembler="13.0")
    assert np.array_equal(fragments.c.scatter(np.ascontiguousarray(result)), bits(expected))


def test_an_architecture_whose_unit_is_not_known_is_refused() -> None:
    text = mma_ptx("m16n8k16.row.col.f32.f16.f16.f32", parse_instruction("mma.m16n8k16.f32.f16.f16"), "sm_90")
    with pytest.raises(NotModelled, match=r"mma\.sync\S* at PTX line \d+.*sm_103"):
        Device("sm_103").load_ptx(text)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".row.col", ".col.col"),
        (".sync.aligned", ".sync"),
        ("m16n8k16", "m16n8k32"),
        (".f32 {", ".f16 {"),
        (", {%b0, %b1}", ", {%b0}"),
        (".f32 {", ".unheard {"),
    ],
)
def test_other_forms_of_mma_are_refused_by_name(right: str, wrong: str) -> None:
    text = mma_ptx("m16n8k16.row.col.f32.f16.f16.f32", parse_instruction("mma.m16n8k16.f32.f16.f16"), "sm_90")
    assert right in text
    with pytest.raises(NotModelled, match=r"mma\.\S* at PTX line"):
        Device().load_ptx(text.replace(right, wrong))


TAINTED = {
    # Lane 4 holds row 1 of A in register 0; row 9 is in register 1.
    "%a0": {0: {4, 5, 6, 7}, 1: {4, 5, 6, 7}},
    "%a1": {2: {4, 5, 6, 7}, 3: {4, 5, 6, 7}},
    # Lane 4 holds column 1 of B: registers 1 and 3 of thread 0 of every group.
    "%b1": {1: set(range(0, 32, 4)), 3: set(range(0, 32, 4))},
    "%c3": {3: {4}},
}


@pytest.mark.parametrize("register", TAINTED)
def test_a_register_that_nothing_wrote_taints_what_depends_on_it(register: str) -> None:
    name = "mma.m16n8k32.f32.e4m3.e4m3"
    text = mma_ptx("m16n8k32.row.col.f32.e4m3.e4m3.f32", parse_instruction(name), "sm_90")
    text = text.replace(
        "ld.param.u64 %p0", ".reg .pred %q; mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 4;\nld.param.u64 %p0"
    )
    text = text.replace(f"ld.global.u32 {register}", f"@%q ld.global.u32 {register}")
    device = Device()
    given, out = device.upload(np.zeros((10, 32), np.uint32)), device.allocate((4, 32), np.uint32)
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(32, 1, 1), args=(given, out))
    assert {finding.kind for finding in report.findings} == {FindingKind.UNINITIALISED}
    lines = text.splitlines()
    found = {}
    for finding in report.findings:
        stored = re.search(r"%d(\d)", lines[finding.where.ptx_line - 1])
        assert stored is not None
        found[int(stored[1])] = {thread.thread[0] for thread in finding.threads}
        assert finding.count == len(found[int(stored[1])])
    assert found == TAINTED[register]


def test_bits_that_tf32_does_not_read_may_be_undefined() -> None:
    """`or` with a register that nothing wrote, cut to its low bits, leaves these undefined."""
    text = mma_ptx("m16n8k8.row.col.f32.tf32.tf32.f32", parse_instruction("mma.m16n8k8.f32.tf32.tf32"), "sm_90")
    for bits_read, findings in ((0x1FFF, 0), (0x3FFF, 2)):
        taint = f".reg .b32 %u; and.b32 %u, %u, {bits_read}; or.b32 %a0, %a0, %u;\n    mma.sync"
        device = Device()
        given, out = device.upload(np.zeros((10, 32), np.uint32)), device.allocate((4, 32), np.uint32)
        kernel = device.load_ptx(text.replace("mma.sync", taint))["k"]
        report = kernel.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(given, out))
        assert len(report.findings) == findings
