"""Which macros a kernel is shown with: the user's, and a plain variant's for a kernel that does not compile without.

Example: mm_fp8 stands for 32 and more modules. Shown without a word it is the one of layout NT that small products
take; `--define MM_FP8_TILE=Tile128` shows another, and what was not said stays.
"""

import re
from collections.abc import Mapping, Sequence

from tileproof.kernels import fp8_quantize_tensor, int8_gemm, int8_pack, mm_fp8
from tileproof.kernels.int8_arms import ARMS, GENERIC_TILES, WGMMA, DecodeArm
from tileproof.kernels.mm_fp8_dispatch import Layout, Route
from tileproof.oracle.refusal import Refusal

_DEFINITION = re.compile(r"[A-Za-z_]\w*=.*")

_NT = Layout(a_crosswise=False, b_crosswise=False)
_ORDER = "INT8_LAYOUT=Contiguous"
_DECODE = next(arm for arm in ARMS.values() if isinstance(arm, DecodeArm))
_DECODE_ROWS = 16

PLAIN: Mapping[str, tuple[str, ...]] = {
    fp8_quantize_tensor.NAME: ("FP8_ROWS=E4m3", "FP8_TRANSPOSED=E4m3"),
    mm_fp8.NAME: mm_fp8.variant(_NT, Route.SMALL_LEAN, mm_fp8.E4M3, mm_fp8.BF16),
    int8_pack.NAME: (_ORDER,),
    int8_gemm.SCALAR: (_ORDER,),
    int8_gemm.TILE: (*GENERIC_TILES[0].defines, _ORDER),
    int8_gemm.DECODE: (*_DECODE.defines(_DECODE_ROWS), _ORDER),
    int8_gemm.WGMMA: WGMMA[0].defines,
}
"""By kernel."""


def variant_of(name: str, defines: Sequence[str]) -> tuple[str, ...]:
    """The macros that a kernel is compiled with.

    Args:
        name: of the kernel.
        defines: the user's, as NAME=VALUE.

    Raises:
        Refusal: a definition of another form.
    """
    for define in defines:
        if not _DEFINITION.fullmatch(define):
            raise Refusal(f"--define {define!r} is not of the form NAME=VALUE", hint="such as FP8_A8_OUTPUT=SwiGlu")
    known = dict(define.split("=", 1) for define in (*PLAIN.get(name, ()), *defines))
    return tuple(f"{macro}={value}" for macro, value in known.items())
