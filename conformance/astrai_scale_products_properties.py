"""What `astrai_scale_products` says of each property of the catalogue."""

from tileproof.conformance.astrai_scale_products_cases import CONTRACT
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare
from tileproof.kernels.fp8_scale_products import NAME

_CODES = "scales are float32 and become scales: there are no codes"
_TESTS = "tests/conformance/test_astrai_scale_products.py"
_ID = f"{CONTRACT}/{NAME}/{NAME}"


def properties() -> Declarations:
    """Of products of two scalars, and copies."""
    return declare(
        P1=Absent(_CODES),
        P2=applies(by.families("ties", "subnormal-products", "random-bits")),
        P3=applies(by.families("specials", "overflow", "random-bits")),
        P4=Absent("scales come as they are: rings make them, and are held to their rule by astrai_quantize"),
        P5=Absent(_CODES),
        P6=Absent("nothing is kept from call to call"),
        P7=applies(by.families("powers")),
        P8=applies(by.families("powers", "ordinary")),
        P9=Absent("a scalar has no rows and no padding"),
        P10=applies(by.poison()),
        P11=applies(by.views()),
        P12=applies(by.zero_and_one("P")),
        P13=Absent("a launch is one thread: there is no tile and no vector"),
        P14=Absent("every tensor is one element, at its own address of 64 bits"),
        P15=applies(by.equal_bits(), by.probe("repeats", f"{_ID}/P3.C2/ordinary/0")),
        P16=Absent("there is no workspace: one thread makes every scalar"),
        P17=applies(by.order()),
        P18=applies(by.probe("graph", f"{_ID}/P3.C2/ordinary/0")),
        P19=applies(by.route(), by.refusals()),
        P20=Absent("nothing follows the product: it is rounded once and written"),
        P21=Absent(_CODES + ", and nothing is summed"),
        P22=Absent("there is no batch: scalars are made one by one"),
        P23=Absent("nothing is summed: there is no accumulator"),
        P24=applies(by.tested(f"{_TESTS}::test_oracles_that_cannot_be_right_are_rejected")),
    )
