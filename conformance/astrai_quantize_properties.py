"""What `astrai_quantize` says of each property of the catalogue."""

from tileproof.conformance.astrai_setting import CONTRACT, WIDE
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare
from tileproof.kernels.fp8_quantize_tensor import NAME

_ID = f"{CONTRACT}/{NAME}"
_RING = "tests/kernels/test_fp8_scale_ring_sequences.py"


def properties() -> Declarations:
    """Of a quantiser of tensors with a ring of scales and no sums."""
    return declare(
        P1=applies(by.families("all-codes")),
        P2=applies(by.families("ties", "subnormals", "random-bits")),
        P3=applies(by.families("specials", "only-nan", "saturation", "infinite")),
        P4=applies(by.families("zeros", "tiny", "infinite", "nan-history", "peak-first", "peak-last", WIDE)),
        P5=applies(by.families("ties", "saturation", "all-codes")),
        P6=applies(
            by.state("ring"),
            by.families("falling", "peak-first", "peak-last", "nan-history"),
            by.tested(f"{_RING}::test_a_ring_equals_the_oracles_through_two_hundred_steps_of_every_kind"),
        ),
        P7=Absent("there is one scale for the whole tensor, so no element can meet another's"),
        P8=applies(by.families("all-codes", "ties", "random-bits")),
        P9=Absent("padded rows are refused, so nothing lies between the elements"),
        P10=applies(by.poison()),
        P11=applies(by.views()),
        P12=applies(by.zero_and_one("R", "C")),
        P13=applies(by.residues(R=32, C=64)),
        P14=applies(
            by.probe(
                "far of a grid without steps",
                f"{_ID}/vector/R131072.C65536.B1.S0.W1.bf16re4m3/zeros/0",
                f"{_ID}/scalar/R131072.C65536.B1.S0.W1.bf16re4m3.xoff1/zeros/0",
                f"{_ID}/tile-vector/R131072.C65536.B1.S0.W1.bf16re4m3te5m2/zeros/0",
                f"{_ID}/tile-scalar/R131071.C65537.B1.S0.W1.bf16re4m3te5m2/zeros/0",
            )
        ),
        P15=applies(
            by.equal_bits(),
            by.probe("repeats", f"{_ID}/tile-vector/R64.C128.B4.S3.W2.bf16re4m3te5m2/falling/0"),
        ),
        P16=applies(
            by.state("ring"),
            by.tested(f"{_RING}::test_a_counter_that_is_not_re_armed_is_caught_by_the_next_step_too"),
        ),
        P17=applies(by.order()),
        P18=applies(by.probe("graph", f"{_ID}/vector/R8.C8.B1.S4.W2.bf16re4m3/all-codes/0")),
        P19=applies(by.route(), by.refusals()),
        P20=Absent("nothing follows the code: no bias, no addend, no second scale"),
        P21=Absent("inputs are floating-point numbers and codes are FP8; no integer is summed"),
        P22=Absent("the scale belongs to the whole tensor, so a row's codes depend on its batch by definition"),
        P23=Absent("nothing is summed: the tensor's maximum is exact in any order"),
        P24=applies(
            by.probe("wrong oracles", f"{_ID}/vector/R8.C8.B1.S4.W2.bf16re4m3/all-codes/0"),
            by.tested(
                "tests/conformance/test_astrai_quantize_contract.py::"
                "test_a_reference_that_is_wrong_in_one_place_is_a_mismatch"
            ),
        ),
    )
