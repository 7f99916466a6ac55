"""The order of a pipelined stage in assembly: proved for listings that have it, refuted for every single violation."""

import random
import re
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from tileproof.conformance import cli
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.isa.check import M3072, IsaReport, Requirement, check_listing
from tileproof.simulators.gfx928.isa.instruction import parse_instruction
from tileproof.simulators.gfx928.isa.stage_order import Rule, Sites

FOLDER = Path(__file__).parent / "listings"
ACCEPTED = (FOLDER / "accepted.s").read_text()
KERNEL = "ILi64ELb1E"

#: Written by hand, each with one thing wrong, and the rules that it breaks.
VIOLATIONS = {
    "wait_before_products": {Rule.NO_EARLY_WAIT},
    "wait_between_products": {Rule.NO_EARLY_WAIT},
    "no_vm_wait": {Rule.VM_WAIT},
    "weak_vm_wait": {Rule.VM_WAIT},
    "load_behind_products": {Rule.LOAD_FIRST},
    "write_before_products": {Rule.STORE_LAST},
    "no_lgkm_wait": {Rule.LGKM_WAIT},
    "no_barrier": {Rule.BARRIER},
    "barrier_in_comment": {Rule.BARRIER},
    "barrier_before_wait": {Rule.LGKM_WAIT},
    "load_commoned": {Rule.LOAD_SITES, Rule.CONSUMES},
    "load_dropped": {Rule.LOAD_SITES, Rule.STORE_SITES},
    "product_dropped": {Rule.PRODUCT_SITES},
    "other_register_written": {Rule.CONSUMES},
    "loaded_register_overwritten": {Rule.UNTOUCHED},
    "cache_modifier": {Rule.CACHE},
    "read_before_barrier": {Rule.BARRIER},
    "spilled": {Rule.FIGURES},
    "scratch_in_loop": {Rule.NO_SCRATCH, Rule.FIGURES},
    "more_registers": {Rule.FIGURES},
    "raw_load": {Rule.RAW},
}
RIGHT = ("accepted", "accepted_turned", "accepted_halves", "accepted_unrolled", "accepted_objdump")


def judge(name: str) -> IsaReport:
    return check_listing((FOLDER / f"{name}.s").read_text(), M3072, KERNEL)


@pytest.mark.parametrize("name", RIGHT)
def test_a_listing_in_the_required_order_is_proved(name: str) -> None:
    report = judge(name)
    assert report.proved, report.violations
    assert len(report.loop.stages) == (2 if name == "accepted_unrolled" else 1)


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_listing_with_one_violation_is_refuted_by_its_rule(name: str) -> None:
    assert {violation.rule for violation in judge(name).violations} == VIOLATIONS[name]


def test_every_listing_is_in_a_table_and_every_rule_has_a_listing_that_breaks_it() -> None:
    assert {path.stem for path in FOLDER.glob("*.s")} == {*VIOLATIONS, *RIGHT}
    assert set().union(*VIOLATIONS.values()) == set(Rule)
    assert len(VIOLATIONS) >= 10


def test_sites_and_figures_are_the_ones_of_the_accepted_kernel() -> None:
    report = judge("accepted")
    assert report.sites == {
        "ds_read_b64": 8,
        "ds_write_b128": 2,
        "global_load_dwordx4": 2,
        "v_mmac_i32_16x16x32_i8": 8,
    }
    figures = report.figures
    assert (figures.vgprs, figures.sgprs, figures.lds_bytes) == (63, 43, 16_384)
    assert (figures.scratch_bytes, figures.vgpr_spills, figures.sgpr_spills) == (0, 0, 0)


def loop_lines(text: str) -> tuple[list[str], list[str], list[str]]:
    """Before the loop's body, the body, from its branch on; without the marks of what was written by hand."""
    lines = [line for line in text.split("\n") if "#ASM" not in line]
    begin = next(i for i, line in enumerate(lines) if line.startswith(".LBB0_1:")) + 1
    end = next(i for i, line in enumerate(lines) if "s_cbranch" in line)
    return lines[:begin], lines[begin:end], lines[end:]


def test_deleting_any_one_load_product_wait_write_or_barrier_refutes_the_order() -> None:
    before, body, behind = loop_lines(ACCEPTED)
    words = ("global_load", "v_mmac", "vmcnt", "ds_write", "s_barrier")
    refuted = set()
    for number in range(len(body)):
        text = "\n".join([*before, *body[:number], *body[number + 1 :], *behind])
        if not check_listing(text, M3072).proved:
            refuted.add(number)
    assert refuted >= {number for number, line in enumerate(body) if any(word in line for word in words)}
    kept = [line.split()[0] for number, line in enumerate(body) if number not in refuted]
    # The wait for fragment reads is not this rule's; the one for LDS writes is among the refuted.
    assert kept.count("s_waitcnt") == 1
    assert not {"global_load_dwordx4", "ds_write_b128", "s_barrier"} & set(kept)


def test_of_all_orders_of_the_six_groups_only_the_required_circle_is_proved() -> None:
    before, body, behind = loop_lines(ACCEPTED)
    marks = ["ds_read_b64", "vmcnt(0)", "v_xor_b32_e32 v20", "lgkmcnt(0)", "s_barrier", "v_xor_b32_e32 v21"]
    cuts = [0]
    for mark in marks:
        skip = 1 if mark == "lgkmcnt(0)" else 0  # the first one is the fragments'
        cuts.append([i for i, line in enumerate(body) if mark in line][skip])
    groups = [body[begin:end] for begin, end in pairwise(cuts)]
    rest = body[cuts[-1] :]
    proved = []
    for order in permutations(range(6)):
        text = "\n".join([*before, *(line for i in order for line in groups[i]), *rest, *behind])
        if check_listing(text, M3072).proved:
            proved.append(order)
    assert sorted(proved) == sorted(tuple((first + i) % 6 for i in range(6)) for first in range(6))


def test_without_a_requirement_the_order_alone_is_judged() -> None:
    assert check_listing((FOLDER / "load_dropped.s").read_text()).proved
    assert check_listing((FOLDER / "more_registers.s").read_text()).proved
    assert not check_listing((FOLDER / "spilled.s").read_text()).proved
    assert not check_listing(ACCEPTED, Requirement(sites=Sites(loads=3))).proved


def edited(*changes: tuple[str, str]) -> str:
    text = ACCEPTED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


REFUSED = {
    "nothing": ("", "no metadata"),
    "no metadata": (ACCEPTED[: ACCEPTED.index("---")], "no metadata"),
    "no list": (edited(("amdhsa.kernels:", "amdhsa.others:")), "has no amdhsa.kernels"),
    "no count": (edited(("    .vgpr_count:     63\n", "")), ".vgpr_count is 'nothing'"),
    "no number": (edited((".vgpr_count:     63", ".vgpr_count:     -1")), ".vgpr_count is '-1'"),
    "a giant number": (edited((".vgpr_count:     63", ".vgpr_count:     " + "9" * 4000)), ".vgpr_count is"),
    "a wave of 32": (edited((".wavefront_size: 64", ".wavefront_size: 32")), "a wave of 32 lanes"),
    "a key without its dot": (edited(("    .vgpr_count:", "    vgpr_count:")), "no entry"),
    "a key without a value": (edited(("    .language:       OpenCL C", "    .language")), "no entry"),
    "a key twice": (edited(("    .language:", "    .vgpr_count: 1\n    .language:")), "there twice"),
    "another target": (edited(("amdhsa.target:   amdgcn-amd-amdhsa--gfx928", "amdhsa.target: x--gfx1100")), "gfx1100"),
    "a contradiction": (edited(("_size 16384", "_size 8192")), "the metadata says 16384"),
    "no end of metadata": (edited(("\n...\n", "\n")).replace("\t.end_amdgpu_metadata", ""), "does not end"),
    "no code": (edited((".name:           _Z20", ".name:           _Z21")), "has no code"),
    "no loop": (edited(("s_cbranch_scc1 .LBB0_1", "s_nop 0")), "loops with v_mmac_i32_16x16x32_i8: none"),
    "two loops": (
        edited(
            ("\tds_read_b64 v[60:61], v21\n\ts_waitcnt", "BB0_5:\n\tds_read_b64 v[60:61], v21\n\ts_waitcnt")
        ).replace("\ts_endpgm", "\ts_cbranch_scc0 BB0_5\n\ts_endpgm"),
        "lines",
    ),
    "a branch inside": (
        edited(("\tv_xor_b32_e32 v20", "\ts_cbranch_execz .LBB0_7\n.LBB0_7:\n\tv_xor_b32_e32 v20")),
        "straight line",
    ),
    "two ways to go on": (
        edited(
            ("\ts_cbranch_scc1 .LBB0_1", "\ts_cbranch_scc1 .LBB0_1\n\tds_read_b64 v[60:61], v21\n\ts_branch .LBB0_1")
        ),
        "several branches back",
    ),
    "an endless jump to itself": (edited(("\ts_endpgm", ".LBB0_8:\n\ts_branch .LBB0_1\n\ts_endpgm")), "several"),
    "a wait in numbers": (edited(("s_waitcnt vmcnt(0)", "s_waitcnt 0xf70")), "names no counters"),
    "a typing error": (edited(("s_barrier", "xs_barrier")), "no gfx9 instruction"),
    "registers beyond": (edited(("v[40:43]", "v[40:4300]")), "no registers"),
    "digits of another script": (edited(("v[40:43]", "v[４0:43]")), "no gfx9 instruction"),
    "a wait in such digits": (edited(("s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(٠)")), "no gfx9 instruction"),
    "an empty operand": (edited(("v[2:3], off", "v[2:3], , off")), "is empty"),
    "a block comment": (edited(("s_barrier", "/* s_barrier */")), "block comment"),
    "a NUL": (edited(("s_barrier", "s_barrier\0")), "control character 0x00"),
    "a terminal's escape": (edited(("s_barrier", "s_barrier ;\x1b[2J")), "control character 0x1b"),
    "a long line": (edited(("s_barrier", "s_barrier ;" + "x" * 5000)), "characters"),
    "a long text": (ACCEPTED + "\n" * (16 << 20), "characters"),
    "a symbol twice": (ACCEPTED + "\n" + ACCEPTED[: ACCEPTED.index("---")], "twice"),
    "a kernel twice": (edited(("    .language:", "    .language:")) + "\n---\n", "second block"),
    "a label twice": (edited(("; %bb.2:", ".LBB0_1:")), "there twice"),
    "hand-written without end": (edited(("\ts_endpgm", "\t;;#ASMSTART\n\ts_endpgm")), "does not end"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_text_that_cannot_be_judged_is_refused_by_name(name: str) -> None:
    text, word = REFUSED[name]
    with pytest.raises(Refusal, match=re.escape(word)) as refusal:
        check_listing(text, M3072)
    assert len(refusal.value.message) < 300


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("\tds_read_b64 v[60:61], v21\n\tds", "\tv_nop\n" * 5000 + "\tds", "instructions"),
        ("\ts_endpgm", "\ts_cbranch_scc0 .LBB0_1\n" * 300 + "\ts_endpgm", "loops that multiply"),
    ],
)
def test_a_text_made_to_take_long_is_refused(old: str, new: str, word: str) -> None:
    with pytest.raises(Refusal, match=word):
        check_listing(edited((old, new)), M3072)


@pytest.mark.parametrize(("left", "proved"), [(3, True), (2, True), (1, False), (0, False)])
def test_a_wait_that_leaves_the_loads_in_flight_is_no_early_wait(left: int, proved: bool) -> None:
    """A store stands before the two loads: vmcnt(2) waits for it alone, since memory returns in order."""
    lines = ACCEPTED.split("\n")
    load = next(i for i, line in enumerate(lines) if line.startswith(".LBB0_1:")) + 1
    product = next(i for i, line in enumerate(lines) if "v_mmac" in line) + 1
    lines.insert(product, f"\ts_waitcnt vmcnt({left})")
    lines.insert(load, "\tglobal_store_dword v[6:7], v99, off")
    report = check_listing("\n".join(lines), M3072)
    assert report.proved is proved
    assert {violation.rule for violation in report.violations} <= {Rule.NO_EARLY_WAIT}


def renamed(text: str) -> str:
    return text.replace(KERNEL, "ILi32ELb1E")


def two_kernels() -> str:
    """The accepted kernel, and before it one without its barrier, in one listing with one list of metadata."""
    other = renamed((FOLDER / "no_barrier.s").read_text())
    metadata = other[other.index("  - .args:") : other.index("amdhsa.target:")]
    return other[: other.index("\t.amdgpu_metadata")] + ACCEPTED.replace("  - .args:", f"{metadata}  - .args:", 1)


def test_of_two_kernels_the_one_that_is_named_is_judged() -> None:
    assert check_listing(two_kernels(), M3072, KERNEL).proved
    report = check_listing(two_kernels(), M3072, "ILi32ELb1E")
    assert {violation.rule for violation in report.violations} == {Rule.BARRIER}
    with pytest.raises(Refusal, match="names 2 kernels of 2"):
        check_listing(two_kernels(), M3072)


def test_a_loop_without_a_product_is_not_the_stage() -> None:
    loop = ".LBB0_6:\n\tds_write_b128 v20, v[40:43]\n\ts_cbranch_scc1 .LBB0_6\n.LBB0_1:"
    assert check_listing(edited((".LBB0_1:", loop)), M3072).proved


@pytest.mark.parametrize("name", RIGHT)
def test_the_stages_are_the_whole_loop_each_instruction_once(name: str) -> None:
    report = judge(name)
    lines = [instruction.line for stage in report.loop.stages for instruction in stage]
    assert len(lines) == len(set(lines))
    assert (min(lines), max(lines)) == (report.loop.first_line, report.loop.last_line)
    assert [stage[-1].mnemonic for stage in report.loop.stages] == ["s_barrier"] * len(report.loop.stages)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (";;#ASMSTART\n\ts_waitcnt vmcnt(0)", "v_add_u32_e32 v99, v45, v45\n\t;;#ASMSTART\n\ts_waitcnt vmcnt(0)"),
        (
            "v20, v[40:43]\n\tds_write_b128 v20, v[44:47] offset:4096\n\t;;",
            "v40, v[40:43]\n\tds_write_b128 v20, v[44:47]\n\t;;",
        ),
    ],
)
def test_a_loaded_register_that_is_used_or_is_an_address_is_touched(old: str, new: str) -> None:
    violations = check_listing(edited((old, new)), M3072).violations
    assert {violation.rule for violation in violations} == {Rule.UNTOUCHED}


@pytest.mark.parametrize(("word", "rule"), [("ds_write", Rule.STORE_SITES), ("global_load", Rule.LOAD_SITES)])
def test_a_stage_without_writes_or_loads_is_refuted_for_that_alone(word: str, rule: Rule) -> None:
    before, body, behind = loop_lines(ACCEPTED)
    text = "\n".join([*before, *(line for line in body if word not in line), *behind])
    assert {violation.rule for violation in check_listing(text, M3072).violations} == {rule}


IN_LOOP = "\tv_xor_b32_e32 v20, 0x2000, v20\n"
WRITES = "\tds_write_b128 v20, v[40:43]\n\tds_write_b128 v20, v[44:47] offset:4096\n\t;;#ASMSTART"
HALVES = (
    "\tds_write_b64 v20, v[40:41]\n\tds_write_b64 v20, v[42:43] offset:8\n"
    "\tds_write_b64 v20, v[44:45] offset:4096\n\tds_write_b64 v20, v[46:47] offset:4104\n\t;;#ASMSTART"
)
SIGNED_OFF = "\tv_mmac_i32_16x16x32_i8 v[80:83], v[60:61], v[64:65], v[80:83]\n\tglobal_store"


@pytest.mark.parametrize(
    ("requirement", "changes", "rules"),
    [
        (None, [(WRITES, HALVES)], set()),
        (
            None,
            [
                (WRITES, HALVES),
                ("\tds_write_b64 v20, v[42:43]", "\tv_mov_b32_e32 v43, 0\n\tds_write_b64 v20, v[42:43]"),
            ],
            {Rule.UNTOUCHED},
        ),
        (M3072, [(IN_LOOP, IN_LOOP + "\tv_mov_b32_e32 v[42], 0\n")], {Rule.UNTOUCHED}),
        (M3072, [(IN_LOOP, IN_LOOP + "\tglobal_load_dword v99, v[2:3], off\n")], {Rule.LOAD_SITES}),
        (M3072, [(IN_LOOP, IN_LOOP + "\tbuffer_load_dword v99, s[0:3], 0 offen lds\n")], {Rule.LOAD_SITES}),
        (M3072, [(IN_LOOP, IN_LOOP + "\tds_add_u32 v21, v22\n")], {Rule.STORE_SITES}),
        (M3072, [(IN_LOOP, IN_LOOP + "\tds_bpermute_b32 v98, v21, v22\n")], set()),
        (M3072, [(IN_LOOP, IN_LOOP + "\tds_write_b32 v21, v22 gds\n")], {Rule.STORE_SITES}),
        (M3072, [("v[4:5], off\n\tds_read", "v[4:5], off, glc\n\tds_read")], {Rule.CACHE}),
    ],
)
def test_what_stands_between_the_required_instructions_is_seen(
    requirement: Requirement | None, changes: list[tuple[str, str]], rules: set[Rule]
) -> None:
    assert {violation.rule for violation in check_listing(edited(*changes), requirement).violations} == rules


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (IN_LOOP, IN_LOOP + "\t.long 0x7e540280\n", "directive .long between instructions"),
        ("\ts_barrier\n\t;;#ASMEND", "\t.if 0\n\ts_barrier\n\t.endif\n\t;;#ASMEND", "directive .if between"),
        ("\t.text\n\t.amdgcn", "\t.macro s_barrier\n\t.endm\n\t.text\n\t.amdgcn", "directive .macro steers"),
        (
            "\ts_barrier\n\t;;#ASMEND",
            '\t.section .other,"",@progbits\n\ts_barrier\n\t.text\n\t;;#ASMEND',
            "s_barrier is in .other",
        ),
        (IN_LOOP, IN_LOOP + "\tv_lshlrev_b64 v[0x2a:0x2b], 1, v[0:1]\n", "registers written as v[0x2a:0x2b]"),
        (IN_LOOP, IN_LOOP + "\tv_lshlrev_b64 v[42: 43], 1, v[0:1]\n", "registers written as v[42: 43]"),
        (IN_LOOP, IN_LOOP + "\tv_lshlrev_b64 [v42,v43], 1, v[0:1]\n", "registers written as [v42"),
        (IN_LOOP, IN_LOOP + "\tv_mov_b32 v99, v [42:43]\n", "registers written as v"),
        (IN_LOOP, IN_LOOP + "\tv_mov_b32_e32 v99999, 0\n", "registers written as v99999"),
        (IN_LOOP, IN_LOOP + "\tv_movreld_b32_e32 v0, v1\n", "decided while it runs"),
        (IN_LOOP, IN_LOOP + "\t; note\r\tv_mov_b32_e32 v42, 0\n", "control character 0x0d"),
        ('"amdgcn-amd-amdhsa--gfx928"', '"amdgcn-amd-amdhsa--gfx1030"', "target amdgcn-amd-amdhsa--gfx1030"),
        ('"amdgcn-amd-amdhsa--gfx928"', '"amdgcn-amd-amdhsa--gfx906"', "gfx928 is another"),
        ("    .vgpr_count:", "    .uses_dynamic_stack: true\n    .vgpr_count:", "a dynamic stack"),
    ],
)
def test_a_text_of_which_another_one_is_assembled_is_refused(old: str, new: str, word: str) -> None:
    with pytest.raises(Refusal, match=re.escape(word)):
        check_listing(edited((old, new)), M3072)


def test_a_loop_that_is_left_and_entered_again_behind_its_barrier_is_refused() -> None:
    waits = "\t;;#ASMSTART\n\ts_waitcnt lgkmcnt(0)\n\ts_barrier\n\t;;#ASMEND\n"
    skipped = ((waits, f"\ts_cbranch_execz .LBB0_9\n{waits}.LBB0_5:\n"), (SIGNED_OFF, "\tglobal_store"))
    with pytest.raises(Refusal, match="the loop is entered here from line"):
        check_listing(edited(*skipped, ("\ts_endpgm", "\ts_endpgm\n.LBB0_9:\n\ts_branch .LBB0_5\n")), M3072)
    with pytest.raises(Refusal, match="the loop is entered here from line"):
        check_listing(edited(*skipped, ("\ts_endpgm", ".LBB0_9:\n\ts_branch .LBB0_5\n\ts_endpgm")), M3072)
    ends = (*skipped, ("\ts_endpgm", "\ts_endpgm\n.LBB0_9:\n\ts_endpgm\n"))
    assert check_listing(edited(*ends), M3072).proved


def test_an_outer_loop_and_a_jump_into_the_first_turn_are_no_second_order() -> None:
    outer = (("; %bb.0:", "; %bb.0:\n.LBB0_7:"), ("\ts_endpgm", "\ts_cbranch_scc0 .LBB0_7\n\ts_endpgm"))
    assert check_listing(edited(*outer, (SIGNED_OFF, "\tglobal_store")), M3072).proved
    jump = (("\n.LBB0_1:", "\n\ts_branch .LBB0_5\n.LBB0_1:"), ("\tv_xor_b32_e32 v21", ".LBB0_5:\n\tv_xor_b32_e32 v21"))
    assert check_listing(edited(*jump), M3072).proved


def test_a_branch_into_another_function_is_none_of_this_one() -> None:
    text = (FOLDER / "accepted_objdump.s").read_text()
    assert text.count("iii+0x58>") == 1
    with pytest.raises(Refusal, match="i8: none"):
        check_listing(text.replace("iii+0x58>", "other+0x58>"), M3072)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("amdgcn-amd-amdhsa--gfx928\namdhsa.v", "'amdgcn-amd-amdhsa--gfx928'\namdhsa.v"),
        ("\t.text\n\t.amdgcn", '\t.section .text.k,"axG",@progbits,k,comdat\n\t.amdgcn'),
        ("\t.text\n\t.amdgcn", "\t.section .rodata\nconstants:\n\t.long 5\n\t.text\n\t.amdgcn"),
        (IN_LOOP, IN_LOOP + ".Ltmp3:\n\t.loc\t1 7 9\n\t.p2align 6\n"),
    ],
)
def test_what_a_compiler_prints_beside_instructions_changes_nothing(old: str, new: str) -> None:
    assert check_listing(edited((old, new)), M3072).proved


def test_a_barrier_in_a_comment_is_pointed_out() -> None:
    assert "one behind ; in line 47 is a comment" in judge("barrier_in_comment").violations[0].message
    assert "comment" not in judge("no_barrier").violations[0].message


def test_a_wait_between_the_lds_writes_does_not_cover_the_last_one() -> None:
    before, body, behind = loop_lines(ACCEPTED)
    wait = [i for i, line in enumerate(body) if "lgkmcnt(0)" in line][-1]
    body[wait - 1], body[wait] = body[wait], body[wait - 1]
    violations = check_listing("\n".join([*before, *body, *behind]), M3072).violations
    assert {violation.rule for violation in violations} == {Rule.LGKM_WAIT}


def test_blank_lines_and_comments_in_the_metadata_are_passed_over() -> None:
    assert check_listing(edited(("    .language:", "\n    # a comment\n    .language:")), M3072).proved


def test_an_entry_beside_the_dash_is_read() -> None:
    moved = edited(("    .vgpr_count:     63\n", ""), ("  - .args:\n", "  - .vgpr_count:     63\n    .args:\n"))
    assert check_listing(moved, M3072).proved


def test_registers_in_a_message_are_named_from_first_to_last() -> None:
    messages = [violation.message for violation in judge("loaded_register_overwritten").violations]
    assert "touches v45 of line" in messages[0]
    assert "writes v48 .. v51, which no load filled" in judge("other_register_written").violations[0].message


def test_several_kernels_need_a_symbol_that_names_one() -> None:
    for symbol, word in (("ILi32ELb1E", "names 0 kernels"), (None, "")):
        if word:
            with pytest.raises(Refusal, match=word):
                check_listing(ACCEPTED, M3072, symbol)
        else:
            assert check_listing(ACCEPTED, M3072, symbol).proved


def test_a_listing_cut_at_any_line_is_refused() -> None:
    lines = ACCEPTED.rstrip("\n").split("\n")
    for count in range(len(lines) - 2):  # the last two end the metadata
        with pytest.raises(Refusal):
            check_listing("\n".join(lines[:count]), M3072)


def test_damaged_listings_are_judged_or_refused_and_nothing_else() -> None:
    draw = random.Random(928)
    refused = proved = 0
    for _ in range(600):
        text = list(ACCEPTED)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(text))
            text[place : place + draw.randint(0, 3)] = draw.choice(
                ["", ",", "[", ":", "9" * 30, "\t", "v", "\n", ";", "é"]
            )
        try:
            proved += check_listing("".join(text), M3072).proved
        except Refusal:
            refused += 1
    assert refused > 50
    assert proved > 50  # in comments, addresses and what the order does not depend on


def test_registers_are_seen_through_signs_and_bars() -> None:
    instruction = parse_instruction("v_fma_f32 v1, -v[2:3], |v9|, s4", 1, "", inline=False)
    assert instruction.every_register == {"v1", "v2", "v3", "v9"}


@pytest.mark.parametrize(("name", "code"), [("accepted", 0), ("accepted_objdump", 0), ("no_barrier", 1)])
def test_the_command_ends_with_0_for_proved_and_1_for_refuted(
    name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--loads", "2", "--products", "8", "--stores", "2", "--vgprs", "63", "--sgprs", "43", "--lds", "16384"]
    assert cli.main(["gfx928", "isa", str(FOLDER / f"{name}.s"), "--symbol", KERNEL, *options]) == code
    out = capsys.readouterr().out
    assert "63 VGPR, 43 SGPR, 16384 bytes of LDS" in out
    assert ("order    proved" in out) == (code == 0)
    if code:
        assert "a barrier ends the stage: the loop has no s_barrier" in out


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01\x01\xff\xfe", b"hello world\n", None])
def test_the_command_ends_with_2_for_what_it_cannot_judge(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "listing.s"
    if content is not None:
        file.write_bytes(content)
    assert cli.main(["gfx928", "isa", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "internal" not in captured.err
