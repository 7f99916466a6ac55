"""Where shared memory lies: behind 0x400 as on hardware, or at any base that the declared alignments allow."""

import re
from typing import Any

import numpy as np
import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import SHARED_BASES, Device
from tileproof.simulators.ptx.findings import Report


def module(declarations: str, body: str) -> str:
    return f"""
.version 9.0
.target sm_90
.address_size 64
{declarations}
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [out];
    {body}
    ret;
}}
"""


def run(text: str, shared_bytes: int = 0, count: int = 1, **device: Any) -> tuple[Report, list[int]]:
    """The report, and the words that the kernel stored."""
    machine = Device(**device)
    out = machine.allocate((count,), np.uint32)
    report = machine.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(1, 1, 1), args=(out,), shared_bytes=shared_bytes)
    return report, out.download().tolist()


ADDRESSES = "mov.u32 %r1, a; mov.u32 %r2, b; mov.u32 %r3, c; st.global.v2.u32 [%d0], {%r1, %r2};"
THREE = (
    ".shared .align 4 .b8 a[12]; .shared .align 8 .b8 b[8]; .extern .shared .align {align} .b8 c[];",
    ADDRESSES + "st.global.u32 [%d0+8], %r3;",
)


@pytest.mark.parametrize("align", [1, 4, 16, 128, 1024])
@pytest.mark.parametrize("base", SHARED_BASES)
def test_variables_lie_at_their_alignment_from_the_base_on(base: int, align: int) -> None:
    text = module(THREE[0].replace("{align}", str(align)), THREE[1])
    report, addresses = run(text, 64, 3, shared_base=base)
    assert report.findings == []
    assert addresses == [base, base + 16, -(-(base + 24) // max(align, 16)) * max(align, 16)]


def test_the_default_base_is_that_of_hardware() -> None:
    assert run(module(THREE[0].replace("{align}", "16"), THREE[1]), 64, 3)[1] == [0x400, 0x410, 0x420]


@pytest.mark.parametrize(
    ("align", "dynamic", "total", "all_of_it"),
    [(4, 0, 128, 1072), (16, 100, 256, 1172), (128, 100, 256, 1252), (1024, 0, 1024, 2048), (1024, 100, 1152, 2148)],
)
def test_sizes_of_shared_memory_are_those_of_hardware(align: int, dynamic: int, total: int, all_of_it: int) -> None:
    declarations = f".shared .align 4 .b8 a[12]; .shared .align 8 .b8 b[20]; .extern .shared .align {align} .b8 c[];"
    body = """
        mov.u32 %r1, a; mov.u32 %r1, b; mov.u32 %r1, c;
        mov.u32 %r1, %total_smem_size; mov.u32 %r2, %aggr_smem_size; st.global.v2.u32 [%d0], {%r1, %r2};"""
    assert run(module(declarations, body), dynamic, 2)[1] == [total, all_of_it]


# A kernel that is right because of its declared alignment, and one that is right by luck of the default base.
SWIZZLED = ".extern .shared .align {align} .b8 c[];"
USE = """
    mov.u32 %r1, c;
    and.b32 %r2, %r1, 0x380;
    add.u32 %r1, %r1, %r2;
    st.shared.u32 [%r1+1020], %r1;
    ld.shared.u32 %r3, [%r1+1020];
    sub.u32 %r3, %r3, %r1;
    st.global.u32 [%d0], %r3;"""


def test_a_kernel_that_needs_more_alignment_than_it_declares_fails_at_another_base_only() -> None:
    declared, lucky = (module(SWIZZLED.replace("{align}", str(align)), USE) for align in (1024, 16))
    for base in SHARED_BASES:
        assert run(declared, 1024, shared_base=base)[0].findings == []
    assert run(lucky, 1024)[0].findings == []
    found = [bool(run(lucky, 1024, shared_base=base)[0].findings) for base in SHARED_BASES]
    assert found == [bool(base & 0x380) for base in SHARED_BASES]


def test_memory_outside_is_outside_at_every_base() -> None:
    text = module(".shared .align 4 .b8 a[16];", "st.shared.u32 [a+16], 1;\nst.shared.u32 [a+-4], 1;")
    for base in SHARED_BASES:
        report, _ = run(text, shared_base=base)
        assert [re.findall(r"byte offset (-?\d+)", f.message) for f in report.findings] == [["16"], ["-4"]]


@pytest.mark.parametrize("base", [0, 0x3F0, 0x408, 1 << 24])
def test_a_base_that_shared_memory_cannot_have_is_refused(base: int) -> None:
    with pytest.raises(Refusal, match=f"shared memory at 0x{base:x}"):
        Device(shared_base=base)


@pytest.mark.parametrize(
    ("arch", "most"), [("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_90", 227), ("sm_120", 99)]
)
def test_dynamic_shared_memory_goes_up_to_the_architectures_limit(arch: str, most: int) -> None:
    text = module(".extern .shared .align 16 .b8 c[];", "st.global.u32 [%d0], 1;").replace("sm_90", arch)
    assert run(text, most * 1024, arch=arch)[0].findings == []
    with pytest.raises(Refusal, match=rf"{arch} has {most * 1024} a block"):
        run(text, most * 1024 + 1, arch=arch)


def test_static_shared_memory_has_the_compilers_limit() -> None:
    assert run(module(".shared .align 4 .b8 a[49152];", "st.global.u32 [%d0], 1;"))[0].findings == []
    with pytest.raises(Refusal, match="declares 49156 bytes of static shared memory: the limit is 49152"):
        run(module(".shared .align 4 .b8 a[49156];", "st.global.u32 [%d0], 1;"))
