"""Our eight formats as gfloat describes them: what the tests of the formats share."""

from typing import Any

import gfloat.formats


def fnuz(exponent_bits: int) -> Any:
    """gfloat ships no FNUZ format; its record can describe one (bias from arXiv 2206.02915, not from ours)."""
    return gfloat.FormatInfo(
        name=f"e{exponent_bits}fnuz",
        k=8,
        precision=8 - exponent_bits,
        bias={4: 8, 5: 16}[exponent_bits],
        is_signed=True,
        domain=gfloat.Domain.Finite,
        has_nz=False,
        num_high_nans=0,
        has_subnormals=True,
        is_twos_complement=False,
    )


GFLOAT: dict[str, Any] = {
    "E4M3FN": gfloat.formats.format_info_ocp_e4m3,
    "E5M2": gfloat.formats.format_info_ocp_e5m2,
    "E4M3FNUZ": fnuz(4),
    "E5M2FNUZ": fnuz(5),
    "E2M1FN": gfloat.formats.format_info_ocp_e2m1,
    "E2M3FN": gfloat.formats.format_info_ocp_e2m3,
    "E3M2FN": gfloat.formats.format_info_ocp_e3m2,
    "E8M0FNU": gfloat.formats.format_info_ocp_e8m0,
}
