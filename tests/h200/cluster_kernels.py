"""Kernels that store what their special registers hold and where their shared memory lies, as PTX for both devices."""

SPECIALS = (
    *(
        f"%{name}.{axis}"
        for name in ("ctaid", "cluster_ctaid", "clusterid", "cluster_nctaid", "nclusterid")
        for axis in "xyz"
    ),
    *(
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%nsmid",
        "%total_smem_size",
        "%dynamic_smem_size",
        "%aggr_smem_size",
        "%nwarpid",
    ),
)
# Registers that the simulator does not model: recorded only.
RECORDED = (
    "%nwarpid",
    "%aggr_smem_size",
    *(f"%reserved_smem_offset_{part}" for part in ("begin", "end", "cap", "0", "1")),
)
ADDRESSES = ("a", "b", "c")
QUESTIONS = (
    "mapa.shared::cluster.u32 %r, a, 0;",
    "mapa.shared::cluster.u32 %r, a, %last;",
    "mapa.shared::cluster.u32 %m, b, %last; getctarank.shared::cluster.u32 %r, %m;",
    "getctarank.shared::cluster.u32 %r, a;",
    *(
        f"mov.u64 %x, a; cvta.shared.u64 %x, %x; {change} isspacep.{space} %p, %x; selp.u32 %r, 1, 0, %p;"
        for space in ("shared::cta", "shared::cluster", "global", "local", "const")
        for change in ("", "mapa.u64 %x, %x, 0;")
    ),
    *(
        f"mov.b64 %x, out; cvta.param.u64 %x, %x; isspacep.{space} %p, %x; selp.u32 %r, 1, 0, %p;"
        for space in ("param", "global", "const")
    ),
    "mov.pred %p, %is_explicit_cluster; selp.u32 %r, 1, 0, %p;",
)
NAMES = (*SPECIALS, *ADDRESSES, *QUESTIONS)


def kernel(align: int, directives: str = "", *, recorded: bool = False) -> str:
    """One thread of every block stores the values of NAMES (or of RECORDED) to out[block]."""
    reads = [f"mov.u32 %r, {name};" for name in (RECORDED if recorded else (*SPECIALS, *ADDRESSES))]
    reads += () if recorded else QUESTIONS
    body = "\n".join(f"{read} st.global.u32 [%o+{4 * index}], %r;" for index, read in enumerate(reads))
    return f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 4 .b8 a[12];
.shared .align 8 .b8 b[20];
.extern .shared .align {align} .b8 c[];
.visible .entry k(.param .u64 out) {directives}
{{
    .reg .pred %p;
    .reg .b32 %r, %m, %last, %x0, %y0, %z0, %n, %block;
    .reg .b64 %o, %d, %x;
    ld.param.u64 %o, [out];
    mov.u32 %x0, %ctaid.x; mov.u32 %y0, %ctaid.y; mov.u32 %z0, %ctaid.z;
    mov.u32 %n, %nctaid.y; mad.lo.u32 %block, %z0, %n, %y0;
    mov.u32 %n, %nctaid.x; mad.lo.u32 %block, %block, %n, %x0;
    mul.wide.u32 %d, %block, {4 * len(reads)}; add.s64 %o, %o, %d;
    mov.u32 %last, %cluster_nctarank; sub.u32 %last, %last, 1;
    st.shared.u8 [a], 0; st.shared.u8 [b], 0;
    {body}
    ret;
}}
"""


PLAIN = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {directives} {{ ret; }}
"""
