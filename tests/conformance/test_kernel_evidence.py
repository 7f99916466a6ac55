"""Evidence of hardware belongs to the PTX that ran: an edited kernel loses it, a renamed register does not."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_file import FILE, read_modules, write_modules
from tileproof.conformance.evidence.kernel_key import KernelKey, kernel_keys, parse_key
from tileproof.conformance.evidence.launched import launches
from tileproof.conformance.evidence.normal_ptx import ptx_digests
from tileproof.conformance.evidence.recordings import Confirmation, recordings
from tileproof.conformance.evidence.standing import Standing, lost_kernels, standing
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.kernels.compile import compile_source
from tileproof.kernels.fp8_quantize_rows import NAME, SOURCE
from tileproof.kernels.watch import watched
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
CASE = "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.f32/ties/0"
ENTRY = f"{NAME}_f32_vector"
INSTANCE = f"{NAME}/{ENTRY}"


def ptx() -> str:
    return compile_source(SOURCE, name=f"{NAME}.cu").ptx


def once(old: str, new: str) -> Callable[[str], str]:
    """Replace a text in the body of ENTRY, where it occurs."""

    def edit(text: str) -> str:
        head, name, rest = text.partition(f".entry {ENTRY}(")
        assert old in rest
        return head + name + rest.replace(old, new, 1)

    return edit


SAME: dict[str, Callable[[str], str]] = {
    "registers": lambda text: re.sub(r"%rd(\d+|<)", r"%other\1", text),
    "the numbers of registers": lambda text: re.sub(r"%f(\d+)", lambda m: f"%f{int(m[1]) + 7}", text).replace(
        "%f<", "%f<9"
    ),
    "labels": lambda text: text.replace("$L__BB", "$elsewhere_"),
    "parameters": lambda text: text.replace("_param_0", "_first"),
    "a comment": once("ret;", "ret; // the end\n/* and\nmore */"),
    "lines moved": lambda text: re.sub(r"\.loc\s+(\d+) (\d+)", lambda m: f".loc {m[1]} {int(m[2]) + 9}", text),
    "lines without their origin": lambda text: re.sub(r"(?m)^\s*\.loc\s.*$", "", text),
    "a label that nothing jumps to": once("ret;", "nowhere:\nret;"),
    "white space": lambda text: text.replace(", ", ",  \t"),
}
OTHER: dict[str, Callable[[str], str]] = {
    "an opcode": once("add.s64", "sub.s64"),
    "a type": once("setp.ge.s64", "setp.ge.u64"),
    "a constant": once("0f3F800000", "0f3F800001"),
    "a guard": once("@%p", "@!%p"),
    "an instruction less": once("cp.async.wait_group", "//"),
    "two operands exchanged": lambda text: re.sub(r"(div\.rn\.f32\s+%f\d+), (\S+), (\S+);", r"\1, \3, \2;", text),
    "threads of a block": once(".maxntid 256", ".maxntid 128"),
}


@pytest.mark.parametrize("name", SAME)
def test_a_kernel_keeps_its_digest_whatever_things_are_called(name: str) -> None:
    text = SAME[name](ptx())
    assert text != ptx()
    assert ptx_digests(text)[ENTRY] == ptx_digests(ptx())[ENTRY]


@pytest.mark.parametrize("name", OTHER)
def test_a_kernel_has_another_digest_with_another_instruction(name: str) -> None:
    assert ptx_digests(OTHER[name](ptx()))[ENTRY] != ptx_digests(ptx())[ENTRY]


def test_an_edited_kernel_loses_its_mark_until_it_runs_again() -> None:
    ran = Confirmation("NVIDIA H200", "cases.json", {INSTANCE: ptx_digests(ptx())[ENTRY]})

    def today(text: str) -> Standing:
        return standing([KernelKey(INSTANCE, ptx_digests(text)[ENTRY])], [ran])

    assert today(ptx()) is Standing.CONFIRMED
    assert {today(edit(ptx())) for edit in SAME.values()} == {Standing.CONFIRMED}
    assert {today(edit(ptx())) for edit in OTHER.values()} == {Standing.LOST}
    edited = OTHER["an opcode"](ptx())
    again = Confirmation("NVIDIA H200", "later.json", {INSTANCE: ptx_digests(edited)[ENTRY]})
    assert standing([KernelKey(INSTANCE, ptx_digests(edited)[ENTRY])], [ran, again]) is Standing.CONFIRMED
    assert lost_kernels([KernelKey(INSTANCE, "0")], [ran]) == (INSTANCE,)
    assert standing([KernelKey(INSTANCE, "0")], []) is Standing.NEVER


def test_all_kernels_of_a_case_must_be_confirmed_by_one_recording() -> None:
    both = [KernelKey("quantise/q", "1"), KernelKey("product/p", "2")]
    parts = [Confirmation("gpu", "a", {"quantise/q": "1"}), Confirmation("gpu", "b", {"product/p": "2"})]
    assert standing(both, parts) is Standing.LOST
    assert standing(both, [*parts, Confirmation("gpu", "c", {"quantise/q": "1", "product/p": "2"})]) == "confirmed"


def test_a_run_says_which_kernels_it_launched_and_asking_says_the_same() -> None:
    case = find_case(CASE)
    keys = run_case(case, Device()).kernels
    assert keys == (str(KernelKey(INSTANCE, ptx_digests(ptx())[ENTRY])),)
    assert tuple(map(str, launches([case], DryDevice())[case])) == keys
    device = DryDevice(read_modules(EVIDENCE / FILE))
    assert tuple(map(str, launches([case], device)[case])) == keys
    assert device.compiled == 0


def test_a_known_kernel_whose_source_has_changed_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / FILE
    text = (EVIDENCE / FILE).read_text()
    source = next(one for one in read_modules(EVIDENCE / FILE) if one.kernel == NAME).source
    path.write_text(text.replace(source, "0" * 16))
    device = DryDevice(read_modules(path))
    launches([find_case(CASE)], device)
    assert device.compiled == 1
    write_modules(path, device.modules.values())
    assert [one.source for one in read_modules(path)] == [source]


def test_an_operator_tells_of_all_its_launches() -> None:
    case = find_case("ninfer_linear/fp8_a8_gemm/fallback/T1.N1.K1/on-grid/0")
    keys = [parse_key(key).instance for key in run_case(case, Device()).kernels]
    assert keys == [
        "fp8_quantize_rows/fp8_quantize_rows_bf16_scalar",
        "fp8_a8_gemm_fallback<Linear>/fp8_a8_gemm_fallback",
    ]


def test_who_does_not_watch_is_told_nothing() -> None:
    with watched() as outer:
        with watched() as inner:
            pass
        run_case(find_case(CASE), Device())
    assert (len(outer), inner) == (2, [])
    assert kernel_keys(outer) == run_case(find_case(CASE), Device()).kernels


@pytest.mark.parametrize("text", ["", "no digest", "@", "a@", "@b"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="no key of a kernel"):
        parse_key(text)


@pytest.mark.parametrize("text", ["[]", "{}", '{"environment": {"gpu": 3}}', '{"environment": {"gpu": "g"}}', "{"])
def test_a_file_that_is_no_recording_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "h200-today"
    folder.mkdir()
    (folder / "cases.json").write_text(text)
    with pytest.raises(Refusal, match=r"cases\.json"):
        recordings(tmp_path)


def test_a_recording_that_names_its_kernels_confirms_those_alone(tmp_path: Path) -> None:
    folder = tmp_path / "h200-today"
    folder.mkdir()
    key = f"{INSTANCE}@12ab"
    recording = {"environment": {"gpu": "NVIDIA H200, sm_90"}, "launched": [{"kernels": [key], "cases": [CASE]}]}
    (folder / "confirmed.json").write_text(json.dumps(recording))
    assert recordings(tmp_path) == {
        CASE: (Confirmation("NVIDIA H200", "h200-today/confirmed.json", {INSTANCE: "12ab"}),)
    }


@pytest.mark.parametrize("kernel", ["fp8_quantize_rows", "fp8_scale_products", "int8_combine", "fp8_a8_gemm_fallback"])
def test_a_row_of_the_file_of_kernels_is_what_the_compiler_gives(kernel: str) -> None:
    from tileproof.kernels.source import kernel_text

    row = next(one for one in read_modules(EVIDENCE / FILE) if one.kernel == kernel)
    module = compile_source(kernel_text(kernel), name=f"{kernel}.cu", arch=row.arch, defines=row.defines)
    assert module.compiler == row.compiler
    assert dict(ptx_digests(module.ptx)) == dict(row.entries)


HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
WITH_VARIABLES = HEAD + (
    ".shared .align 4 .b32 A[4];\n.shared .align 4 .b32 B[4];\n"
    ".func (.param .b32 r) f() { .reg .b32 %r<3>; ld.shared.b32 %r1, [A]; st.param.b32 [r], %r1; ret; }\n"
    ".visible .entry k() { .reg .b32 %r<3>; mov.u32 %r1, 5; st.shared.b32 [A], %r1;\n"
    "{ .param .b32 q; call.uni (q), f, (); ld.param.b32 %r2, [q]; } st.shared.b32 [B], %r2; ret; }\n"
)
WITH_REGISTERS = HEAD + (
    ".func (.reg .b32 r) f(.reg .b32 x, .reg .b32 y) { sub.s32 r, x, y; ret; }\n"
    ".shared .align 4 .b32 A[4];\n.visible .entry k() { .reg .b32 %r<4>; mov.u32 %r1, 5; mov.u32 %r2, 7;\n"
    "call.uni (%r3), f, (%r1, %r2); st.shared.b32 [A], %r3; ret; }\n"
)


@pytest.mark.parametrize(
    ("text", "old", "new", "same"),
    [
        (WITH_VARIABLES, "%r1, [A]", "%r1, [B]", False),  # the function reads the kernel's other variable
        (WITH_VARIABLES, "A", "C", True),
        (WITH_REGISTERS, "b32 x, .reg .b32 y", "b32 y, .reg .b32 x", False),  # and takes the other way round
        (WITH_REGISTERS, "x", "z", True),
    ],
)
def test_a_function_that_is_called_with_other_things_makes_another_kernel(
    text: str, old: str, new: str, same: bool
) -> None:
    assert (ptx_digests(text.replace(old, new))["k"] == ptx_digests(text)["k"]) == same
