"""A litmus test as a PTX kernel with many instances: each lane of each group of blocks has places of its own.

A test of B blocks runs with B blocks a group: block b of the test is the block b, b + B, b + 2B of the grid. Threads of
one block are warps of it, or, where they are of one warp, its lanes by turns; each warp has `LANES` instances.
"""

from dataclasses import dataclass

from litmus_program import (
    Barrier,
    BulkLoad,
    BulkStore,
    Exchange,
    Fence,
    Litmus,
    Op,
    Order,
    ProxyFence,
    Read,
    SmallCopy,
    Write,
)

#: Bytes of a place: the least that a bulk copy moves.
PLACE_BYTES = 16
#: Steps between two operations, so that turns of the schedule end there.
_PAUSE = "    add.u32 %i4, %i4, 1;" + " add.u32 %i4, %i4, 1;" * 11 + "\n"

_HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 places, .param .u64 results, .param .u32 instances)
{{
    .reg .pred %p; .reg .b32 %r<{registers}>, %i<12>; .reg .b64 %d<4>, %a<{places}>, %t;
    .shared .align 16 .b8 slots[{shared}];
    ld.param.u64 %d0, [places]; ld.param.u64 %d1, [results]; ld.param.u32 %i0, [instances];
    mov.u32 %i1, %tid.x; mov.u32 %i2, %ctaid.x;
    rem.u32 %i3, %i2, {blocks}; div.u32 %i4, %i2, {blocks};
    and.b32 %i5, %i1, 31; shr.u32 %i6, %i1, 5;
    rem.u32 %i7, %i5, {turns}; div.u32 %i5, %i5, {turns};
    mad.lo.u32 %i8, %i4, {lanes}, %i5;
    mul.wide.u32 %d2, %i8, {place_bytes}; add.s64 %d0, %d0, %d2; mul.wide.u32 %d2, %i8, 4; add.s64 %d1, %d1, %d2;
    mad.lo.u32 %i9, %i1, 32, 0; mov.u32 %i10, slots; add.u32 %i9, %i9, %i10;
    mul.wide.u32 %d2, %i0, {place_bytes}; mul.wide.u32 %d3, %i0, 4;
"""


@dataclass(frozen=True)
class Kernel:
    """A test's kernel.

    Attributes:
        text: PTX.
        blocks: of a group.
        threads: of a block.
        lanes: instances of a group.
    """

    text: str
    blocks: int
    threads: int
    lanes: int


def kernel(test: Litmus, lanes: int) -> Kernel:
    """The kernel of a test with so many instances a group."""
    blocks = 1 + max(thread.block for thread in test.threads)
    warps = 1 + max(thread.warp for thread in test.threads)
    turns = max(sum(t.block == b and t.warp == w for t in test.threads) for b in range(blocks) for w in range(warps))
    threads = 32 * warps if warps > 1 or turns > 1 else lanes
    whole = threads > lanes and turns == 1
    text = _HEAD.format(
        registers=test.registers + 1, places=len(test.places) + 1, shared=32 * threads, blocks=blocks, turns=turns,
        lanes=lanes if not turns > 1 else 32 // turns, place_bytes=PLACE_BYTES,
    )  # fmt: skip
    if whole:
        text += f"    setp.ge.u32 %p, %i5, {lanes}; @%p bra DONE;\n"
    for index in range(len(test.places)):
        text += f"    mov.u64 %a{index}, %d0; add.s64 %d0, %d0, %d2;\n"
    seen: dict[tuple[int, int], int] = {}
    body = ""
    for number, thread in enumerate(test.threads):
        turn = seen.get((thread.block, thread.warp), 0)
        seen[thread.block, thread.warp] = turn + 1
        code = thread.block << 16 | thread.warp << 8 | turn
        text += f"    setp.eq.u32 %p, %i11, {code}; @%p bra T{number};\n"
        body += f"T{number}:\n"
        if any(isinstance(op, BulkLoad) for op in thread.ops):
            body += "    mbarrier.init.shared::cta.b64 [%i9+16], 1; fence.mbarrier_init.release.cluster;\n"
        phase = 0
        for index, op in enumerate(thread.ops):
            body += (_PAUSE if index else "") + _lines(op, test, f"W{number}_{index}", phase)
            phase += isinstance(op, BulkLoad)
        for each in (op.register for op in thread.ops if isinstance(op, Read | Exchange | SmallCopy | BulkLoad)):
            body += f"    mad.wide.u32 %t, %i0, {4 * each}, %d1; st.global.u32 [%t], %r{each};\n"
        body += "    ret;\n"
    role = "    shl.b32 %i11, %i3, 16; shl.b32 %i10, %i6, 8; or.b32 %i11, %i11, %i10; or.b32 %i11, %i11, %i7;\n"
    first = text.index("    setp.eq.u32 %p, %i11")
    return Kernel(
        f"{text[:first]}{role}{text[first:]}DONE:\n    ret;\n{body}}}\n",
        blocks,
        threads,
        lanes if not turns > 1 else 32 // turns,
    )


def _lines(op: Op, test: Litmus, label: str, phase: int) -> str:
    """PTX of one operation."""
    place = f"%a{test.places.index(op.place)}" if hasattr(op, "place") else ""
    match op:
        case Write():
            value = str(op.value) if op.register is None else f"%r{op.register}"
            return f"    st{_strength(op.order, op.scope)}.global.u32 [{place}], {value};\n"
        case Read():
            return f"    ld{_strength(op.order, op.scope)}.global.u32 %r{op.register}, [{place}];\n"
        case Exchange():
            return f"    atom{_strength(op.order, op.scope)}.global.exch.b32 %r{op.register}, [{place}], {op.value};\n"
        case Fence():
            return f"    fence.{'sc' if op.sequential else 'acq_rel'}.{op.scope};\n"
        case Barrier():
            return "    bar.warp.sync 0xffffffff;\n" if op.warp else "    bar.sync 0;\n"
        case ProxyFence():
            return "    fence.proxy.async.global;\n"
        case SmallCopy():
            return (
                f"    cp.async.ca.shared.global [%i9], [{place}], 4; cp.async.wait_all;"
                f" ld.shared.u32 %r{op.register}, [%i9];\n"
            )
        case BulkLoad():
            return (
                "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%i9+16], 16;\n"
                "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                f" [%i9], [{place}], 16, [%i9+16];\n"
                f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p, [%i9+16], {phase & 1}; @!%p bra {label};\n"
                f"    ld.shared.u32 %r{op.register}, [%i9];\n"
            )
        case BulkStore():
            return (
                f"    st.shared.v4.u32 [%i9], {{{op.value}, 0, 0, 0}}; fence.proxy.async.shared::cta;\n"
                f"    cp.async.bulk.global.shared::cta.bulk_group [{place}], [%i9], 16;\n"
                "    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
            )
    raise TypeError(op)


def _strength(order: Order, scope: str) -> str:
    if order is Order.WEAK:
        return ".weak"
    return ".volatile" if order is Order.VOLATILE else f".{order.value}.{scope}"
