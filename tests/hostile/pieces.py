"""What hostile texts are patched with: numbers at limits, words of PTX in the wrong place, garbage."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


NUMBERS = (
    *_words("""
    0 1 -1 2 3 7 8 31 32 33 63 64 127 128 255 256 257 1023 1024 65535 65536 2147483647 2147483648 4294967295
    4294967296 9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551615 18446744073709551616
    0x7fffffffffffffff 0xffffffffffffffff 0f7fc00000 0d7ff8000000000000 1e999 0b1 00
    """),
    "1" + "0" * 400,
    "0x" + "f" * 100,
)
TYPES = (
    *(f".{kind}{bits}" for kind in "busf" for bits in (8, 16, 32, 64, 128)),
    *_words(".pred .f16x2 .bf16 .bf16x2 .e4m3 .e5m2x2 .tf32 .b1024 .v2 .v4 .v8 .v16"),
)
SPACES = _words(".global .shared .shared::cta .shared::cluster .local .const .param .reg .generic")
WORDS = _words("""
    .sync .aligned .acquire .release .relaxed .volatile .weak .cta .cluster .gpu .sys .sat .rn .rz .ftz .approx .cc
    .hi .lo .wide .uni .x4 .x2 .trans .noinc .m8n8 .m16n8k32 .m64n8k32 .m64n256k32 .5d .2d .tile .async .bulk
    .bulk_group .expect_tx .parity .noComplete .add .cas .exch .inc .min .idx .reduce .arrive
    """)
DIRECTIVES = _lines(
    """
    .maxntid 1
    .maxntid 0, 0, 0
    .reqntid 64
    .minnctapersm 9
    .maxnreg 24
    .maxnreg 0
    .reqnctapercluster 2
    .reqnctapercluster 1000000000, 4, 4
    .explicitcluster
    .maxclusterrank 0
    .pragma "x";
    .shared .b8 wide[1099511627776];
    .local .b8 deep[1099511627776];
    .local .align 1048576 .b8 far[8];
    .shared .align 1048576 .b8 far[16];
    .reg .b64 %many<100000>;
    .reg .b32 %more<4294967296>;
    .local .b8 l[100000];
    .file 1 "/etc/passwd"
    .loc 1 1 1
    .loc 999 1 1, function_name $L, inlined_at 1 1 1
    .section .debug_str { .b8 1 }
    .target sm_20
    .target sm_999a
    .version 99.99
    .address_size 32
    .entry k()
    .func f()
    .extern .func g();
    @@DWARF x
    .branchtargets A, B;
    .callprototype _ ();
    .alias a, b;
    .extern .shared .b8 dyn[];
    """
)
# Filled with registers, numbers, labels and other names of the text.
LINES = _lines("""
    bra LABEL;
    @%p0 bra LABEL;
    call NAME;
    call (REG), NAME, (REG, REG);
    brx.idx REG, LABEL;
    LABEL: bra LABEL;
    trap;
    exit;
    ret;
    bar.sync NUMBER;
    bar.sync REG, NUMBER;
    bar.arrive 0, NUMBER;
    ld.global.v4.u32 {REG, REG, REG, REG}, [REG+NUMBER];
    st.global.u64 [NUMBER], REG;
    ld.shared.u8 REG, [NUMBER];
    st.shared.v4.u32 [REG+NUMBER], {REG, REG, REG, REG};
    st.local.u32 [NUMBER], REG;
    ld.const.u64 REG, [NUMBER];
    ld.param.u64 REG, [REG+NUMBER];
    atom.global.add.u32 REG, [REG], REG;
    atom.shared.cas.b64 REG, [NUMBER], REG, REG;
    shfl.sync.idx.b32 REG, REG, NUMBER, NUMBER, NUMBER;
    vote.sync.all.pred %p0, %p0, NUMBER;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {REG, REG, REG, REG}, [REG+NUMBER];
    mov.b64 REG, NUMBER;
    mbarrier.init.shared.b64 [REG+NUMBER], NUMBER;
    mbarrier.arrive.shared.b64 REG, [REG], NUMBER;
    cp.async.cg.shared.global [REG], [REG], 16, NUMBER;
    cp.async.bulk.global.shared::cta.bulk_group [REG], [REG], NUMBER;
    mapa.shared::cluster.u32 REG, REG, NUMBER;
    setmaxnreg.inc.sync.aligned.u32 NUMBER;
    nanosleep.u32 NUMBER;
    { .reg .b32 %q<NUMBER>; }
    .local .b8 aNUMBER[NUMBER];
    mov.u32 REG, %tid.x;
    fence.sc.sys;
    griddepcontrol.wait;
    wgmma.wait_group.sync.aligned NUMBER;
    cp.async.wait_group NUMBER;
    bfe.u64 REG, REG, NUMBER, NUMBER;
    shl.b64 REG, REG, NUMBER;
    cvta.to.shared.u64 REG, REG;
    div.s32 REG, REG, NUMBER;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mul.hi.s64 REG, REG, NUMBER;
    rem.u64 REG, REG, NUMBER;
    """)
GARBAGE = (
    *(
        "\0",
        "\ufeff",
        "\udcff",
        "é",
        "\U0001f4a3",
        "\x1b[2J",
        "\r",
        "\v",
        "\x85",
        "/*",
        "*/",
        "//",
        '"',
        "\\",
        "#",
        "`",
        "^",
    ),
    *_words("{ } ( ) [ ] < > ; : , @ @! ! | _ $ % + - .. :: ? %% {0} {0.__class__} %s%n $(id)"),
    *_words("__import__ os.system eval"),
    *("{" * 70, "(" * 300, "-" * 3000, "~" * 3000, "}" * 300, "a" * 100_000, "." * 5000, "1+" * 3000 + "1"),
    *("%r1," * 3000, "{%r1," * 100, "L:" * 300),
)
