"""Drawings of swizzles, fragments, packs and banks: each box is what the oracle says, in the terminal and as SVG."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.drawings.address import addresses_of
from tileproof.conformance.drawings.banks import draw_banks
from tileproof.conformance.drawings.fragment import draw_fragment_map
from tileproof.conformance.drawings.pack import draw_pack
from tileproof.conformance.drawings.picture import Picture, placed
from tileproof.conformance.drawings.svg import svg
from tileproof.conformance.drawings.swizzle import draw_swizzle
from tileproof.conformance.drawings.terminal import lines
from tileproof.oracle.banks import bank_use
from tileproof.oracle.fragments import find_fragments
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import Swizzle

SVG = "{http://www.w3.org/2000/svg}"
SNAPSHOTS = Path(__file__).parent / "snapshots"
MMA, WGMMA = "mma.m16n8k32.f32.e4m3.e4m3", "wgmma.m64n32k32.s32.s8.s8"
COLUMN_OF_TILE = "lane % 8 * 128 + lane // 8 * 16"


def pictures() -> list[Picture]:
    return [
        draw_swizzle("128"),
        draw_fragment_map(MMA, "a"),
        draw_pack("fragment-pairs", None, None),
        draw_banks(COLUMN_OF_TILE, 16, store=False, lds=False),
    ]


def test_a_swizzle_puts_each_chunk_where_it_goes() -> None:
    picture = draw_swizzle("64")
    found = {
        (row, chunk): int(line.label, 16) + 16 * at
        for line in picture.rows
        for at, box in placed(line)
        for row, chunk in [map(int, box.text.split("."))]
    }
    swizzle = Swizzle.tma(64)
    assert found == {(row, chunk): swizzle.apply(64 * row + 16 * chunk) for row in range(8) for chunk in range(4)}


@pytest.mark.parametrize(("name", "operand"), [(MMA, "a"), (MMA, "b"), (MMA, "c"), (WGMMA, "c")])
def test_a_fragment_shows_every_element_in_its_lane_and_register(name: str, operand: str) -> None:
    fragment = getattr(find_fragments(name), operand)
    for row in draw_fragment_map(name, operand).rows:
        for at, box in placed(row):
            for column in range(at, at + box.span):
                place = fragment.place(int(row.label), column)
                assert box.text == f"T{place.lane} r{place.register}"


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_shows_the_offset_of_every_element(name: str) -> None:
    picture, layout = draw_pack(name, None, None), PACKS[name]
    k, n = map(int, re.findall(r"[KN] = (\d+)", picture.title))
    for row in picture.rows:
        axis, number = row.label.split()
        for at, box in placed(row):
            for step in range(box.span):
                place = (at + step, int(number)) if axis == "n" else (int(number), at + step)
                assert int(box.text) + step == layout.offset(*place, k, n)


@pytest.mark.parametrize(
    ("expression", "width"),
    [("lane * 4", 4), ("lane * 32", 4), (COLUMN_OF_TILE, 16), (f"swizzle128({COLUMN_OF_TILE})", 16), ("lane * 136", 8)],
)
def test_ways_of_banks_are_those_that_the_oracle_counts(expression: str, width: int) -> None:
    picture = draw_banks(expression, width, store=True, lds=False)
    *_, ways = picture.rows
    use = bank_use(addresses_of(expression, 32), width)
    assert max(int(box.text) for box in ways.boxes) == use.ways
    assert f"{use.passes} passes, {use.phases} without conflicts: {use.conflicts} conflicts" in picture.under[0]


def test_svg_has_the_boxes_of_the_terminal_and_nothing_outside_its_frame() -> None:
    for picture in pictures():
        text = "\n".join(lines(picture))
        root = ElementTree.fromstring(svg(picture))
        labels = {node.text for node in root.iter(f"{SVG}text")}
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        for row in picture.rows:
            assert {box.text for box in row.boxes if box.text} <= labels
            assert all(box.text in text for box in row.boxes)
        for node in root.iter(f"{SVG}rect"):
            x, y = float(node.get("x", 0)), float(node.get("y", 0))
            assert x + float(node.attrib["width"]) <= width
            assert y + float(node.attrib["height"]) <= height


def test_no_text_of_svg_is_wider_than_its_box() -> None:
    for picture in pictures():
        for box, label in pairwise(ElementTree.fromstring(svg(picture)).iter()):
            if box.get("x") and float(label.get("x", 0)) == float(box.attrib["x"]) + 3:
                assert len(label.text or "") * 6.1 <= float(box.attrib["width"])


def test_the_drawing_of_a_swizzle_changes_only_on_purpose() -> None:
    """`tileproof show swizzle 128 --svg` writes it anew."""
    assert svg(draw_swizzle("128")) == (SNAPSHOTS / "swizzle_128.svg").read_text()


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "swizzle", "128"]) == 0
    assert "0x0080 1.1       1.0       1.3" in capsys.readouterr().out
    file = tmp_path / "banks.svg"
    assert main(["show", "banks", COLUMN_OF_TILE, "--width", "16", "--svg", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"wrote {file}, {file.stat().st_size / 1000:,.0f} kB\n"
    assert ElementTree.parse(file).getroot().tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["swizzle"], "of what"),
        (["swizzle", "48"], "48"),
        (["swizzle", "3,2,3"], "pieces of 4 bytes; drawn are 16"),
        (["swizzle", "3,4,2"], "overlap"),
        (["swizzle", "9,4,99"], "2^112 bytes; drawn are 2^15"),
        (["swizzle", "4,4,99999999999"], "add up to 15"),
        (["fragment", "mma.m16n8k32"], "types of accumulator, A and B are missing"),
        (["fragment", "ldmatrix.x3"], "ldmatrix.x1, .x2 or .x4"),
        (["fragment", "mma.m16n8k33.f32.e4m3.e4m3"], "k33"),
        (["fragment", MMA, "--operand", "d"], "'d'"),
        (["fragment", WGMMA, "--operand", "b"], "shared memory"),
        (["pack", "no-such-pack"], "panel-64"),
        (["pack", "panel-64", "-n", "65"], "65"),
        (["pack", "panel-64", "-k", "8192"], "too large"),
        (["pack", "marlin-8bit", "-k", "128", "-n", "64"], "boxes"),
        (["banks", "lane * 32", "--width", "3"], "3 bytes"),
        (["banks", "lane", "--width", "4"], "no multiple"),
        (["banks", "lane ** 9"], "not understood"),
        (["banks", "__import__('os')"], "not understood"),
        (["banks", "1 << 99"], "shift"),
        (["banks", "lane // 0"], "divides by 0"),
        (["banks", "lane +"], "no expression"),
        (["banks", "0 - lane * 4"], "multiple"),
        (["banks", "(" * 400], "no expression"),
        (["banks", "lane * 65536 * 65536"], "numbers are below"),
        (["fp8_quantize_rows", "swizzle"], "no drawing"),
        (["fp8_quantize_rows", "--resources", "--svg", "x.svg"], "no drawing"),
        (["swizzle", "128", "--svg", "no/such/folder/x.svg"], "cannot be written"),
    ],
)
def test_what_cannot_be_drawn_ends_in_one_line_and_code_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *arguments]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert "Traceback" not in said


def test_ldmatrix_is_drawn_too() -> None:
    assert "ldmatrix" in draw_fragment_map("ldmatrix.x4.trans", "c").title


def test_an_address_is_reckoned_in_whole_numbers() -> None:
    assert addresses_of("(lane & 3) << 4 | lane // 4 % 2 * 128 ^ 16", 32)[5] == ((5 & 3) << 4 | 5 // 4 % 2 * 128 ^ 16)
    with pytest.raises(Refusal, match="not understood"):
        addresses_of("lane / 2", 32)
