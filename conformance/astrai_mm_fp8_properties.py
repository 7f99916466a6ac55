"""What `astrai_mm_fp8` says of each property of the catalogue."""

from tileproof.conformance.astrai_mm_fp8_cases import CONTRACT, KERNEL, SMALL_LEAN
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare

_ID = f"{CONTRACT}/{KERNEL}/{SMALL_LEAN}"


def properties() -> Declarations:
    """Of a product with one scale, a bias, and bf16 or e4m3 outputs."""
    return declare(
        P1=Absent("operands are decoded by the matrix unit, whose decoding is held to recordings of hardware"),
        P2=applies(by.families("ties", "subnormals", "normal")),
        P3=applies(by.families("specials")),
        P4=Absent("scales are given; no amax is taken"),
        P5=applies(by.tokens("o8"), by.families("ties")),
        P6=Absent("nothing is kept from call to call; rings belong to the casts"),
        P7=applies(by.families("one-hot", "normal")),
        P8=applies(by.families("one-hot", "on-grid")),
        P9=applies(by.other_padding()),
        P10=applies(by.poison()),
        P11=applies(by.views()),
        P12=applies(by.zero_and_one("M", "N", "K")),
        P13=applies(by.residues(M=64, N=64, K=64)),
        P14=applies(by.tested("tests/kernels/test_mm_fp8_offsets.py::test_offsets_past_32_bits_are_not_cut")),
        P15=applies(
            by.equal_bits(),
            by.probe("repeats", f"{_ID}/Ba0.Bb0.M16.N16.K320.nte4m3/cancellation/0"),
        ),
        P16=Absent("there is no workspace: every output is one block's"),
        P17=applies(by.order()),
        P18=applies(by.probe("graph", f"{_ID}/Ba0.Bb0.M9.N9.K70.nte4m3b16/normal/0")),
        P19=applies(
            by.route(),
            by.refusals(),
            by.tested("tests/kernels/test_mm_fp8_dispatch.py::test_the_choice_changes_at_the_thresholds"),
        ),
        P20=applies(by.families("bias-alone", "cancelled-bias"), by.tokens("b16", "b8", "o8")),
        P21=Absent("codes are FP8 and sums are floating-point numbers"),
        P22=applies(by.probe("anchor", f"{_ID}/Ba0.Bb0.M18.N9.K70.nte4m3/normal/0")),
        P23=applies(by.families("cancellation", "large-among-tiny", "nothing")),
        P24=applies(
            by.probe("wrong oracles", f"{_ID}/Ba0.Bb0.M9.N9.K70.nte4m3b16/normal/0"),
            by.tested("tests/conformance/test_gate_faults.py::test_every_fault_of_the_gate_is_found_by_its_kind"),
        ),
    )
