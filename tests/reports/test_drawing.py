"""Drawings: the same shapes as SVG and as PNG."""

import io
from xml.etree import ElementTree

import pytest
from PIL import Image

from headwise.errors import ResourceError
from headwise.reports.drawing import (
    Drawing,
    Line,
    Rectangle,
    Text,
    below,
    beside,
    missing_letters,
    mix,
    to_png,
    to_svg,
)

SVG = "{http://www.w3.org/2000/svg}"


def drawing(*shapes, width=40.0, height=20.0):
    return Drawing(width, height, shapes, "an <example>")


def picture(of):
    return Image.open(io.BytesIO(to_png(of))).convert("RGB")


def test_an_svg_is_xml_that_holds_every_shape():
    found = ElementTree.fromstring(
        to_svg(
            drawing(
                Rectangle(1, 2, 3, 4, "#123456", "#abcdef"),
                Line(0, 0, 5, 5, "#ff0000", 2),
                Text(4, 5, "<a> & b", anchor="end", bold=True),
                Text(6, 7, "up", upward=True),
            )
        )
    )

    assert found.attrib["aria-label"] == "an <example>"
    assert [each.tag.removeprefix(SVG) for each in found] == [
        *("rect", "rect", "line", "text", "text")
    ]
    texts = found.findall(f"{SVG}text")
    assert [each.text for each in texts] == ["<a> & b", "up"]
    assert texts[0].attrib["text-anchor"] == "end"
    assert "rotate(-90)" in texts[1].attrib["transform"]


def test_a_png_has_the_same_shapes_at_twice_the_size():
    found = picture(
        drawing(Rectangle(10, 5, 10, 5, "#ff0000"), Line(0, 18, 40, 18, "#0000ff", 2))
    )

    assert found.size == (80, 40)
    assert found.getpixel((30, 15)) == (255, 0, 0)
    assert found.getpixel((2, 2)) == (255, 255, 255)
    assert found.getpixel((40, 36)) == (0, 0, 255)


def dark_box(image):
    """Return the box around all dark pixels."""
    return image.convert("L").point(lambda each: 255 * (each < 128)).getbbox()


@pytest.mark.parametrize(
    ("anchor", "edge"),
    [
        ("start", lambda box: box[0]),
        ("middle", lambda box: (box[0] + box[2]) / 2),
        ("end", lambda box: box[2]),
    ],
)
def test_text_is_at_its_anchor(anchor, edge):
    """At 50, 10 of the drawing, which is 100, 20 of the picture."""
    shape = Text(50, 10, "HHHH", anchor=anchor)

    box = dark_box(picture(drawing(shape, width=100, height=20)))

    assert edge(box) == pytest.approx(100, abs=4)
    assert (box[1] + box[3]) / 2 == pytest.approx(20, abs=4)


def test_text_upward_ends_above_where_it_starts():
    shape = Text(20, 90, "HHHH", upward=True)
    box = dark_box(picture(drawing(shape, width=40, height=100)))

    assert 25 < box[0] < box[2] < 55
    assert box[3] <= 181
    assert box[3] - box[1] > 40


def test_drawings_are_put_together():
    one = drawing(Rectangle(0, 0, 40, 20, "#ff0000"))
    other = drawing(Line(0, 0, 10, 10, "#00ff00"), Text(1, 1, "a"), height=30)

    wide = beside([one, other], gap=5, title="both")
    high = below([one, other], gap=5, title="both")

    assert (wide.width, wide.height, high.width, high.height) == (85, 30, 40, 55)
    assert (wide.shapes[1].x1, wide.shapes[2].x) == (45, 46)
    assert (high.shapes[1].y1, high.shapes[2].y) == (25, 26)


def test_colours_are_mixed_with_white():
    assert mix((255, 0, 0), 0.0) == "#ffffff"
    assert mix((255, 0, 0), 1.0) == "#ff0000"
    assert mix((0, 0, 0), 7.5) == "#000000"


def test_letters_that_no_font_has_are_named():
    shapes = [Text(0, 0, "abc"), Text(0, 0, "a\U0010fffe b")]

    assert missing_letters(drawing(*shapes)) == ["\U0010fffe"]


def test_a_picture_larger_than_memory_is_meant_for_is_refused():
    with pytest.raises(ResourceError, match="write an SVG"):
        to_png(drawing(width=1e5, height=1e5))
