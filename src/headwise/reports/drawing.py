"""Drawings as values: rectangles, lines and text, written as SVG or as PNG."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Literal

from headwise.errors import ResourceError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

FONT = "system-ui, sans-serif"
INK = "#1b1f24"
BLUE, RED = (29, 78, 156), (176, 42, 32)
"""Heat: what counts for something, and what against it."""

LETTER = 0.56
"""Mean width of a letter, by the size of the font."""

PNG_SCALE = 2
"""Pixels of a PNG for each unit of a drawing."""

PILLOWS_OWN = "Pillow's own"

FONTS = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf"),
    *("Arial.ttf", "Helvetica.ttc", "NotoSansCJK-Regular.ttc", "Arial Unicode.ttf"),
    PILLOWS_OWN,
)
"""Fonts of a PNG that a machine may have, and the one that every Pillow has, of ASCII
letters."""

UNASSIGNED = "\U0010fffd"
"""A letter that no font has: its glyph is the one for all letters that are missing."""

MAX_PNG_PIXELS = 60_000_000
"""Most pixels of a PNG; a larger drawing is refused rather than memory exhausted."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Bitmap:
    """A picture, enlarged without smoothing: its pixels stay squares."""

    x: float
    y: float
    width: float
    height: float
    url: str
    """A PNG in a data URL."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text, vertically centred at ``y``."""

    x: float
    y: float
    text: str
    size: float = 10.0
    anchor: Literal["start", "middle", "end"] = "start"
    fill: str = INK
    upward: bool = False
    """Whether it runs from bottom to top, as labels above columns do."""

    bold: bool = False


Shape = Rectangle | Bitmap | Line | Text


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes in the order in which they are painted."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    """What a screen reader says."""


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is."""
    return len(text) * size * LETTER


def mix(color: tuple[int, int, int], share: float) -> str:
    """Return white with a share, from 0 to 1, of ``color``."""
    share = min(1.0, max(0.0, share))
    return "#" + "".join(f"{round(255 + (each - 255) * share):02x}" for each in color)


def to_svg(drawing: Drawing) -> str:
    """Return the drawing as a document of its own."""
    body = "".join(map(_svg_shape, drawing.shapes))
    size = f'width="{drawing.width:.0f}" height="{drawing.height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} '
        f'viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}" '
        f'font-family="{FONT}" aria-label="{escape(drawing.title)}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )


def _svg_shape(shape: Shape) -> str:
    if isinstance(shape, Rectangle):
        more = f' stroke="{shape.stroke}"' if shape.stroke else ""
        if shape.opacity < 1:
            more += f' fill-opacity="{shape.opacity:.2g}"'
        return (
            f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" '
            f'height="{shape.height:g}" fill="{shape.fill}"{more}/>'
        )
    if isinstance(shape, Bitmap):
        return (
            f'<image x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" '
            f'height="{shape.height:g}" preserveAspectRatio="none" '
            f'image-rendering="pixelated" href="{shape.url}"/>'
        )
    if isinstance(shape, Line):
        return (
            f'<line x1="{shape.x1:g}" y1="{shape.y1:g}" x2="{shape.x2:g}" '
            f'y2="{shape.y2:g}" stroke="{shape.stroke}" '
            f'stroke-width="{shape.width:g}"/>'
        )
    place = f'x="{shape.x:g}" y="{shape.y:g}"'
    if shape.upward:
        place = f'transform="translate({shape.x:g} {shape.y:g}) rotate(-90)"'
    weight = ' font-weight="bold"' if shape.bold else ""
    return (
        f'<text {place} font-size="{shape.size:g}" fill="{shape.fill}" '
        f'text-anchor="{shape.anchor}" dominant-baseline="central"{weight}>'
        f"{escape(shape.text)}</text>"
    )


def to_png(drawing: Drawing) -> bytes:
    """Return the drawing as a PNG, in the first of ``FONTS`` that has its letters.

    Raises ``ResourceError`` for more than ``MAX_PNG_PIXELS``.
    """
    from PIL import Image, ImageColor, ImageDraw

    size = (
        max(1, round(drawing.width * PNG_SCALE)),
        max(1, round(drawing.height * PNG_SCALE)),
    )
    if size[0] * size[1] > MAX_PNG_PIXELS:
        raise ResourceError(
            f"a PNG of {size[0]:,} x {size[1]:,} pixels is larger than the "
            f"{MAX_PNG_PIXELS:,} that are drawn; write an SVG"
        )
    image = Image.new("RGB", size, "white")
    pen, blending = ImageDraw.Draw(image), ImageDraw.Draw(image, "RGBA")
    name = _best_font(_letters(drawing))
    for shape in drawing.shapes:
        if isinstance(shape, Rectangle):
            box = (shape.x, shape.y, shape.x + shape.width, shape.y + shape.height)
            fill = ImageColor.getrgb(shape.fill)[:3]
            over = blending if shape.opacity < 1 else pen
            over.rectangle(
                [each * PNG_SCALE for each in box],
                fill=(*fill, round(255 * shape.opacity)),
                outline=shape.stroke or None,
            )
        elif isinstance(shape, Bitmap):
            _paste(image, shape)
        elif isinstance(shape, Line):
            ends = (shape.x1, shape.y1, shape.x2, shape.y2)
            pen.line(
                [each * PNG_SCALE for each in ends],
                fill=shape.stroke,
                width=max(1, round(shape.width * PNG_SCALE)),
            )
        else:
            _draw_text(image, pen, shape, name)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def missing_letters(drawing: Drawing) -> list[str]:
    """Return the letters that a PNG shows as boxes, as no font here has them."""
    letters = _letters(drawing)
    return sorted(letters - _known_letters(letters, _best_font(letters)))


def _letters(drawing: Drawing) -> set[str]:
    return {
        letter
        for shape in drawing.shapes
        if isinstance(shape, Text)
        for letter in shape.text
        if not letter.isspace()
    }


def _best_font(letters: set[str]) -> str:
    """Return the name of the font that has most of ``letters``, the first of equals."""
    return max(FONTS, key=lambda name: len(_known_letters(letters, name)))


@lru_cache(maxsize=64)
def _font(name: str, size: float) -> FreeTypeFont | None:
    """Return a font of this machine, None if it has none of this name."""
    from PIL import ImageFont

    if name == PILLOWS_OWN:
        font = ImageFont.load_default(size)
        return font if isinstance(font, ImageFont.FreeTypeFont) else None
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


def _known_letters(letters: set[str], name: str) -> set[str]:
    """Return the ``letters`` that a font has a picture of."""
    font = _font(name, 16)
    if font is None:
        return set()
    unknown = bytes(font.getmask(UNASSIGNED))
    return {each for each in letters if bytes(font.getmask(each)) != unknown}


ANCHORS = {"start": "lm", "middle": "mm", "end": "rm"}


def _paste(image: Image, shape: Bitmap) -> None:
    from PIL import Image

    written = base64.b64decode(shape.url.split(",", 1)[1])
    size = round(shape.width * PNG_SCALE), round(shape.height * PNG_SCALE)
    with Image.open(io.BytesIO(written), formats=("PNG",)) as picture:
        shown = picture.convert("RGBA").resize(size, Image.Resampling.NEAREST)
    at = round(shape.x * PNG_SCALE), round(shape.y * PNG_SCALE)
    image.paste(shown, at, shown)


def _draw_text(image: Image, pen: ImageDraw, shape: Text, font_name: str) -> None:
    from PIL import Image, ImageDraw

    font = _font(font_name, shape.size * PNG_SCALE)
    assert font is not None, "a font that was just chosen"
    at = shape.x * PNG_SCALE, shape.y * PNG_SCALE
    stroke = 0.4 if shape.bold else 0
    if not shape.upward:
        pen.text(
            at,
            shape.text,
            shape.fill,
            font,
            anchor=ANCHORS[shape.anchor],
            stroke_width=stroke,
        )
        return
    width = int(font.getlength(shape.text)) + 4
    height = int(shape.size * PNG_SCALE * 1.6)
    line = Image.new("L", (width, height), 0)
    ImageDraw.Draw(line).text((2, height / 2), shape.text, 255, font, anchor="lm")
    turned = line.rotate(90, expand=True)
    shift = {"start": width, "middle": width / 2, "end": 0}[shape.anchor]
    corner = round(at[0] - height / 2), round(at[1] - shift)
    image.paste(shape.fill, (*corner,), turned)


def beside(drawings: Sequence[Drawing], *, gap: float, title: str) -> Drawing:
    """Return drawings side by side, aligned at the top."""
    x, shapes = 0.0, []
    for each in drawings:
        shapes += [moved(shape, x, 0.0) for shape in each.shapes]
        x += each.width + gap
    height = max((each.height for each in drawings), default=0.0)
    return Drawing(max(0.0, x - gap), height, tuple(shapes), title)


def below(drawings: Sequence[Drawing], *, gap: float, title: str) -> Drawing:
    """Return drawings one below the other, aligned at the left."""
    y, shapes = 0.0, []
    for each in drawings:
        shapes += [moved(shape, 0.0, y) for shape in each.shapes]
        y += each.height + gap
    width = max((each.width for each in drawings), default=0.0)
    return Drawing(width, max(0.0, y - gap), tuple(shapes), title)


def moved(shape: Shape, right: float, down: float) -> Shape:
    """Return a shape elsewhere."""
    if isinstance(shape, Line):
        return replace(
            shape,
            x1=shape.x1 + right,
            y1=shape.y1 + down,
            x2=shape.x2 + right,
            y2=shape.y2 + down,
        )
    return replace(shape, x=shape.x + right, y=shape.y + down)
