"""An architecture without FP8 is refused by name, before the compiler says so in a hundred lines."""

from collections.abc import Callable
from typing import Any

import pytest

from tileproof.kernels.fp8_a8_call_site import LINEAR
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_operator import Fp8A8Operator
from tileproof.kernels.fp8_quantize_rows import QuantizeRows
from tileproof.kernels.fp8_quantize_tensor import QuantizeTensor
from tileproof.kernels.mm_fp8 import MmFp8
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

LAUNCHERS: dict[str, Callable[[Device], Any]] = {
    "rows": QuantizeRows,
    "tensor": QuantizeTensor,
    "product": lambda device: Fp8A8Gemm(device, LINEAR),
    "operator": lambda device: Fp8A8Operator(device, LINEAR),
    "mm": MmFp8,
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_87"])
@pytest.mark.parametrize("name", LAUNCHERS)
def test_an_architecture_without_fp8_is_refused(name: str, arch: str) -> None:
    with pytest.raises(Refusal, match=rf"^{arch} has no FP8 (matrix unit|conversions); the first is sm_89"):
        LAUNCHERS[name](Device(arch=arch))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_first_with_fp8_is_taken(name: str) -> None:
    LAUNCHERS[name](Device(arch="sm_89"))
