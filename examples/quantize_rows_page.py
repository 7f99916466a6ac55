"""What quantize_rows of quantize_rows.cu must do. Edit this page, then run it: no GPU is needed.

    tileproof try quantize_rows.cu

Written from the kernel's PTX: lines marked "guess" want your eye. Running a page runs its Python.
"""

from tileproof.conformance.pages import Cuda, Launch, Page, around

KERNEL = Cuda("quantize_rows.cu")

# Values of each size; every combination runs. around(256) is 1, 255, 256, 257, 511, 512, 513.
SIZES = {
    "T": (1, 3),  # guess
    "K": around(256),  # guess
}


def launch(x, codes, scales, T, K):
    """As the host launches it. Several launches are a list. A tensor passes as its address."""
    return Launch(
        grid=T,  # guess
        block=256,
        args=(
            x,  # .u64; read
            codes,  # .u64; written
            scales,  # .u64; written
            K,  # .u32 columns; guess
        ),
    )


PAGE = Page(
    "quantize_rows",
    KERNEL,
    SIZES,
    launch=launch,
    like="ninfer_quantize",
    dtype="f32",  # guess: one of bf16, f16, f32
    views=(),  # for a kernel that takes strides or any address: "xpad3", "xoff1", ...
)
