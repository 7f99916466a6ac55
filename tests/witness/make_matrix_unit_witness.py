"""Writes matrix_unit.npz beside this file: dot products of every table row as other people's models compute them.

    python tests/witness/make_matrix_unit_witness.py

Needs tileproof and the packages mmasim 2.1.1 and mmaemu 0.1.0, so torch, in one environment. A row of the table is one
structured array, PEER|ARCHITECTURE|ASSEMBLER|INSTRUCTION, with the fields a, b, c, d and, where there are any, scale_a
and scale_b, one dot product an element; the array `versions` is JSON. Operands are of the families of
`conformance.matrix_inputs`. Results are kept as they came; `conformance.matrix_peers` knows where the models deviate.
"""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.matrix_inputs import generate
from tileproof.conformance.matrix_peers import peer_versions, peers
from tileproof.conformance.matrix_rows import rows

Array = NDArray[Any]

CASES = 64
SEED = 20261130


def main() -> None:
    arrays: dict[str, Array] = {}
    for number, row in enumerate(rows()):
        for peer in peers():
            if not peer.covers(row.instruction, row.arch, row.unit):
                continue
            inputs = generate(row.instruction, CASES, np.random.default_rng([SEED, number]), rows=1, columns=1)
            d = peer.dots(row.instruction, row.arch, row.unit, inputs)
            parts = {"a": inputs.a, "b": inputs.b, "c": inputs.c, "d": d}
            parts |= {} if inputs.scale_a is None else {"scale_a": inputs.scale_a}
            parts |= {} if inputs.scale_b is None else {"scale_b": inputs.scale_b}
            arrays[f"{peer.name}|{row.arch}|{row.assembler}|{row.instruction.name}"] = structured(parts)
    versions = {**peer_versions(), "numpy": np.__version__, "python": platform.python_version()}
    arrays["versions"] = np.array(json.dumps(versions, sort_keys=True))
    np.savez_compressed(Path(__file__).with_name("matrix_unit.npz"), allow_pickle=False, **arrays)


def structured(parts: Mapping[str, Array]) -> Array:
    """Arrays [cases, 1, ...] as one array of records."""
    cases = np.zeros(CASES, [(name, part.dtype, part.shape[2:]) for name, part in parts.items()])
    for name, part in parts.items():
        cases[name] = part[:, 0]
    return cases


if __name__ == "__main__":
    main()
