"""A Triton product of e4m3 codes, as small as it can be: Triton wants its source in a file, with types it knows."""

# mypy: disable-error-code="no-untyped-def, unused-ignore"
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def dot_kernel(a, b, out, columns, depth, IMPRECISE: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    """One block of out = A · Bᵀ: a [M, K] and b [N, K] with K = depth, out [M, N] with N = columns."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for first in range(0, depth, DEPTH):
        k = first + tl.arange(0, DEPTH)
        x = tl.load(a + row[:, None] * depth + k[None, :])
        y = tl.load(b + column[None, :] * depth + k[:, None])
        total = tl.dot(x, y, total, max_num_imprecise_acc=IMPRECISE)
    tl.store(out + row[:, None] * columns + column[None, :], total)
