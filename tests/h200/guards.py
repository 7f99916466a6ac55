"""Run on a machine with an H200: instructions under a guard that is false must leave their results alone.

python tests/h200/guards.py EVIDENCE.json

Each arithmetic form that the random programs use, and that a GPU was shown to compute as modelled, stands alone in a
kernel, under a guard that no thread passes. What its results held before must still be there. Where it is not, the
assembler lost the guard of the instruction or of a part of what it made of it; docs/ptxas.md lists these.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import cupy
import numpy as np
from on_gpu import MEASURED_OPCODES
from usable_forms import shown_types, usable_forms

from tileproof.conformance.environment import capture
from tileproof.conformance.records import to_json
from tileproof.simulators.ptx.alu.forms import Form
from tileproof.simulators.ptx.alu.scalar import SCALARS

THREADS, WORDS, KERNELS = 32, 32, 100
_HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
_KERNEL = """.visible .entry k{index}(.param .u64 out, .param .u64 in)
{{
    .reg .pred %p<8>, %never;
    .reg .b16 %h<6>;
    .reg .b32 %w<6>, %t<4>;
    .reg .b64 %l<6>, %in, %out;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mov.u32 %t0, %tid.x; mad.wide.u32 %in, %t0, {bytes}, %in; mad.wide.u32 %out, %t0, 16, %out;
    {loads}
    ld.global.u32 %t1, [%in+{last}]; setp.gt.u32 %never, %t1, 100;
    {carry}@%never {opcode} {targets}, {sources};
    {stores}
    ret;
}}
"""


def kernel(index: int, form: Form) -> str:
    """One kernel: every operand from a place of its own in the thread's input, results in its output."""
    loads, targets, stores = [], [], []
    kinds = [*shown_types(form.operation.destinations), *shown_types(form.operation.sources)]
    results = len(shown_types(form.operation.destinations))
    names = []
    for place, kind in enumerate(kinds):
        if kind == "pred":
            loads.append(f"ld.global.u32 %t2, [%in+{8 * place}]; and.b32 %t2, %t2, 1; setp.eq.u32 %p{place}, %t2, 1;")
            names.append(f"%p{place}")
            keep = f"selp.u32 %t3, 1, 0, %p{place}; st.global.u32 [%out+{8 * place}], %t3;"
        else:
            bits = SCALARS[kind].bits
            names.append(f"%{ {16: 'h', 32: 'w', 64: 'l'}[bits] }{place}")
            loads.append(f"ld.global.b{bits} {names[-1]}, [%in+{8 * place}];")
            keep = f"st.global.b{bits} [%out+{8 * place}], {names[-1]};"
        if place < results:
            targets.append(names[-1])
            stores.append(keep)
    sources = names[results:]
    for position in form.operation.immediates:
        sources[position] = "150"
    return _KERNEL.format(
        index=index,
        bytes=4 * WORDS,
        last=4 * (WORDS - 1),
        loads="\n    ".join(loads),
        stores="\n    ".join(stores),
        opcode=form.opcode,
        targets="|".join(targets),
        sources=", ".join(sources),
        carry="add.cc.u32 %t3, %t1, %t1; " if "carry" in form.operation.sources else "",
    )


def expected(form: Form, words: np.ndarray) -> np.ndarray:
    """What the results held before, as 16 bytes for each thread."""
    held = np.zeros((THREADS, 16), np.uint8)
    for place, kind in enumerate(shown_types(form.operation.destinations)):
        given = words.view(np.uint8)[:, 8 * place : 8 * place + 8]
        if kind == "pred":
            held[:, 8 * place] = given[:, 0] & 1
        else:
            size = SCALARS[kind].bits // 8
            held[:, 8 * place : 8 * place + size] = given[:, :size]
    return held


def broken(forms: list[Form]) -> list[str]:
    """Opcodes of the forms whose results changed."""
    words = np.random.default_rng(0).integers(0, 1 << 32, (THREADS, WORDS), dtype=np.uint32)
    words[:, -1] = 7
    module = cupy.cuda.function.Module()
    module.load((_HEAD + "".join(kernel(index, form) for index, form in enumerate(forms))).encode() + b"\0")
    given, found = cupy.asarray(words), []
    for index, form in enumerate(forms):
        out = cupy.zeros((THREADS, 16), cupy.uint8)
        arguments = (np.uint64(out.data.ptr), np.uint64(given.data.ptr))
        module.get_function(f"k{index}")((1,), (THREADS,), arguments)
        if not np.array_equal(cupy.asnumpy(out), expected(form, words)):
            found.append(form.opcode)
    return found


def main() -> None:
    usable = (form for some in usable_forms(approximate=True).values() for form in some)
    forms = [form for form in usable if form.opcode in MEASURED_OPCODES]
    batches = [forms[first : first + KERNELS] for first in range(0, len(forms), KERNELS)]
    with ThreadPoolExecutor(8) as pool:
        lost = sorted(opcode for found in pool.map(broken, batches) for opcode in found)
    evidence = {
        "what": "arithmetic under a guard that is false: opcodes whose results changed all the same",
        "environment": to_json(capture()),
        "forms": len(forms),
        "changed": lost,
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    sys.stdout.write(f"{len(forms)} forms under a false guard, {len(lost)} change their results\n")


if __name__ == "__main__":
    main()
