"""Order between blocks: fences, flags, scopes, release sequences."""

from order_pair import Pair

from tileproof.simulators.ptx.findings import FindingKind

#: Thread 0 of block 0 writes out[0] and sets the flag out[512]; thread 0 of block 1 waits for the flag and reads.
MESSAGE = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; setp.eq.u32 %p2, %r1, 0; @!%p2 bra READ;
    st.global.u32 [%d1], 42; WRITE ret;
    READ: FLAG setp.eq.u32 %p3, %r3, 0; @%p3 bra READ; ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+4], %r4; ret;
"""


def message(write: str, flag: str) -> str:
    return MESSAGE.replace("WRITE", write).replace("FLAG", flag)


RELAXED = "st.relaxed.gpu.global.u32 [%d1+2048], 1;"
POLL = "ld.relaxed.gpu.global.u32 %r3, [%d1+2048];"

#: Every block adds up; the last one to come reads what the others left.
ELECTION = """
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d4, %d1; mov.u32 %r9, tile;
    PARTIAL @%p0 atom.global.inc.u32 %r2, [%d1+2048], 3; @%p0 st.shared.u32 [tile], %r2; bar.sync 0;
    ld.shared.u32 %r2, [tile]; setp.ne.u32 %p2, %r2, 3; @%p2 ret; LAST ld.global.u32 %r4, [%d3_];
    st.global.u32 [%d2+4096], %r4; ret;
"""


def election(partial: str, last: str) -> str:
    read = "and.b32 %r5, %r0, 3; mul.wide.u32 %d5, %r5, 4; add.s64 %d5, %d5, %d1; " + last
    return ELECTION.replace("PARTIAL", partial).replace("LAST", read).replace("%d3_", "%d5")


#: Three blocks hand a sum on through one flag each, with one fence a link.
CHAIN = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d4, %d1; setp.eq.u32 %p2, %r1, 0;
    @%p2 bra GO;
    WAIT: ld.relaxed.gpu.global.u32 %r3, [%d4+2044]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT;
    LINK setp.ne.u32 %p4, %r1, 2; @%p4 bra PASS; ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+64], %r4; ret;
    PASS: st.relaxed.gpu.global.u32 [%d4+2048], 1; ret;
    GO: st.global.u32 [%d1], 7; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d4+2048], 1; ret;
"""

#: The same inside one block: thread 0 and thread 32.
INSIDE = """
    setp.eq.u32 %p2, %r0, 32; @%p2 bra READ; @!%p0 ret; st.global.u32 [%d1], 42; WRITE ret;
    READ: FLAG setp.eq.u32 %p3, %r3, 0; @%p3 bra READ; ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+4], %r4; ret;
"""


def inside(write: str, flag: str) -> str:
    return INSIDE.replace("WRITE", write).replace("FLAG", flag)


#: Thread 0 of block 1 comes later than thread 0 of block 0, and nothing orders them.
LATER = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; setp.eq.u32 %p2, %r1, 0; @!%p2 bra POLL;
    FIRST st.relaxed.gpu.global.u32 [%d1+2048], 1; ret;
    POLL: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra POLL; THEN ret;
"""


def later(first: str, then: str) -> str:
    return LATER.replace("FIRST", first).replace("THEN", then)


#: Of four blocks, which come one after the other, the one that counts last takes the counter back; or the third one
#: writes what it has counted.
COUNTED = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret;
    WAIT: ld.relaxed.gpu.global.u32 %r3, [%d1+2052]; setp.ne.u32 %p4, %r3, %r1; @%p4 bra WAIT;
    atom.global.add.u32 %r2, [%d1+2048], 1; setp.eq.u32 %p3, %r2, 2;
    ||@%p3 st.relaxed.gpu.global.u32 [%d1+2048], 3;|
    add.u32 %r3, %r3, 1; st.relaxed.gpu.global.u32 [%d1+2052], %r3;
    setp.ne.u32 %p2, %r2, 3; @%p2 ret; st.global.u32 [%d1+2048], 0; ret;
"""

#: Block 0 adds, then thread 0 of block 1, then thread 32 of block 1 with the scope of its block.
NARROW = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @!%p2 bra SECOND;
    @%p0 red.relaxed.gpu.global.add.u32 [%d1], 1; @%p0 st.relaxed.gpu.global.u32 [%d1+2048], 1; ret;
    SECOND: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p2, %r3, 0; @%p2 bra SECOND;
    @%p0 red.relaxed.gpu.global.add.u32 [%d1], 1; |bar.sync 0;||
    setp.eq.u32 %p3, %r0, 32; @%p3 red.relaxed.cta.global.add.u32 [%d1], 1; ret;
"""

#: Block 1 comes after block 0's release and before block 2's acquire of one place; it does not acquire itself.
HANDED_ON = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; setp.eq.u32 %p2, %r1, 0; @%p2 bra GO; setp.eq.u32 %p2, %r1, 1; @%p2 bra MIDDLE;
    LAST: ld.relaxed.gpu.global.u32 %r3, [%d1+2056]; setp.eq.u32 %p3, %r3, 0; @%p3 bra LAST;
    ld.acquire.gpu.global.u32 %r3, [%d1+2048]; ld.global.u32 %r4, [%d1]; ret;
    MIDDLE: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra MIDDLE;
    HAND st.relaxed.gpu.global.u32 [%d1+2056], 1; ret;
    GO: st.global.u32 [%d1], 7; st.release.gpu.global.u32 [%d1+2048], 1; ret;
"""


def handed_on(hand: str) -> str:
    return HANDED_ON.replace("HAND", hand)


#: Three blocks hand data on, and the middle one has no fence.
UNFENCED_MIDDLE = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; setp.eq.u32 %p2, %r1, 0; @%p2 bra GO; setp.eq.u32 %p2, %r1, 1; @%p2 bra MIDDLE;
    LAST: ld.relaxed.gpu.global.u32 %r3, [%d1+2056]; setp.eq.u32 %p3, %r3, 0; @%p3 bra LAST;
    THEN ld.global.u32 %r4, [%d1]; ret;
    MIDDLE: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra MIDDLE;
    HAND.gpu.global.u32 [%d1+2056], 1; ret;
    GO: st.global.u32 [%d1], 7; FIRST.gpu.global.u32 [%d1+2048], 1; ret;
"""

#: Threads 0 and 32 add up, one after the other; thread 64 comes when both have, with a fence of block scope.
ADDED_UP = """
    setp.eq.u32 %p2, %r0, 32; setp.eq.u32 %p3, %r0, 64; @%p3 bra R; @%p2 bra S; @!%p0 ret;
    FIRST.gpu.global.add.u32 [%d1+2048], 1; ret;
    S: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p4, %r3, 0; @%p4 bra S;
    SECOND.gpu.global.add.u32 [%d1+2048], 1; ret;
    R: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.ne.u32 %p4, %r3, 2; @%p4 bra R; fence.acq_rel.cta;
    ld.global.u32 %r4, [%d1]; ret;
"""


def added_up(first: str, second: str) -> str:
    return ADDED_UP.replace("FIRST", first).replace("SECOND", second)


#: Blocks 0 and 1 each publish a word; block 2 goes on.
GATHERED = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 2; mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d4, %d1;
    setp.eq.u32 %p4, %r0, 32; setp.eq.u32 %p5, %r0, 64; setp.ge.u32 %p6, %r0, 64; @%p2 bra B; @!%p0 ret;
    st.global.u32 [%d4], 1; PUBLISH ret; B:
"""
READ_BOTH = "ld.global.u32 %r4, [%d1]; ld.global.u32 %r5, [%d1+4]; ret;"


def polled(label: str, form: str, offset: int) -> str:
    """Until a flag is there."""
    return f"{label}: ld.{form}.gpu.global.u32 %r3, [%d1+{offset}]; setp.eq.u32 %p3, %r3, 0; @%p3 bra {label};"


#: Block 0 adds and hands over, thread 0 of block 1 adds, then thread 32 of block 1 with the scope of its block.
BESIDE = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @!%p2 bra SECOND;
    @%p0 red.relaxed.gpu.global.add.u32 [%d1], 1; bar.sync 0; @%p0 st.release.gpu.global.u32 [%d1+2048], 1; ret;
    SECOND: @!%p0 bra OTHER;
    WAIT: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p2, %r3, 0; @%p2 bra WAIT;
    red.relaxed.gpu.global.add.u32 [%d1], 1; st.release.cta.global.u32 [%d1+2052], 1; ret;
    OTHER: setp.eq.u32 %p3, %r0, 32; @!%p3 ret;
    FLAG: ld.|acquire|relaxed|.cta.global.u32 %r3, [%d1+2052]; setp.eq.u32 %p2, %r3, 0; @%p2 bra FLAG;
    red.relaxed.cta.global.add.u32 [%d1], 1; ret;
"""

PAIRS: dict[str, Pair] = {
    "an atomic of a smaller scope beside one that is ordered": Pair(BESIDE, kind=FindingKind.SCOPE, blocks=2),
    "an atomic comes after what it reads": Pair(
        later(
            "red.relaxed.gpu.global.add.u32 [%d1], 1;",
            "|atom.relaxed.gpu.global.add.u32 %r5, [%d1], 1;|st.relaxed.gpu.global.u32 [%d1], 1;|"
            "st.global.u32 [%d1], 0;",
        ),
        blocks=2,
    ),
    "a counter that the last one takes back": Pair(COUNTED, blocks=4),
    "what an atomic read, by a thread that does not know it": Pair(NARROW, kind=FindingKind.SCOPE, blocks=2),
    "fence before a flag": Pair(
        message("|fence.acq_rel.gpu;||" + RELAXED, POLL + "fence.acq_rel.gpu;"), "orders the two blocks", blocks=2
    ),
    "fence behind a flag": Pair(
        message("fence.acq_rel.gpu;" + RELAXED, POLL + "|fence.acq_rel.gpu;||"), "orders the two blocks", blocks=2
    ),
    "scope of a fence": Pair(
        message("fence.acq_rel.|gpu|cta|;" + RELAXED, POLL + "fence.acq_rel.gpu;"),
        "does not reach", FindingKind.SCOPE, blocks=2,
    ),
    "one-sided fences": Pair(
        message("fence.|release|acquire|.gpu;" + RELAXED, POLL + "fence.acquire.gpu;"), "orders the two", blocks=2
    ),
    "release and acquire": Pair(
        message(
            "st.|release|relaxed|.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"
        ),
        "orders the two", blocks=2,
    ),
    "acquire, not relaxed": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", "ld.|acquire|relaxed|.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2,
    ),
    "scope of a release": Pair(
        message("st.release.|gpu|cta|.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        kind=FindingKind.SCOPE, blocks=2,
    ),
    "volatile flag behind membar": Pair(
        message("|membar.gl;||st.volatile.global.u32 [%d1+2048], 1;",
            "ld.volatile.global.u32 %r3, [%d1+2048]; membar.gl;",
        ),
        "orders the two", blocks=2,
    ),
    "a release before a relaxed store of one place": Pair(
        message("st.|release|relaxed|.gpu.global.u32 [%d1+2048], 0;" + RELAXED, POLL + "fence.acq_rel.gpu;"),
        "orders the two", blocks=2,
    ),
    "a red does not publish without a fence": Pair(
        message("|fence.acq_rel.gpu;||red.global.add.u32 [%d1+2048], 1;", POLL + "fence.acq_rel.gpu;"),
        "orders the two", blocks=2,
    ),
    "first fence of an election": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; |membar.gl;||", "membar.gl;"), "orders the two", blocks=4
    ),
    "second fence of an election": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; membar.gl;", "|membar.gl;||"), "orders the two", blocks=4
    ),
    "fences across the barrier must be sequential": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; membar.gl;", "|membar.gl;|fence.acq_rel.gpu;|"), "orders", blocks=4
    ),
    "all fence, one arrives": Pair(
        election(
            "setp.eq.u32 %p5, %r0, 33; @%p5 st.global.u32 [%d4], %r1; |membar.gl;|| bar.sync 0;", "membar.gl;"
        ),
        "orders the two", blocks=4,
    ),
    "one fence a link": Pair(CHAIN.replace("LINK", "|fence.acq_rel.gpu;||"), "orders the two", blocks=3),
    "scope of an acquiring fence": Pair(
        message("fence.acq_rel.gpu;" + RELAXED, POLL + "fence.acq_rel.|gpu|cta|;"),
        "does not reach", FindingKind.SCOPE, blocks=2,
    ),
    "scope of a flag": Pair(
        message("fence.acq_rel.gpu;" + RELAXED.replace("gpu", "|gpu|cta|"), POLL + "fence.acq_rel.gpu;"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "scope of an acquire": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.|gpu|cta|.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "a fence of the system's scope": Pair(
        message("|fence.acq_rel.sys;||" + RELAXED, POLL + "fence.acq_rel.sys;"), "orders the two", blocks=2
    ),
    "a fence for a smaller scope": Pair(
        inside("|fence.acq_rel.gpu;||st.relaxed.cta.global.u32 [%d1+2048], 1;",
            "ld.relaxed.cta.global.u32 %r3, [%d1+2048]; fence.acq_rel.cta;"),
        "with no barrier between",
    ),
    "a flag of a larger scope than the fence": Pair(
        inside("|fence.acq_rel.cta;||" + RELAXED, POLL + "fence.acq_rel.cta;"), "with no barrier between",
    ),
    "release and acquire of block scope": Pair(
        inside("st.|release|relaxed|.cta.global.u32 [%d1+2048], 1;", "ld.acquire.cta.global.u32 %r3, [%d1+2048];"),
        "with no barrier between",
    ),
    "a flag in shared memory": Pair(
        inside("|fence.acq_rel.cta;||st.relaxed.cta.shared.u32 [tile], 1;",
            "ld.relaxed.cta.shared.u32 %r3, [tile]; fence.acq_rel.cta;").replace(
            "setp.eq", "@%p0 st.shared.u32 [tile], 0; bar.sync 0; setp.eq", 1),
        "with no barrier between",
    ),
    "data after a fence": Pair(
        message("fence.acq_rel.gpu; ||st.global.u32 [%d1], 43;|" + RELAXED, POLL + "fence.acq_rel.gpu;"),
        "orders the two", blocks=2,
    ),
    "data after a release": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1; ||st.global.u32 [%d1], 43;|",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2,
    ),
    "data after a releasing atomic": Pair(
        message("red.release.gpu.global.add.u32 [%d1+2048], 1; ||st.global.u32 [%d1], 43;|",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2,
    ),
    "an atomic that releases": Pair(
        message("atom.|release|relaxed|.gpu.global.add.u32 %r2, [%d1+2048], 1;",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2,
    ),
    "an atomic that acquires": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;",
            "atom.|acquire|relaxed|.gpu.global.or.b32 %r3, [%d1+2048], 0;"),
        "orders the two", blocks=2,
    ),
    "a red never acquires": Pair(
        later("st.global.u32 [%d1], 1; st.release.gpu.global.u32 [%d1+64], 1;",
            "|atom.global.add.u32 %r4,|red.global.add.u32| [%d1+64], 1; fence.acq_rel.gpu; ld.global.u32 %r4, [%d1];"),
        "orders the two", blocks=2,
    ),
    "a compare-and-swap that fails does not release": Pair(
        later("st.global.u32 [%d1], 1; atom.release.gpu.global.cas.b32 %r4, [%d1+64], |0|5|, 1;",
            "ld.acquire.gpu.global.u32 %r4, [%d1+64]; ld.global.u32 %r4, [%d1];"),
        "orders the two", blocks=2,
    ),
    "scope of a release before a relaxed store of one place": Pair(
        message("st.release.|gpu|cta|.global.u32 [%d1+2048], 0;" + RELAXED, POLL + "fence.acq_rel.gpu;"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "an acquire behind a relaxed read of one place": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", POLL).replace(
            "@%p3 bra READ;", "@%p3 bra READ; st.relaxed.gpu.global.u32 [%d1+2048], 2;"
            "ld.acquire.gpu.global.u32 %r3, [%d1+|2048|2052|];"),
        "orders the two", blocks=2,
    ),
    "scope of an acquire behind a relaxed read of one place": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", POLL).replace(
            "@%p3 bra READ;", "@%p3 bra READ; st.relaxed.gpu.global.u32 [%d1+2048], 2;"
            "ld.acquire.|gpu|cta|.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", blocks=2,
    ),
    "a chain through an atomic": Pair(
        handed_on("red.relaxed.|gpu|cta|.global.add.u32 [%d1+2048], 1; red.global.add.u32 [%d1+2048], 1;"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=3,
    ),
    "no chain through a store": Pair(
        handed_on("|red.relaxed.gpu.global.add.u32|st.relaxed.gpu.global.u32| [%d1+2048], 1;"),
        "ld.global.u32 reads", blocks=3,
    ),
    "no chain through an atomic of another size": Pair(
        handed_on("red.relaxed.gpu.global.add.|u32|u64| [%d1+2048], 1;"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=3,
    ),
    "a plain store where nothing was released": Pair(
        message("st.|release|relaxed|.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];")
        .replace("ld.global.u32 %r4", "st.global.u32 [%d1+64], 5; red.relaxed.gpu.global.add.u32 [%d1+64], 1;"
            "ld.global.u32 %r4"),
        "orders the two", blocks=2,
    ),
    "a plain store ends a release": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1; ||st.global.u32 [%d1+2048], 2;|",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", blocks=2,
    ),
    "an atomic that releases and acquires": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; bar.sync 0;", "").replace("atom.", "atom.|acq_rel|acquire|.gpu."),
        "orders the two", blocks=4,
    ),
    "an atomic that acquires as well": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; bar.sync 0;", "").replace("atom.", "atom.|acq_rel|release|.gpu."),
        "orders the two", blocks=4,
    ),
    "scope of the first sequential fence": Pair(
        election(
            "setp.eq.u32 %p5, %r0, 33; @%p5 st.global.u32 [%d4], %r1; membar.|gl|cta|; bar.sync 0;", "membar.gl;"
        ),
        "orders the two", blocks=4,
    ),
    "scope of the second sequential fence": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; membar.gl;", "membar.|gl|cta|;"), "does not reach",
        FindingKind.SCOPE, blocks=4,
    ),
    "lanes of one atomic do not learn from each other": Pair(
        "setp.gt.u32 %p2, %r0, 1; @%p2 ret; @%p0 st.global.u32 [%d1], 1; |bar.warp.sync 3;||"
        "atom.acq_rel.gpu.global.add.u32 %r2, [%d1+64], 1; @!%p0 ld.global.u32 %r3, [%d1]; ret;",
        "__syncwarp() is missing",
    ),
    "acquired, then a barrier": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @!%p2 bra B; @!%p0 ret; st.global.u32 [%d1], 1;"
        "st.release.gpu.global.u32 [%d1+2048], 1; ret; B: @!%p0 bra J;"
        "W: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W; J: |bar.sync 0;||"
        "setp.eq.u32 %p4, %r0, 32; @%p4 ld.global.u32 %r4, [%d1]; ret;",
        "orders the two", blocks=2,
    ),
    "a releasing fence behind a flag": Pair(
        message("fence.acq_rel.gpu;" + RELAXED, POLL + "fence.|acquire|release|.gpu;"), "orders the two", blocks=2
    ),
    "scope of a store after a release of one place": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 0; st.relaxed.|gpu|cta|.global.u32 [%d1+2048], 1;",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "a fence of block scope behind a flag of GPU scope": Pair(
        inside("fence.acq_rel.gpu;" + RELAXED, POLL + "|fence.acq_rel.cta;||"), "with no barrier between"
    ),
    "acquired, then an mbarrier": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @!%p2 bra B; @!%p0 ret; st.global.u32 [%d1], 1;"
        "st.release.gpu.global.u32 [%d1+2048], 1; ret; B: @%p0 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;"
        "@!%p0 bra J; W: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W;"
        "|mbarrier.arrive.shared::cta.b64 _, [bar];|mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];|"
        "J: mbarrier.try_wait.parity.shared::cta.b64 %p5, [bar], 0; @!%p5 bra J; bar.warp.sync -1;"
        "setp.eq.u32 %p4, %r0, 32; @%p4 ld.global.u32 %r4, [%d1]; ret;",
        "orders the two", blocks=2,
    ),
    "acquired, then bar.arrive": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @!%p2 bra B; @!%p0 ret; st.global.u32 [%d1], 1;"
        "st.release.gpu.global.u32 [%d1+2048], 1; ret; B: @!%p1 bra R; @!%p0 bra J;"
        "W: ld.|acquire|relaxed|.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W;"
        "J: bar.warp.sync -1; bar.arrive 1, 64; ret; R: bar.sync 1, 64; setp.eq.u32 %p4, %r0, 32;"
        "@%p4 ld.global.u32 %r4, [%d1]; ret;",
        "orders the two", blocks=2,
    ),
    "releases add up": Pair(
        added_up("st.global.u32 [%d1], 1; red.|release|relaxed|", "red.release"), "ld.global.u32 reads", threads=96
    ),
    "a later release adds to an earlier one": Pair(
        added_up("red.release", "st.global.u32 [%d1], 1; red.|release|relaxed|"), "ld.global.u32 reads", threads=96
    ),
    "and what it knows of another block": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 1; @!%p2 bra A;"
        "@!%p0 ret; st.global.u32 [%d1], 1; st.release.gpu.global.u32 [%d1+2056], 1; ret; A:"
        + added_up("red.release", "T: ld.|acquire|relaxed|.gpu.global.u32 %r3, [%d1+2056]; setp.eq.u32 %p4, %r3, 0;"
            "@%p4 bra T; red.release"),
        "orders the two", threads=96, blocks=2,
    ),
    "releases of two blocks add up": Pair(
        GATHERED.replace("PUBLISH", "red.|release|relaxed|.gpu.global.add.u32 [%d1+2048], 1;")
        + "@!%p0 ret; P: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.ne.u32 %p3, %r3, 2; @%p3 bra P;" + READ_BOTH,
        "orders the two", blocks=3,
    ),
    "relaxed reads of two places, then an acquire of one": Pair(
        GATHERED.replace("PUBLISH", "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d4+2048], 1;")
        + "@!%p0 ret;" + polled("P", "relaxed", 2048) + polled("Q", "relaxed", 2052)
        + "st.relaxed.gpu.global.u32 [%d1+2052], 2; ld.|acquire|relaxed|.gpu.global.u32 %r3, [%d1+2052];"
        "ld.global.u32 %r4, [%d1+4]; ret;",
        "orders the two", blocks=3,
    ),
    "relaxed reads of two places, then an acquire of one, in one block": Pair(
        "setp.eq.u32 %p4, %r0, 32; setp.eq.u32 %p5, %r0, 64; or.pred %p6, %p0, %p4; @%p5 bra B; @!%p6 ret;"
        "st.global.u32 [%d2], 1; fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%d2+2048], 1; ret; B:"
        + polled("P", "relaxed", 2048) + polled("Q", "relaxed", 2176)
        + "st.relaxed.gpu.global.u32 [%d1+2176], 2; ld.|acquire|relaxed|.gpu.global.u32 %r3, [%d1+2176];"
        "ld.global.u32 %r4, [%d1+128]; ret;",
        "with no barrier between", threads=96,
    ),
    "a release hands on what was acquired before it": Pair(
        GATHERED.replace(
            "PUBLISH", "st.release.gpu.global.u32 [%d4+2048], 1; st.release.gpu.global.u32 [%d4+2064], 1;")
        + "@%p4 bra S; @!%p0 ret;" + polled("P", "acquire", 2048) + polled("Q", "|acquire|relaxed|", 2052)
        + "st.release.cta.global.u32 [%d1+2080], 1;" + polled("T", "acquire", 2064)
        + "st.relaxed.gpu.global.u32 [%d1+2084], 1; ret; S:" + polled("U", "relaxed", 2084)
        + "ld.acquire.cta.global.u32 %r3, [%d1+2080];" + READ_BOTH,
        "orders the two", blocks=3,
    ),
    "what two threads acquired, through an mbarrier": Pair(
        GATHERED.replace("PUBLISH", "st.release.gpu.global.u32 [%d4+2048], 1;")
        + "@%p0 mbarrier.init.shared::cta.b64 [bar], 2; bar.sync 0; @%p5 bra R; @%p4 bra S; @!%p0 ret;"
        + polled("P", "acquire", 2048) + "mbarrier.arrive.shared::cta.b64 _, [bar]; ret;"
        "S:" + polled("Q", "|acquire|relaxed|", 2052) + "mbarrier.arrive.shared::cta.b64 _, [bar]; ret;"
        "R: mbarrier.try_wait.parity.shared::cta.b64 %p7, [bar], 0; @!%p7 bra R;" + READ_BOTH,
        "orders the two", blocks=3, threads=96,
    ),
    "what two threads acquired, through bar.arrive": Pair(
        GATHERED.replace("PUBLISH", "st.release.gpu.global.u32 [%d4+2048], 1;")
        + "@%p6 bra R; @!%p1 bra S; @!%p0 bra J;" + polled("P", "acquire", 2048)
        + "J: bar.warp.sync -1; bar.arrive 1, 96; ret; S: @!%p4 bra K;" + polled("Q", "|acquire|relaxed|", 2052)
        + "K: bar.warp.sync -1; bar.arrive 1, 96; ret; R: bar.sync 1, 96; @!%p5 ret;" + READ_BOTH,
        "orders the two", blocks=3, threads=96,
    ),
    "a fence, a barrier, and then the flag": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p4, %r0, 32; @!%p2 bra B;"
        "@%p4 st.global.u32 [%d1], 7; bar.sync 0; @%p0 fence.acq_rel.|gpu|cta|; bar.sync 0;"
        f"@%p0 {RELAXED} ret; B: @!%p0 ret;" + polled("P", "relaxed", 2048)
        + "fence.acq_rel.gpu; ld.global.u32 %r4, [%d1]; ret;",
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "an acquire of block scope reaches no other block's release": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", POLL).replace(
            "@%p3 bra READ;", "@%p3 bra READ; red.relaxed.gpu.global.add.u32 [%d1+2048], 1;"
            "ld.acquire.|gpu|cta|.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "a sequential fence, then a release": Pair(
        UNFENCED_MIDDLE.replace("FIRST", "|fence.sc.gpu;|fence.acq_rel.gpu;| st.release").replace("HAND", "st.relaxed")
        .replace("MIDDLE: ld.relaxed", "MIDDLE: ld.acquire").replace("THEN", "fence.sc.gpu;"),
        "orders the two", blocks=3,
    ),
    "an acquire, then a sequential fence": Pair(
        UNFENCED_MIDDLE.replace("FIRST", "fence.sc.gpu; st.relaxed").replace("HAND", "st.release")
        .replace("LAST: ld.relaxed", "LAST: ld.acquire").replace("THEN", "|fence.sc.gpu;|fence.acq_rel.gpu;|"),
        "orders the two", blocks=3,
    ),
    "an acquire behind a relaxed read, in one block": Pair(
        inside("st.release.cta.global.u32 [%d1+2048], 1;", "ld.relaxed.cta.global.u32 %r3, [%d1+2048];").replace(
            "@%p3 bra READ;", "@%p3 bra READ; st.relaxed.cta.global.u32 [%d1+2048], 2;"
            "ld.acquire.cta.global.u32 %r3, [%d1+|2048|2052|];"),
        "ld.global.u32 reads",
    ),
    "size of a release before a relaxed store of one place": Pair(
        message("st.release.gpu.global.|u32 [%d1+2048], 1|u64 [%d1+2048], %d1|;" + RELAXED,
            POLL + "fence.acq_rel.gpu;"),
        "ld.global.u32 reads", blocks=2,
    ),
    "a release of cluster scope does not leave it": Pair(
        message("st.release.|gpu|cluster|.global.u32 [%d1+2048], 1; red.relaxed.gpu.global.add.u32 [%d1+2048], 1;",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2,
    ),
    "no chain through an atomic of cluster scope": Pair(
        handed_on("red.relaxed.|gpu|cluster|.global.add.u32 [%d1+2048], 1; red.global.add.u32 [%d1+2048], 1;"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=3,
    ),
}  # fmt: skip
