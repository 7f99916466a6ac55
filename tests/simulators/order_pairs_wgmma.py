"""Order of `wgmma`: the rules of its registers, and of its operands in shared memory."""

from order_pair import Pair
from test_device_wgmma_order import (
    COMMIT,
    DONE,
    FENCE,
    LATE,
    RULES,
    WAIT,
    WAIT_1,
    A,
    C,
    E,
    kernel,
    mma,
)

from tileproof.simulators.ptx.findings import FindingKind

PROXY_FENCE = "fence.proxy.async.shared::cta;"


def frame(body: str) -> str:
    return kernel(body).replace(".param .u64 out", ".param .u64 in, .param .u64 out")


def two_warpgroups(body: str) -> str:
    """With room for as much again."""
    return frame(body).replace("memory[8192]", "memory[16384]")


def unfenced(body: str) -> str:
    """Without the fence that makes the operands visible to the async proxy."""
    return frame(body).replace(PROXY_FENCE, "", 1)


#: Held by `test_device_wgmma_order`.
REGISTERS: dict[str, Pair] = {
    f"wgmma: {rule}": Pair(f"|{right}|{wrong}|", "", FindingKind.ASYNC, threads=128, frame=frame)
    for rule, (wrong, right, _) in RULES.items()
}
REGISTERS["wgmma: a chain of one shape"] = Pair(
    f"{FENCE} {mma()} |{mma()} {COMMIT} {mma()} {mma(a=A)} {COMMIT} {WAIT} {mma()}|{mma(f'{C}, {E}', n=16)}| {DONE}",
    "", FindingKind.ASYNC, threads=128, frame=frame,
)  # fmt: skip
PAIRS: dict[str, Pair] = {
    "operands of wgmma are fenced": Pair(
        f"|{PROXY_FENCE} bar.sync 0;|| {FENCE} {mma()} {DONE}", "no proxy fence", threads=128, frame=unfenced
    ),
    "every warp knows that the operands are there": Pair(
        f"|{PROXY_FENCE} bar.sync 0;|@%first {PROXY_FENCE}| {FENCE} {mma()} {DONE}",
        "no proxy fence", threads=128, frame=unfenced,
    ),
    "an operand is free after the wait": Pair(
        f"{FENCE} {mma()} {COMMIT} |{WAIT} {LATE}|{LATE} {WAIT}|", "has not waited for group 0",
        threads=128, frame=frame,
    ),
    "an operand of the second warpgroup is free after the wait": Pair(
        f"setp.lt.u32 %more, %t, 128; @%more bra L; {FENCE} {mma()} {COMMIT} {WAIT} L: |bar.sync 0;|| @%more {LATE}",
        "has not waited for group 0", threads=256, frame=two_warpgroups,
    ),
    "which group of wgmma": Pair(
        f"{FENCE} {mma()} {COMMIT} {mma(E)} {COMMIT} |{WAIT}|{WAIT_1}| {LATE} {WAIT}",
        "the wait covers groups below 1, this is 1", threads=128, frame=frame,
    ),
}  # fmt: skip
