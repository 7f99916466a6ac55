"""The faults of the TMA route of the FP8 product: a ring without one of its guards, a tail, a swizzle at a wrong place.

All show on `linear_add`, whose output is also an input. "ninfer" below is Neroued/ninfer, whose kernels these restate.
"""

from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind

CONTRACT = "ninfer_linear_add"
FILE = "fp8_a8_gemm_tma"
ROUTE = "tma"

RACE = frozenset({FindingKind.RACE})
DEADLOCK = frozenset({FindingKind.DEADLOCK})
OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS})
# What a kernel that nobody can finish, or that read too early, leaves behind.
LEFT_BEHIND = frozenset(
    {FindingKind.MISMATCH, FindingKind.UNWRITTEN, FindingKind.UNINITIALISED, FindingKind.RACE, FindingKind.DEADLOCK}
)


def _fault(
    name: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    possible: frozenset[FindingKind] = LEFT_BEHIND,
) -> Fault:
    return Fault(name, CONTRACT, what, precedent, expected, possible, FILE, edits, ROUTE)


_RELEASE = (
    _fault(
        "tma-release-not-fenced",
        "a slot is released without a fence between the warp's reads of it and the copies that fill it again",
        "ninfer's kernel; DeepEP 621; nccl-extensions 8",
        RACE,
        Edit("    if constexpr (FP8_A8_RELEASE_FENCE != 0) fence_proxy_async_shared();\n", ""),
    ),
    _fault(
        "tma-release-without-syncwarp",
        "lane 0 releases a slot for its warp without having met the other lanes",
        "ninfer's first kernel; a later one adds __syncwarp",
        RACE,
        Edit("    __syncwarp();\n", ""),
    ),
    _fault(
        "tma-released-early",
        "a warp releases a slot before it has read it",
        "ninfer 3e0b5dae",
        RACE,
        Edit("        multiply_stage(sum, activations + offset, weights + offset);\n", ""),
        Edit(
            "        release(shared_address(&shared.empty[turn.slot]));\n",
            "        release(shared_address(&shared.empty[turn.slot]));\n"
            "        multiply_stage(sum, activations + offset, weights + offset);\n",
        ),
    ),
)

_BARRIERS = (
    _fault(
        "tma-full-parity",
        "consumers wait for the phase before the one that they need",
        "tilelang 2379",
        DEADLOCK,
        Edit("full[turn.slot]), turn.parity);", "full[turn.slot]), turn.parity ^ 1);"),
        possible=LEFT_BEHIND | {FindingKind.BARRIER},
    ),
    _fault(
        "tma-empty-parity",
        "the producer waits for a new ring to be released",
        "tilelang 2379",
        DEADLOCK,
        Edit("empty[turn.slot]), turn.parity ^ 1);", "empty[turn.slot]), turn.parity);"),
    ),
    _fault(
        "tma-too-few-bytes",
        "a stage announces the activations' bytes alone, so that it counts as full before the weights have landed",
        "AstrAI (transaction bytes never match)",
        frozenset({FindingKind.ASYNC}),
        Edit("(full, sizeof(Stage))", "(full, sizeof(stage.activations))"),
    ),
    _fault(
        "tma-too-many-bytes",
        "a stage announces a row more than its copies bring",
        "AstrAI (transaction bytes never match: a hard hang)",
        DEADLOCK,
        Edit("(full, sizeof(Stage))", "(full, sizeof(Stage) + kDepth)"),
    ),
    _fault(
        "tma-one-warp-releases",
        "a slot counts as empty when the first of eight warps has read it",
        "ninfer 3e0b5dae",
        frozenset({FindingKind.BARRIER}),
        Edit("empty[slot]), kConsumers)", "empty[slot]), 1)"),
    ),
    _fault(
        "tma-nine-warps-release",
        "a slot counts as empty when the producer's warp has released it, too",
        "ninfer 3e0b5dae",
        DEADLOCK,
        Edit("empty[slot]), kConsumers)", "empty[slot]), kConsumers + 1)"),
    ),
    _fault(
        "tma-barriers-not-awaited",
        "consumers poll barriers that another thread may not have initialised yet",
        "AstrAI 7580d80d",
        RACE,
        Edit("    __syncthreads();\n    if (threadIdx.x < kLanes)", "    if (threadIdx.x < kLanes)"),
        possible=LEFT_BEHIND | {FindingKind.BARRIER},
    ),
)

_TILE = (
    _fault(
        "tma-staged-over-the-ring",
        "a warp stages its outputs over stages that other warps still read",
        "AstrAI (epilogue over the operand rings)",
        RACE,
        Edit("    bar_sync(kConsumerBarrier, kConsumerThreads);\n    stage_sums", "    stage_sums"),
    ),
    _fault(
        "tma-written-before-staged",
        "a warp writes outputs that other warps have not staged yet",
        "AstrAI 7580d80d",
        RACE,
        Edit("    bar_sync(kConsumerBarrier, kConsumerThreads);\n    write_tile", "    write_tile"),
    ),
    _fault(
        "tma-tail-finished",
        "scales and residuals of tokens past the end are read",
        "ninfer pull request 167: the epilogue was called for rows >= T",
        OUT_OF_BOUNDS,
        Edit("            if (token >= product.tokens) continue;\n", ""),
        possible=frozenset({FindingKind.UNINITIALISED}),
    ),
    _fault(
        "tma-tail-written",
        "outputs of tokens past the end are written",
        "ninfer pull request 167",
        OUT_OF_BOUNDS,
        Edit("        if (first_token + local >= product.tokens) return;\n", ""),
        possible=frozenset({FindingKind.CANARY, FindingKind.UNINITIALISED}),
    ),
)

_ATOM = Edit("__align__(kAtom) unsigned", "__align__(128) unsigned")

_SWIZZLE = (
    _fault(
        "tma-ring-aligned-to-128",
        "the ring is declared to begin at a multiple of 128 and found not to begin at one of 512",
        "ninfer pull request 167: declared 128, right by accident",
        frozenset({FindingKind.TRAP}),
        _ATOM,
    ),
    _fault(
        "tma-swizzle-base",
        "the same, and nothing looks: rows are taken from the ring's start, the hardware's swizzle from the address",
        "ninfer pull request 167; Fuser 4096; tilelang 2391",
        MISMATCH,
        _ATOM,
        Edit("    if (shared_address(memory) % kAtom != 0) __trap();\n", ""),
        possible=frozenset(),
    ),
    _fault(
        "tma-swizzle-of-128",
        "segments are looked for where a swizzle of 128 bytes puts them",
        "AstrAI (32-byte tiles encoded without a swizzle)",
        MISMATCH,
        Edit("(segment ^ row / 2 % kSegments)", "(segment ^ row % kSegments)"),
        possible=frozenset(),
    ),
)

FAULTS = (*_RELEASE, *_BARRIERS, *_TILE, *_SWIZZLE)
"""Each shows on a call of more stages than the ring has, with a partial tile, where shared memory begins at a multiple
of 128 that is none of 512."""

DUPLICATE_LABEL = Edit(
    """\
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
""",
    """\
    asm volatile(
        "{ .reg .pred ended;\\n"
        "}\\n"
        "wait_loop: { .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra wait_loop; }"
        ::"r"(barrier), "r"(parity) : "memory");
""",
)
"""A wait with a plain label, which is defined again where the wait is inlined again: no compiler takes it (ninfer pull
request 167)."""
