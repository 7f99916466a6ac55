"""Each fault of the TMA route is found, by its kind, where the shipped kernel has no finding."""

import numpy as np
import pytest
from fp8_a8_call import Call, bits

from tileproof.conformance.fault import Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.fp8_a8_tma_faults import DUPLICATE_LABEL, FAULTS, FILE
from tileproof.kernels.compile import CompileError, compile_source
from tileproof.kernels.fp8_a8_call_site import LINEAR_ADD
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.source import expanded
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import SHARED_BASES, Device
from tileproof.simulators.ptx.text.parse import parse_module

# Five stages through a ring of four, 17 of 256 tokens.
CALL = Call(LINEAR_ADD, 17, 128, 320)
# A multiple of 128 that is none of 512.
BASE = 0x480
assert BASE in SHARED_BASES

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


def kinds(source: str, *, schedule: str = "adversarial", seed: int = 1, base: int = BASE) -> dict[FindingKind, str]:
    """What a kernel is found with, and the words."""
    device = Device(schedule=schedule, seed=seed, shared_base=base)
    gemm = Fp8A8Gemm(device, LINEAR_ADD, sources={Route.TMA: source})
    result = CALL.run(device, gemm, Route.TMA)
    report = result.launch.report
    assert report is not None
    found = {FindingKind(finding.kind.value): finding.message for finding in report.findings}
    if not np.array_equal(bits(result.outputs[0]), bits(CALL.expected(device.arch)[0])):
        found[FindingKind.MISMATCH] = "outputs differ"
    return found


def edited(fault: Fault) -> str:
    source = fault.kernel_source()
    assert source is not None
    assert source.name == FILE
    return source.text


@every_fault
def test_a_fault_is_found_by_its_kind(fault: Fault) -> None:
    found = kinds(edited(fault))
    assert fault.caught(found), found


def test_the_shipped_kernel_has_no_finding_there() -> None:
    assert kinds(expanded(FILE)) == {}


def test_a_plain_label_in_a_wait_is_refused_and_named() -> None:
    """By the compiler, and by the CPU device for PTX that comes as text."""
    source = DUPLICATE_LABEL.apply(expanded(FILE))
    with pytest.raises(CompileError, match="Duplicate definition of label 'wait_loop'"):
        compile_source(source, name=f"{FILE}.cu")
    twice = "wait_loop: @%p bra wait_loop; wait_loop: @%p bra wait_loop; ret;"
    text = f".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() {{ .reg .pred %p; {twice} }}"
    with pytest.raises(Refusal, match="wait_loop"):
        parse_module(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@every_fault
def test_every_fault_is_found_by_its_kind_under_every_hostile_schedule(fault: Fault, seed: int) -> None:
    found = kinds(edited(fault), seed=seed)
    assert fault.caught(found), found


LUCKY = ("tma-ring-aligned-to-128", "tma-swizzle-base")


@pytest.mark.slow
@every_fault
def test_every_fault_but_a_lucky_base_is_found_under_a_friendly_schedule(fault: Fault) -> None:
    found = kinds(edited(fault), schedule="friendly", seed=0, base=SHARED_BASES[0])
    assert found == {} if fault.name in LUCKY else fault.caught(found), found
