"""What the contracts of ninfer's FP8 operators say of each property of the catalogue."""

from tileproof.conformance.ninfer_gemm_cases import KERNEL, PARTS, contract_name
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declaration, Declarations, applies, declare
from tileproof.kernels.fp8_a8_call_site import CallSite

_ELSEWHERE = "the quantiser's own contract has it; the product takes its codes as they are"


def properties(site: CallSite) -> Declarations:
    """Of a quantiser and a product with what its call site makes of it."""
    ident = f"{contract_name(site)}/{KERNEL}"
    columns = PARTS[site.name].total
    small = f"N{columns}.K33"
    return declare(
        P1=Absent(_ELSEWHERE),
        P2=applies(by.families("ties", "near-ties", "subnormals", "normal")),
        P3=applies(by.families("specials", "wide-outputs", "one-hot", "powers")),
        P4=Absent("amax and scale are the quantiser's; see ninfer_quantize, of which this is the kernel"),
        P5=applies(by.state("codes", "scales")),
        P6=Absent("the scale is that of the token at hand; nothing is kept from call to call"),
        P7=applies(by.families("powers", "one-hot", "on-grid")),
        P8=applies(by.families("one-hot", "on-grid", "powers")),
        P9=applies(by.other_padding()) if site.name == "linear" else applies(by.equal_bits()),
        P10=applies(by.poison()),
        P11=applies(by.views()) if site.name == "linear" else _VIEWS,
        P12=applies(by.zero_and_one("T", "N", "K")),
        P13=applies(by.residues(T=64, N=128, K=128)),
        P14=_far(site, ident),
        P15=applies(
            by.equal_bits(),
            by.tested("tests/kernels/test_fp8_a8_hostile_schedules.py::test_hostile_schedules_change_nothing"),
        ),
        P16=applies(by.state("codes", "scales")),
        P17=applies(by.order()),
        P18=applies(
            by.tested("tests/kernels/test_fp8_a8_graph.py::test_every_call_site_may_be_replayed_on_every_route"),
            by.probe("graph", f"{ident}/fallback/T5.{small}/normal/0"),
        ),
        P19=applies(by.route(), by.tested("tests/kernels/test_fp8_a8_selector.py::test_each_choice_is_reached")),
        P20=_EPILOGUES[site.name],
        P21=Absent("codes are e4m3 and sums are floating-point numbers"),
        P22=applies(by.probe("anchor", f"{ident}/fallback/T18.{small}/normal/0")),
        P23=applies(by.families("cancellation", "large-among-tiny", "normal", "wide-outputs")),
        P24=applies(by.probe("wrong oracles", f"{ident}/fallback/T5.{small}/normal/0")),
    )


_VIEWS = applies(
    by.tested("tests/conformance/test_ninfer_gemm.py::test_a_call_without_tokens_is_judged_whatever_its_views"),
    by.tested("tests/kernels/test_fp8_a8_launcher.py::test_what_is_not_legal_is_refused_before_anything_is_launched"),
)

_EPILOGUES: dict[str, Declaration] = {
    "linear": applies(by.families("powers", "ties")),
    "linear_add": applies(by.families("cancelled-residual", "ties")),
    "linear_swiglu": applies(by.families("wide-outputs", "normal", "ties")),
    "attn_input_proj": applies(by.families("powers", "one-hot")),
    "gdn_input_proj": applies(by.families("powers", "one-hot")),
}


_WIDE = {"linear": 16, "linear_add": 16, "linear_swiglu": 32, "attn_input_proj": 16, "gdn_input_proj": 8}
"""Times the fewest rows of a weight that fill tiles: the last output then has more than 2^32 elements."""


def _far(site: CallSite, ident: str) -> Declaration:
    parts = PARTS[site.name]
    cases = [
        f"{ident}/cp-async/T4194240.N{parts.rows * _WIDE[site.name]}.K128/normal/0",
        f"{ident}/fallback/T1048577.N{parts.total}.K8193/normal/0",
    ]
    if site.name == "linear":
        cases += [
            f"{ident}/cp-async/T131136.N128.K65536/normal/0",
            f"{ident}/tma/T4194240.N2048.K64/normal/0",
        ]
    return applies(by.probe("far", *cases))
