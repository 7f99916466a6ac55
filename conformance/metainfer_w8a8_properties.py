"""What `metainfer_w8a8_gemm` says of each property of the catalogue."""

from tileproof.conformance.metainfer_w8a8_cases import CONTRACT, FUSED, IN_BLOCK, KERNEL, PARTIAL
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare

_ID = f"{CONTRACT}/{KERNEL}"


def properties() -> Declarations:
    """Of an integer product with scales, several ways of splitting K, and counters."""
    return declare(
        P1=Absent("codes are integers: each is its own value"),
        P2=applies(by.families("ties", "near-ties", "conversion", "scales")),
        P3=applies(by.families("odd-scales", "association")),
        P4=Absent("scales are given; no amax is taken"),
        P5=applies(by.families("scales", "odd-scales")),
        P6=Absent("no scale is kept from call to call; counters are P16's"),
        P7=applies(by.families("scales", "odd-scales")),
        P8=applies(by.families("one-hot", "uniform")),
        P9=applies(by.equal_bits()),
        P10=applies(by.poison()),
        P11=applies(by.views(), by.tested("tests/kernels/test_int8_w8a8.py::test_other_wrong_calls_are_refused")),
        P12=applies(by.zero_and_one("M", "N", "K")),
        P13=applies(by.residues(M=64, N=64, K=64)),
        P14=applies(
            by.probe(
                "far",
                f"{_ID}/64x64x64-b2/M65535.N64.K131008.S0.nk8/uniform/0",
                f"{_ID}/64x64x64-b2/M65535.N131072.K64.S0.nk8/uniform/0",
                f"{_ID}/wgmma-128x128-s3/M65535.N131072.K64.S0.nk8/uniform/0",
                f"{_ID}/{IN_BLOCK}/M1.N8388608.K1024.S0.nk8/uniform/0",
                f"{_ID}/scalar/M65535.N131073.K7.S0.nk8/uniform/0",
                f"{_ID}/scalar/M1.N8388609.K1024.S0.nk8/uniform/0",
            )
        ),
        P15=applies(
            by.equal_bits(),
            by.probe("repeats", f"{_ID}/{FUSED}/M9.N64.K192.S3.nk8/uniform/0"),
        ),
        P16=applies(
            by.families("worn-counters"),
            by.programs(FUSED, PARTIAL),
            by.state("planes", "arrivals"),
            by.tested("tests/kernels/test_int8_w8a8.py::test_a_fused_combine_needs_nothing_cleared_between_launches"),
        ),
        P17=applies(by.order()),
        P18=applies(by.probe("graph", f"{_ID}/64x64x64-b2/M20.N64.K128.S0.nk8/uniform/0")),
        P19=applies(
            by.route(),
            by.refusals(),
            by.tested("tests/kernels/test_int8_router.py::test_every_chosen_kernel_takes_the_product_it_is_chosen_for"),
        ),
        P20=applies(by.families("ties", "scales", "association", "conversion", "small-rows")),
        P21=applies(by.families("uniform", "extremes", "conversion")),
        P22=applies(by.probe("anchor", f"{_ID}/scalar/M18.N11.K70.S0.nk8/uniform/0")),
        P23=applies(by.families("extremes", "conversion")),
        P24=applies(
            by.probe("wrong oracles", f"{_ID}/scalar/M5.N11.K70.S0.nk8/uniform/0"),
            by.tested("tests/conformance/test_gate_faults.py::test_every_fault_of_the_gate_is_found_by_its_kind"),
        ),
    )
