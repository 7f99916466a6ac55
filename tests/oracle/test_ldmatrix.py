"""ldmatrix, stmatrix and movmatrix deliver what the mma fragments want, from the addresses that kernels give them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ROW_BYTES, ldmatrix, load_rows, movmatrix, stmatrix, store_rows
from tileproof.oracle.maps.mma_fragments import mma_a, mma_b, mma_c
from tileproof.oracle.refusal import Refusal

Bytes = npt.NDArray[np.uint8]
rng = np.random.default_rng(11)


def random_bytes(*shape: int) -> Bytes:
    return rng.integers(0, 256, shape, dtype=np.uint8)


def rows_at(tile: Bytes, count: int, row: Callable[[int], int], byte: Callable[[int], int]) -> Bytes:
    """The 16 bytes at each lane's address in a tile of bytes."""
    return np.stack([tile[row(lane), byte(lane) : byte(lane) + ROW_BYTES] for lane in range(count)])


def a_row(lane: int) -> int:
    return (lane & 7) + 8 * (lane >> 3 & 1)


@pytest.mark.parametrize(("bits", "k"), [(8, 32), (16, 16), (32, 8)])
def test_x4_of_a_row_major_tile_is_a_of_an_mma(bits: int, k: int) -> None:
    """Lane l at row (l & 7) + 8 * ((l >> 3) & 1), byte 16 * (l >> 4)."""
    tile = random_bytes(16, 32)
    rows = rows_at(tile, 32, a_row, lambda lane: 16 * (lane >> 4))
    assert (load_rows(ldmatrix(4), rows) == mma_a(16, k, bits).gather(tile.view(f"u{bits // 8}"))).all()


@pytest.mark.parametrize(("bits", "k"), [(8, 32), (16, 16), (32, 8)])
def test_x2_of_an_n_major_tile_is_b_of_an_mma(bits: int, k: int) -> None:
    """Lane l at row l & 7, byte 16 * ((l >> 3) & 1)."""
    tile = random_bytes(8, 32)
    rows = rows_at(tile, 16, lambda lane: lane & 7, lambda lane: 16 * (lane >> 3 & 1))
    assert (load_rows(ldmatrix(2), rows) == mma_b(16, k, bits).gather(tile.view(f"u{bits // 8}"))).all()


def test_x2_trans_of_a_k_major_tile_is_b_of_a_16_bit_mma() -> None:
    tile = rng.integers(0, 65536, (16, 8), dtype=np.uint16)  # [k][n]
    words = load_rows(ldmatrix(2, transposed=True), tile.view(np.uint8))
    assert (words == mma_b(16, 16, 16).gather(tile.T)).all()


def test_m16n16_trans_of_a_k_major_tile_of_bytes_is_b_of_two_mmas() -> None:
    tile = random_bytes(32, 16)  # [k][n], 16 n: registers 0, 2 for the first eight and 1, 3 for the next
    words = load_rows(ldmatrix(2, transposed=True, shape="m16n16", bits=8), tile)
    for half in (0, 1):
        expected = mma_b(16, 32, 8).gather(np.ascontiguousarray(tile[:, 8 * half : 8 * half + 8].T))
        assert (words[:, half::2] == expected).all()


def test_stmatrix_writes_16_bit_accumulators_row_by_row() -> None:
    c = rng.integers(0, 65536, (16, 8), dtype=np.uint16)
    rows = store_rows(stmatrix(2), mma_c(16, 16, 16, 16).gather(c))
    assert (rows.view(np.uint16) == c).all()


def test_stmatrix_of_bytes_writes_an_accumulator_tile_transposed() -> None:
    """c0, c1, c2, c3 of m16n8 rounded to bytes, in this order, are one register; memory row n holds column n."""
    c = random_bytes(16, 8)
    words = mma_c(16, 16, 32, 16).gather(c.astype(np.uint32)).astype(np.uint8).reshape(32, 4).view(np.uint32)
    assert (store_rows(stmatrix(1, transposed=True, shape="m16n8", bits=8), words) == c.T).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_loading_undoes_storing(count: int, transposed: bool) -> None:
    words = rng.integers(0, 2**32, (3, 32, count), dtype=np.uint32)
    rows = store_rows(stmatrix(count, transposed=transposed), words)
    assert rows.shape == (3, 8 * count, ROW_BYTES)
    assert (load_rows(ldmatrix(count, transposed=transposed), rows) == words).all()


def test_movmatrix_is_a_store_and_a_transposed_load() -> None:
    words = rng.integers(0, 2**32, (2, 32), dtype=np.uint32)
    rows = store_rows(stmatrix(1), words[..., np.newaxis])
    assert (movmatrix(words) == load_rows(ldmatrix(1, transposed=True), rows)[..., 0]).all()
    assert (movmatrix(movmatrix(words)) == words).all()


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (ldmatrix, {"count": 3}),
        (ldmatrix, {"count": 4, "transposed": True, "shape": "m16n16", "bits": 8}),
        (ldmatrix, {"count": 1, "shape": "m16n16", "bits": 8}),
        (ldmatrix, {"count": 1, "shape": "m8n8", "bits": 8}),
        (ldmatrix, {"count": 1, "shape": "m8n16", "bits": 4}),
        (stmatrix, {"count": 8}),
        (stmatrix, {"count": 1, "shape": "m16n8", "bits": 8}),
        (stmatrix, {"count": 1, "transposed": True, "shape": "m16n16", "bits": 8}),
    ],
)
def test_forms_that_ptx_lacks_are_refused(make: Callable[..., FragmentMap], arguments: dict[str, Any]) -> None:
    """As ptxas 13.0 refuses them, and the unpacking forms, which are not modelled."""
    with pytest.raises(Refusal, match="outside the model") as refused:
        make(**arguments)
    assert "m8n8.x1" in refused.value.hint


def test_rows_of_another_shape_are_refused() -> None:
    for rows in (np.zeros((8, 8), np.uint8), np.zeros((16, 16), np.uint8), np.zeros((8, 16), np.int8)):
        with pytest.raises(Refusal, match="rows of shape"):
            load_rows(ldmatrix(1), rows)  # type: ignore[arg-type]
