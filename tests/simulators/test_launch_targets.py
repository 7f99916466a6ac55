"""Which target an instruction needs: a module for an older one is refused with the line, one for that target loads."""

import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device


def load(body: str, target: str, directives: str = "") -> None:
    Device(arch=target).load_ptx(f"""
.version 9.0
.target {target}
.address_size 64
.shared .align 128 .b8 s[1024];
.visible .entry k(.param .u64 a) {directives}
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<4>;
    {body}
    ret;
}}
""")


# instruction: (the newest target that lacks it, a target that has it)
NEEDED = {
    "wgmma.fence.sync.aligned;": ("sm_90", "sm_90a"),
    "setmaxnreg.inc.sync.aligned.u32 64;": ("sm_90", "sm_90a"),
    "setmaxnreg.dec.sync.aligned.u32 64; // on sm_120": ("sm_120", "sm_120a"),
    "elect.sync %r1|%p1, -1;": ("sm_89", "sm_90"),
    "barrier.cluster.arrive;": ("sm_89", "sm_90"),
    "mapa.shared::cluster.u32 %r1, s, 0;": ("sm_89", "sm_90"),
    "getctarank.shared::cluster.u32 %r1, s;": ("sm_89", "sm_90"),
    "isspacep.shared::cluster %p1, %d1;": ("sm_89", "sm_90"),
    "mov.u32 %r1, %cluster_ctarank;": ("sm_89", "sm_90"),
    "ld.shared::cluster.u32 %r1, [%r2];": ("sm_89", "sm_90"),
    "st.shared::cluster.u32 [%r2], %r1;": ("sm_89", "sm_90"),
    "ld.relaxed.cluster.global.u32 %r1, [%d1];": ("sm_89", "sm_90"),
    "griddepcontrol.wait;": ("sm_89", "sm_90"),
    "fence.proxy.async;": ("sm_89", "sm_90"),
    "fence.mbarrier_init.release.cluster;": ("sm_89", "sm_90"),
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};": ("sm_89", "sm_90"),
    "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;": ("sm_89", "sm_90"),
    "mbarrier.arrive.expect_tx.shared.b64 %d1, [%r1], 16;": ("sm_89", "sm_90"),
    "cp.async.bulk.commit_group;": ("sm_89", "sm_90"),
    "cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r2;": ("sm_86", "sm_89"),
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10},"
    " {%r1,%r2,%r3,%r4};": ("sm_86", "sm_89"),
    "add.rn.bf16 %h1, %h2, %h3;": ("sm_89", "sm_90"),
    "setp.lt.bf16 %p1, %h2, %h3;": ("sm_89", "sm_90"),
    "cvt.rn.bf16.u32 %h1, %r3;": ("sm_89", "sm_90"),
    "mov.u32 %r1, %aggr_smem_size;": ("sm_89", "sm_90"),
    "cvta.to.shared::cluster.u64 %d1, %d2;": ("sm_89", "sm_90"),
    "fence.acq_rel.cluster;": ("sm_89", "sm_90"),
}


@pytest.mark.parametrize("instruction", NEEDED)
def test_an_instruction_that_the_target_lacks_is_refused_with_its_line(instruction: str) -> None:
    lacks, has = NEEDED[instruction]
    load(instruction, has)
    with pytest.raises(Refusal, match=rf'at PTX line 12 needs sm_.* \(PTX ISA, ".*"\): the module is for {lacks}\n'):
        load(instruction, lacks)


def test_every_modelled_target_has_what_sm_80_has() -> None:
    body = """
        redux.sync.add.u32 %r1, %r2, -1;
        cp.async.commit_group;
        mbarrier.init.shared.b64 [%r1], 1;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];
        fma.rn.bf16 %h1, %h2, %h3, %h1;
        bar.sync 0;"""
    for number in (80, 86, 87, 89, 90, 100, 103, 110, 120, 121):
        load(body, f"sm_{number}")


def test_cluster_directives_need_a_target_with_clusters() -> None:
    load("", "sm_90", ".reqnctapercluster 2, 1, 1")
    with pytest.raises(Refusal, match=r"\.reqnctapercluster needs sm_90 or later, the module is for sm_89"):
        load("", "sm_89", ".reqnctapercluster 2, 1, 1")
