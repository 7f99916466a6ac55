"""What `ninfer_quantize` says of each property of the catalogue."""

from tileproof.conformance.ninfer_quantize_cases import CONTRACT
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare
from tileproof.kernels.fp8_quantize_rows import NAME

_ID = f"{CONTRACT}/{NAME}"


def properties() -> Declarations:
    """Of a quantiser of rows without state, sums or epilogue."""
    return declare(
        P1=applies(by.families("all-codes")),
        P2=applies(by.families("ties", "subnormals", "random-bits")),
        P3=applies(by.families("specials", "top-binade", "random-bits")),
        P4=applies(by.families("zero-rows", "tiny-rows", "giant-among-tiny", "peaks")),
        P5=applies(by.families("ties", "top-binade")),
        P6=Absent("the scale is that of the row at hand; nothing is kept from call to call"),
        P7=applies(by.families("all-codes", "on-grid", "ties")),
        P8=applies(by.families("on-grid", "all-codes", "peaks")),
        P9=applies(by.other_padding()),
        P10=applies(by.poison()),
        P11=applies(by.views()),
        P12=applies(by.zero_and_one("T", "K")),
        P13=applies(by.residues(K=8)),
        P14=applies(
            by.probe(
                "far",
                f"{_ID}/vector/T65537.K131072.bf16/on-grid/0",
                f"{_ID}/scalar/T65537.K131073.bf16/on-grid/0",
            )
        ),
        P15=applies(by.equal_bits(), by.probe("repeats", f"{_ID}/scalar/T2.K9.f32/on-grid/0")),
        P16=Absent("there is no workspace: a row is one block's"),
        P17=applies(by.order()),
        P18=applies(by.probe("graph", f"{_ID}/vector/T3.K64.bf16/on-grid/0")),
        P19=applies(by.route(), by.refusals()),
        P20=Absent("nothing follows the code: no bias, no addend, no second scale"),
        P21=Absent("inputs are floating-point numbers and codes are e4m3; no integer is summed"),
        P22=applies(by.probe("anchor", f"{_ID}/scalar/T34.K41.bf16/on-grid/0")),
        P23=Absent("nothing is summed: the row's maximum is exact in any order"),
        P24=applies(
            by.probe("wrong oracles", f"{_ID}/scalar/T3.K41.bf16/on-grid/0"),
            by.tested("tests/conformance/test_gate_faults.py::test_every_fault_of_the_gate_is_found_by_its_kind"),
        ),
    )
