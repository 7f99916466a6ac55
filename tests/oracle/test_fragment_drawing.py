"""Drawings of fragment maps are well-formed, show every place once, and change only on purpose."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tileproof.oracle.maps.fragment_drawing import draw_fragment
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.maps.ldmatrix import ldmatrix
from tileproof.oracle.maps.mma_fragments import mma_a, mma_b, mma_c
from tileproof.oracle.maps.wgmma_fragments import wgmma_d
from tileproof.oracle.refusal import Refusal

GOLDEN = Path(__file__).parents[1] / "golden" / "fragment_mma_m16n8k8_b.svg"
SVG = "{http://www.w3.org/2000/svg}"


def labels(text: str) -> list[str]:
    return [node.text for node in ElementTree.fromstring(text).iter(f"{SVG}text") if node.text and node.text[0] == "T"]


@pytest.mark.parametrize(
    "fragment", [mma_a(16, 32, 8), mma_c(16, 8, 32, 16), ldmatrix(4, transposed=True), wgmma_d(16, 16, 16)], ids=str
)
def test_a_drawing_has_a_box_for_every_register_of_a_row(fragment: FragmentMap) -> None:
    found = labels(draw_fragment(fragment))
    expected = {
        (row, f"T{place.lane} r{place.register}")
        for row in range(fragment.rows)
        for place in (fragment.place(row, column) for column in range(fragment.columns))
    }
    assert sorted(found) == sorted(label for _, label in expected)
    root = ElementTree.fromstring(draw_fragment(fragment))
    assert len(list(root.iter(f"{SVG}rect"))) == len(found)


def test_the_drawing_of_b_is_the_golden_one() -> None:
    assert draw_fragment(mma_b(16, 8, 16)) == GOLDEN.read_text()


def test_another_map_draws_another_picture() -> None:
    assert draw_fragment(ldmatrix(1)) != draw_fragment(ldmatrix(1, transposed=True))


def test_a_map_of_too_many_boxes_is_refused_with_a_remedy() -> None:
    with pytest.raises(Refusal, match="8192 boxes, the limit is 4096") as refused:
        draw_fragment(wgmma_d(128, 32, 32))
    assert "smaller N" in refused.value.hint
