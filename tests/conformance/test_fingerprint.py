"""A fingerprint names the accumulator of a black box from its outputs, or says unknown and which probe shows it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import fingerprint_synthetic as synthetic
import numpy as np
import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.faults import fault
from tileproof.conformance.fingerprint.accumulator import FusedSum, Join, Mode, Order, Rounding
from tileproof.conformance.fingerprint.asking import Asker
from tileproof.conformance.fingerprint.box import Box
from tileproof.conformance.fingerprint.closing import ask_all, close
from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.fingerprint import Fingerprint, fingerprint
from tileproof.conformance.fingerprint.integers import examine
from tileproof.conformance.fingerprint.kernel_boxes import kernel_boxes
from tileproof.conformance.fingerprint.oracle_boxes import instruction_box, oracle_boxes
from tileproof.conformance.fingerprint.report import lines, rows
from tileproof.conformance.fingerprint.scale import find_scale
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.oracle.products.accumulation_order import KOrder
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

KNOWN = {one.box.name: one for one in synthetic.known_boxes()}
UNKNOWN = {box.name: box for box in synthetic.unknown_boxes()}
QUICK_KNOWN = ("32 products, 13 bits, promoted every 64", "split of K in 4, pairwise")
QUICK_UNKNOWN = ("random rounding", "groups of 24 and 8", "shuffled elements", "sticky bits", "saturating")

CUT_23, CUT_13 = Rounding(23, Mode.TOWARD_ZERO), Rounding(13, Mode.TOWARD_ZERO)
HOPPER_MMA = Order(group=16, period=32, run=2, promotions=(32,)), FusedSum(25, result=CUT_23)
ROUTES = {
    "sm_89": (Order(group=16, period=16, run=16), FusedSum(13, result=CUT_13)),
    "sm_90a": HOPPER_MMA,
    "sm_100a": HOPPER_MMA,
    "sm_120a": (Order(group=32, period=32, run=32), FusedSum(25, result=CUT_23)),
}
"""What `oracle.units.nvidia_units` says of mma.m16n8k32 with 8-bit operands, which every FP8 route uses."""

INSTRUCTIONS = {
    ("wgmma.m64n8k32.f32.e4m3.e4m3", "sm_90a"): (Order(group=32, period=32, run=32), FusedSum(13, result=CUT_13)),
    ("wgmma.m64n8k32.f32.e5m2.e5m2", "sm_90a"): (Order(group=32, period=32, run=32), FusedSum(13, result=CUT_13)),
    ("wgmma.m64n8k16.f32.bf16.bf16", "sm_90a"): (Order(group=16, period=16, run=16), FusedSum(25, result=CUT_23)),
    ("mma.m16n8k16.f32.f16.f16", "sm_90a"): (Order(group=16, period=16, run=16), FusedSum(25, result=CUT_23)),
    ("mma.m16n8k16.f32.bf16.bf16", "sm_80"): (Order(group=8, period=8, run=8), FusedSum(24, result=CUT_23)),
    ("mma.m8n8k4.f32.f16.f16", "sm_70"): (Order(group=4, period=4, run=4), FusedSum(23, result=CUT_23)),
    ("tcgen05.m64n8k32.f32.e4m3.e4m3", "sm_100a"): (Order(group=32, period=32, run=32), FusedSum(25, result=CUT_23)),
}


def names(found: Fingerprint, order: Order, fused: FusedSum) -> None:
    """Length, bits, order and promotion are named, and the rest is right or among what is not told apart."""
    text = "\n".join(lines(found))
    assert found.accumulator is not None, text
    named = found.accumulator
    assert (named.order, named.fused.fraction_bits, named.fused.cut) == (order, fused.fraction_bits, fused.cut), text
    assert fused in [one.fused for one in (named, *found.alike)], text
    assert not found.remarks, text


def check_known(name: str) -> None:
    known = KNOWN[name]
    found = fingerprint(known.box, synthetic.K)
    names(found, known.accumulator.order, known.accumulator.fused)
    assert found.accumulator is not None
    assert found.accumulator.sums == known.accumulator.sums
    assert (found.accumulator.c, found.accumulator.bias) == (known.accumulator.c, known.accumulator.bias)


def check_unknown(name: str) -> None:
    found = fingerprint(UNKNOWN[name], synthetic.K)
    assert found.accumulator is None
    assert [row[0] for row in rows(found)] == ["accumulator", "probe", "observed", "model"]
    assert all(text for _, text in rows(found))


@pytest.mark.parametrize("name", QUICK_KNOWN)
def test_a_synthetic_accumulator_is_named(name: str) -> None:
    check_known(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KNOWN if name not in QUICK_KNOWN])
def test_each_synthetic_accumulator_is_named(name: str) -> None:
    check_known(name)


def test_there_are_twenty_synthetic_accumulators_and_more_outside_the_model() -> None:
    assert len(KNOWN) >= 20
    assert len(UNKNOWN) >= 5


@pytest.mark.parametrize("name", QUICK_UNKNOWN)
def test_what_the_model_has_no_words_for_is_unknown(name: str) -> None:
    check_unknown(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in UNKNOWN if name not in QUICK_UNKNOWN])
def test_whatever_the_model_has_no_words_for_is_unknown(name: str) -> None:
    check_unknown(name)


def every_route() -> Iterator[tuple[str, str]]:
    for arch in ROUTES:
        for name in oracle_boxes(arch):
            if arch != "sm_89" or "tma" not in name:  # tensor copies begin with sm_90
                yield arch, name


def check_route(arch: str, name: str) -> None:
    found = fingerprint(oracle_boxes(arch)[name]())
    names(found, *ROUTES[arch])
    assert found.accumulator is not None
    assert found.accumulator.output == Rounding(7, Mode.NEAREST_EVEN)
    assert found.accumulator.c == (Join.LAST if "linear_add" in name else None)
    assert found.accumulator.bias == (Join.LAST if "mm_fp8" in name else None)


def test_a_route_of_ours_is_named() -> None:
    check_route("sm_90a", "ninfer_linear_add/tma")


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "name"), list(every_route()))
def test_each_route_of_ours_is_named(arch: str, name: str) -> None:
    check_route(arch, name)


ON_THE_SIMULATOR = (
    ("sm_90a", "ninfer_linear/tma"),
    ("sm_90a", "ninfer_linear/cp-async"),
    ("sm_90a", "ninfer_linear/fallback"),
    ("sm_90a", "astrai_mm_fp8/64x64-s3-lean/e4m3"),
    ("sm_90a", "astrai_mm_fp8/128x128-s2/e5m2"),
    ("sm_89", "ninfer_linear/cp-async"),
    ("sm_120a", "ninfer_linear/cp-async"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "name"), ON_THE_SIMULATOR)
def test_a_kernel_of_ours_is_named_from_what_its_ptx_computes(arch: str, name: str) -> None:
    found = fingerprint(kernel_boxes(Device(arch=arch, schedule="friendly"))[name](), 128)
    names(found, *ROUTES[arch])


@pytest.mark.slow
def test_a_kernel_with_another_order_has_another_fingerprint() -> None:
    """The fault `k-steps-backwards`, as its PTX computes it: four steps of a stage of 128 codes, the last one first."""
    source = fault("k-steps-backwards").kernel_source()
    assert source is not None
    found = fingerprint(
        kernel_boxes(Device(schedule="friendly"), {Route.CP_ASYNC: source.text})["ninfer_linear/cp-async"](), 128
    )
    assert found.accumulator is not None
    assert found.accumulator.order.k_order is KOrder.DESCENDING
    assert found.remarks, "at twice the K there are two stages, one after the other"


@pytest.mark.slow
@pytest.mark.parametrize(("instruction", "arch"), list(INSTRUCTIONS))
def test_each_unit_is_named(instruction: str, arch: str) -> None:
    found = fingerprint(instruction_box(instruction, arch))
    names(found, *INSTRUCTIONS[instruction, arch])
    assert found.accumulator is not None
    assert found.accumulator.c is Join.START


def test_an_exact_sum_shows_no_order() -> None:
    found = fingerprint(Box(name="exact", operand="e4m3", multiply=synthetic.float64_sum), 64)
    assert found.accumulator is not None
    assert found.accumulator.fused.fraction_bits is None
    assert dict(rows(found))["k order"] == "not seen"


def test_a_split_that_is_at_one_k_only_is_said_to_be_so() -> None:
    def multiply(a: synthetic.Array, b: synthetic.Array) -> synthetic.Array:
        return synthetic.float32_chain(a, b, ways=1 if a.shape[1] == 64 else 2)

    found = fingerprint(Box(name="two orders", operand="e4m3", multiply=multiply), 64)
    assert found.accumulator is not None
    assert "K = 64 alone" in found.remarks[0]


@pytest.mark.parametrize("bits", [24, 26])
def test_closing_rejects_a_model_with_another_bit(bits: int) -> None:
    known = KNOWN["16 products, 25 bits"]
    asker = Asker(known.box, 64)
    answers = ask_all(asker, find_scale(asker), c=False, bias=False)
    assert close(asker, answers, known.accumulator) == 4 * 32 * 32
    wrong = replace(known.accumulator, fused=replace(known.accumulator.fused, fraction_bits=bits))
    with pytest.raises(Unexplained, match="the model gives another"):
        close(asker, answers, wrong)


def test_each_proof_names_what_it_rules_out() -> None:
    found = fingerprint(KNOWN["8 products, 24 bits"].box, 64)
    assert {proof.field for proof in found.proofs} >= {
        "fused group", "k order", "fraction bits", "running total", "cut", "exponents", "all",
    }  # fmt: skip
    assert all(proof.rules_out for proof in found.proofs)
    text = "\n".join(lines(found))
    assert "2^-8 comes back, 2^-9 does not; rules out fewer and more than 24 bits" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda box: (replace(box, operand="e2m1"), 64), "cannot be fingerprinted"),
        (lambda box: (box, 96 + 1), "K = 97 cannot"),
        (lambda box: (box, 1024), "K = 1024 cannot"),
        (lambda box: (replace(box, multiply=lambda a, b: np.zeros((2, 3))), 64), "answers with shape"),
        (lambda box: (replace(box, multiply=lambda a, b: np.zeros((len(a), len(b)), np.int32)), 64), "no floating"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: Callable[[Box], tuple[Box, int]], message: str) -> None:
    box = Box(name="exact", operand="e4m3", multiply=synthetic.float64_sum)
    with pytest.raises(Refusal, match=message):
        fingerprint(*change(box))


EVIDENCE = Path(__file__).parents[2] / "docs/evidence/h200-2026-11-30/fingerprint.json"


@pytest.mark.parametrize("scales", ["tensor-wise, bf16", "tensor-wise, f32", "row-wise, bf16"])
def test_the_h200_says_how_torch_accumulates(scales: str) -> None:
    boxes = json.loads(EVIDENCE.read_text())["boxes"]
    for how, promotions in (("fast", []), ("slow", [128])):
        found = [box for box in boxes if box["asked"] == f"torch {how}, {scales}"]
        assert [box["k"] for box in found] == [[256, 512], [512, 1024]]
        for box in found:
            assert box["known"]
            assert not box["remarks"]
            order, fused = box["accumulator"]["order"], box["accumulator"]["fused"]
            assert (order["group"], order["promotions"], order["split_k"]) == (32, promotions, None)
            assert (fused["fraction_bits"], fused["cut"]) == (13, "toward zero")


def test_the_h200_says_how_triton_accumulates() -> None:
    boxes = json.loads(EVIDENCE.with_name("fingerprint_triton.json").read_text())["boxes"]
    assert len(boxes) == 4
    for box in boxes:
        order, fused = box["accumulator"]["order"], box["accumulator"]["fused"]
        assert (order["group"], fused["fraction_bits"]) == (32, 13)
        assert order["promotions"] == ([32] if box["asked"] == "triton, 32" else [])


def test_our_kernels_on_the_h200_are_as_declared() -> None:
    boxes = json.loads(EVIDENCE.read_text())["boxes"]
    assert [box["as declared"] for box in boxes if "as declared" in box] == [True] * 6


MODULE = """
import ml_dtypes
import numpy as np

def product(a, b, bias=None):
    x, y = (codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) for codes in (a, b))
    out = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        out += x[:, None, k] * y[None, :, k]
    return out if bias is None else out + bias

def drawn(a, b, random=np.random.default_rng(1)):
    return product(a, b) + random.integers(0, 2, (len(a), len(b)))

def whole(a, b):
    return a.astype(np.int32) @ b.astype(np.int32).T
"""


def test_the_command_fingerprints_a_callable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "boxes_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    record = tmp_path / "found.json"
    arguments = ["fingerprint", "boxes_of_mine:product", "--k", "64", "--no-probes", "--json", str(record)]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  fused group     1 product: a chain of multiply-adds",
        "  fraction bits   no term is cut, down to the last bit of the operands",
        "  running total   23 fraction bits, to nearest even",
        "  k order         ascending",
        "  promotion       none: one running total",
        "  split of K      none",
        "  output          23 fraction bits, to nearest even",
        "  bias            added to the finished sum, before the output is rounded",
    ]
    (written,) = json.loads(record.read_text())
    assert written["known"]
    assert written["accumulator"]["order"]["group"] == 1
    assert main(["fingerprint", "boxes_of_mine:drawn", "--k", "64"]) == 1
    assert "accumulator     unknown" in capsys.readouterr().out
    assert main(["fingerprint", "boxes_of_mine:whole", "--format", "s8"]) == 0
    assert "exact: 10240 of 10240 sums" in capsys.readouterr().out
    assert main(["fingerprint", "boxes_of_mine:missing"]) == 2
    assert main(["fingerprint", "ninfer_linear/nowhere"]) == 2
    assert main(["fingerprint"]) == 2


def test_the_command_lists_the_routes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fingerprint", "--list"]) == 0
    assert set(capsys.readouterr().out.split("\n")[:-1]) == set(oracle_boxes("sm_90a"))


def test_an_integer_product_that_clamps_early_is_found() -> None:
    def narrow(a: synthetic.Array, b: synthetic.Array) -> synthetic.Array:
        return np.asarray(np.clip(a.astype(np.int32) @ b.astype(np.int32).T, -(1 << 20), (1 << 20) - 1))

    with pytest.raises(Unexplained, match="the exact sum is"):
        examine("narrow", narrow, 64)
    assert examine("wide", lambda a, b: a.astype(np.int32) @ b.astype(np.int32).T, 64).startswith("exact")


@pytest.mark.parametrize(
    ("limit", "word"), [(lambda x: x.astype(np.int32), "wrapped"), (lambda x: np.clip(x, None, 2**31 - 1), "clamped")]
)
def test_what_an_integer_product_does_beyond_32_bits_is_told(
    limit: Callable[[synthetic.Array], synthetic.Array], word: str
) -> None:
    def multiply(a: synthetic.Array, b: synthetic.Array) -> synthetic.Array:
        exact: synthetic.Array = np.rint(a.astype(np.float64) @ b.astype(np.float64).T).astype(np.int64)
        return limit(exact)

    assert examine("sums", multiply, 64, overflow=True).endswith(word)
