"""Decoding and engine give what the pure functions give, and what the GPU gave, form by form."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tileproof.conformance.operands import operands, probe_of
from tileproof.kernels.compile import compile_source
from tileproof.kernels.opcode_probe import probe_source, stored_bits, stored_dtype
from tileproof.simulators.ptx.alu.forms import Form, accepted_forms
from tileproof.simulators.ptx.alu.operation import arithmetic_mnemonics
from tileproof.simulators.ptx.alu.scalar import SCALARS, widen
from tileproof.simulators.ptx.device import Device

EVIDENCE = sorted((Path(__file__).parents[2] / "docs" / "evidence" / "h200-2026-11-30").glob("alu*.json"))
ELEMENTS, STRIDE, TABLE = 64, 31, 0xCA


@cache
def assembled() -> frozenset[str]:
    """The opcodes that the assembler took when they were measured."""
    return frozenset(row["opcode"] for path in EVIDENCE for row in json.loads(path.read_text())["rows"])


def forms(mnemonic: str) -> list[Form]:
    """Some forms of a mnemonic, other ones for the next mnemonic."""
    every = [form for form in accepted_forms(mnemonic) if form.opcode in assembled() or mnemonic == "lop3"]
    return every[len(mnemonic) % min(len(every), STRIDE) :: STRIDE] if every else []


@pytest.mark.parametrize("group", range(3))
def test_a_kernel_computes_what_the_operation_computes(group: int) -> None:
    chosen = [form for mnemonic in arithmetic_mnemonics()[group::3] for form in forms(mnemonic)]
    probes = [
        probe_of(form, f"probe{number}", TABLE if form.mnemonic == "lop3" else None)
        for number, form in enumerate(chosen)
    ]
    device = Device()
    functions = device.load(compile_source(probe_source(probes), name="alu.cu"))
    for form, issued in zip(chosen, probes, strict=True):
        drawn = operands(form, seed=1)[: len(issued.sources)]
        picked = np.random.default_rng(2).integers(0, len(drawn[0]), ELEMENTS)
        values = [bits[picked] for bits in drawn]
        inputs = [device.upload(v.astype(stored_dtype(t))) for v, t in zip(values, issued.sources, strict=True)]
        outputs = [device.upload(np.full(ELEMENTS, 0xA5, stored_dtype(t))) for t in issued.destinations]
        report = functions[issued.entry].launch(
            grid=(1, 1, 1),
            block=(256, 1, 1),
            args=(
                *inputs,
                *[inputs[0]] * (4 - len(inputs)),
                *outputs,
                *[outputs[0]] * (2 - len(outputs)),
                np.uint32(ELEMENTS),
            ),
        )
        assert not report.findings, form.opcode
        read = [v & np.uint64(SCALARS[t].mask) for v, t in zip(values, issued.sources, strict=True)]
        table = [] if issued.immediate is None else [np.full(ELEMENTS, issued.immediate, np.uint64)]
        right = form.operation.compute([*read[:3], *table, *read[3:]])
        for output, bits, type_ in zip(outputs, right, issued.destinations, strict=False):
            held = bits if type_ in ("pred", "carry") else widen(bits, type_, stored_bits(type_))
            np.testing.assert_array_equal(output.download(), held, err_msg=form.opcode)
