"""Drawings of what an inspection returns: heat maps, tables and the tree of a beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from headwise.errors import ResourceError
from headwise.reports.drawing import (
    BLUE,
    RED,
    Drawing,
    Line,
    Rectangle,
    Shape,
    Text,
    below,
    beside,
    mix,
    text_width,
)
from headwise.reports.heat_map import MAX_LABEL_LETTERS, readable
from headwise.reports.patch_drawings import (
    count_cells,
    draw_patch_attention,
    draw_patch_attribution,
)
from headwise.reports.tree_shapes import draw_tree
from headwise.text.trees import parse_tree

if TYPE_CHECKING:
    from headwise.inspection.attention import Attention
    from headwise.inspection.attribution import Attribution
    from headwise.inspection.beam_tree import BeamNode, BeamTree
    from headwise.inspection.logit_lens import LogitLens
    from headwise.inspection.output import Output, OutputPosition
    from headwise.inspection.patching import Patching
    from headwise.inspection.word_steps import WordSteps

GROUND = "#f4f5f7"
GRAY = "#8a929c"
SIZE = 10.0
CELL = 14.0
MARGIN = 10.0
MAX_CELLS = 200_000
"""Most cells of a drawing: each is an element of an SVG."""


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers in shaded cells, with labels beside rows and above columns."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    """From 0 to ``most``; below 0 another colour."""

    most: float = 1.0
    texts: Sequence[Sequence[str]] = ()
    """Written into the cells, which are then as wide as they need."""

    label_rows: bool = True


def draw_table(table: Table) -> Drawing:
    """Draw one table."""
    rows = [short(each) for each in table.rows] if table.label_rows else []
    columns = [short(each) for each in table.columns]
    width = CELL
    if table.texts:
        longest = max((short(x) for row in table.texts for x in row), key=len)
        width = max(CELL, text_width(longest, SIZE) + 8)
    left = max((text_width(each, SIZE) for each in rows), default=0.0) + 6
    top = 20 + max((text_width(each, SIZE) for each in columns), default=0.0) + 4
    shapes: list[Shape] = [
        Text(left, 8, table.title, SIZE + 1, bold=True),
        Rectangle(left, top, width * len(columns), CELL * len(table.values), GROUND),
    ]
    for index, label in enumerate(columns):
        x = left + (index + 0.5) * width
        shapes.append(Text(x, top - 4, label, SIZE, upward=True))
    for index, label in enumerate(rows):
        y = top + (index + 0.5) * CELL
        shapes.append(Text(left - 5, y, label, SIZE, "end"))
    for row, values in enumerate(table.values):
        for column, value in enumerate(values):
            share = abs(value) / table.most if table.most else 0.0
            x, y = left + column * width, top + row * CELL
            if share >= 0.01:
                color = mix(RED if value < 0 else BLUE, share)
                shapes.append(Rectangle(x, y, width, CELL, color))
            if table.texts:
                ink = "#ffffff" if share > 0.55 else "#1b1f24"
                text = short(table.texts[row][column])
                middle = x + width / 2
                shapes.append(Text(middle, y + CELL / 2, text, SIZE, "middle", ink))
    right = max(left + width * len(columns), left + text_width(table.title, SIZE + 1))
    return Drawing(
        right + 2, top + CELL * len(table.values) + 2, tuple(shapes), table.title
    )


def draw_attention(found: Attention) -> Drawing:
    """Draw the weights of every head, one attention layer a line.

    Those on patches are drawn over the picture. Raises ``ResourceError`` for more than
    ``MAX_CELLS`` cells.
    """
    maps = found.maps
    if found.patches is not None:
        maps = tuple(each for each in maps if each.head.kind == "decoder")
    cells = sum(each.weights.numel() for each in maps)
    if found.patches is not None:
        cells += count_cells(found)
    if cells > MAX_CELLS:
        raise ResourceError(
            f"the weights of {len(found.maps)} heads are {cells:,} cells, more than "
            f"the {MAX_CELLS:,} that are drawn; choose fewer heads, a shorter text, or "
            "JSON"
        )
    lines = []
    for name, of_layer in groupby(maps, key=lambda each: each.head.attention):
        tables = []
        for number, each in enumerate(of_layer):
            rows, columns = found.labels(each.head)
            tables.append(
                Table(
                    str(each.head),
                    rows,
                    columns,
                    each.weights.tolist(),
                    label_rows=number == 0,
                )
            )
        drawn = [draw_table(each) for each in tables]
        lines.append(beside(drawn, gap=8, title=f"attention of {name}"))
    if found.patches is not None:
        lines += draw_patch_attention(found)
    elif found.rollout is not None:
        pieces = found.source or found.decoder_input
        rollout = found.rollout.tolist()
        lines.append(draw_table(Table("attention rollout", pieces, pieces, rollout)))
    if found.tree is not None:
        lines.append(draw_tree(parse_tree(found.tree)))
    over = _joined(found.source or found.target)
    if found.patches is not None:
        over = "the patches of a picture"
    return framed(below(lines, gap=16, title=f"attention over {over}"))


def draw_attribution(found: Attribution) -> Drawing:
    """Draw both attributions; what speaks against a token is red."""
    if found.patches is not None:
        return framed(draw_patch_attribution(found))
    rows = [found.target[each] for each in found.positions]
    tables = []
    for title, values in (
        ("gradient x input", found.gradient_input),
        ("leave one out", found.leave_one_out),
    ):
        most = float(values.abs().max()) if values.numel() else 1.0
        unit = f"{found.unit}, " if found.unit else ""
        label = f"{title} ({unit}up to {most:.3g})"
        tables.append(Table(label, rows, found.source, values.tolist(), most))
    drawn = [draw_table(each) for each in tables]
    return framed(beside(drawn, gap=24, title=f"attribution: {_joined(found.target)}"))


def draw_output(found: Output) -> Drawing:
    """Draw the probability of each token, and the alternatives below it.

    A number, which has none, is drawn alone; below a parser's output is its tree.
    """
    if found.log_probability is None:
        size = text_width(found.text, 2 * SIZE)
        text = Text(0, SIZE, found.text, 2 * SIZE, bold=True)
        return framed(Drawing(size + MARGIN, 3 * SIZE, (text,), found.text))
    count = max((len(each.alternatives) for each in found.positions), default=0)
    pieces = [_about(found, each) for each in found.positions]
    texts, values = [], []
    for rank in range(count):
        of_rank = [each.alternatives[rank] for each in found.positions]
        texts.append([f"{x.piece} {x.probability:.2g}" for x in of_rank])
        values.append([x.probability for x in of_rank])
    labels = [f"{rank + 1}" for rank in range(count)]
    title = f"ln p = {found.log_probability:.3f}: {found.text}"
    table = draw_table(Table(title, labels, pieces, values, texts=texts))
    if found.tree is None:
        return framed(table)
    tree = draw_tree(parse_tree(found.tree))
    return framed(below([table, tree], gap=16, title=title))


def _about(found: Output, position: OutputPosition) -> str:
    """Return a tag or masked word with the piece that it is about."""
    if position.source_position is None:
        return position.piece
    return f"{found.source[position.source_position]}: {position.piece}"


def draw_lens(found: LogitLens) -> Drawing:
    """Draw the most probable token after each layer, the last layer at the top."""
    layers = list(reversed(found.layers))
    labels = ["input" if x.layer is None else f"layer {x.layer}" for x in layers]
    best = list(reversed(found.best()))
    texts = [[each.piece for each in row] for row in best]
    values = [[each.probability for each in row] for row in best]
    title = "most probable token after each layer of the decoder"
    return framed(draw_table(Table(title, labels, found.target, values, texts=texts)))


def draw_patching(found: Patching) -> Drawing:
    """Draw how much of the difference each head and layer carries."""
    parts = [
        (
            "encoder",
            found.source,
            [x for x in found.heads if x.head.kind == "encoder"],
        ),
        (
            "decoder",
            found.decoder_input,
            [x for x in found.heads if x.head.kind != "encoder"],
        ),
    ]
    drawn = []
    for stack, pieces, heads in parts:
        layers = [each for each in found.layers if each.stack == stack]
        labels = [str(each.head) for each in heads]
        values = [each.carried.tolist() for each in heads]
        labels += [f"block {stack}.{each.layer}" for each in layers]
        values += [each.carried.tolist() for each in layers]
        drawn.append(draw_table(Table(f"{stack}: share", labels, pieces, values)))
    first, second = map(readable, found.answers)
    title = f"what carries {first} rather than {second}"
    return framed(beside(drawn, gap=24, title=title))


def draw_word(found: WordSteps) -> Drawing:
    """Draw the scores and the weights of one word as a table."""
    columns = ["q · k", "/ √d_k", "weight"]
    rows = zip(
        found.scores.tolist(),
        found.scaled_scores.tolist(),
        found.weights.tolist(),
        found.mask,
        strict=True,
    )
    texts, values = [], []
    for score, scaled, weight, may_attend in rows:
        texts.append(
            [f"{score:.3f}", f"{scaled:.3f}", f"{weight:.4f}"]
            if may_attend
            else ["masked", "masked", "0"]
        )
        values.append([0.0, 0.0, weight])
    title = f"{found.head} of {readable(found.piece)} (position {found.position})"
    return framed(
        draw_table(Table(title, found.attended, columns, values, texts=texts))
    )


STATUS_INK = {
    "kept": "#1b1f24",
    "ended": "#1d4e9c",
    "cut off": "#1d4e9c",
    "pruned": GRAY,
    "ended below the beam": GRAY,
    "stopped": "#8a5a00",
}

STEP = 104.0
LINE = 15.0


def draw_beam(tree: BeamTree) -> Drawing:
    """Draw the tree, steps from left to right; what was not kept is gray."""
    places: dict[int, tuple[float, float]] = {}
    for node in tree.nodes:
        places[node.id] = (MARGIN + (node.step - 1) * STEP, 44 + node.rank * LINE)
    results = {id_ for each in tree.results for id_ in _path(tree, each.node)}
    shapes: list[Shape] = [
        Text(MARGIN, 12, f"beam {tree.beam}; ended by {tree.ended_by}", 11, bold=True)
    ]
    x = MARGIN
    for status, ink in STATUS_INK.items():
        shapes.append(Text(x, 30, status, SIZE, fill=ink))
        x += text_width(status, SIZE) + 16
    for node in tree.nodes:
        if node.parent is not None:
            x1, y1 = places[node.parent]
            x2, y2 = places[node.id]
            ink, width = (
                ("#1d4e9c", 1.6)
                if node.id in results
                else ("#c4c9cf", 1.0)
                if node.status in ("pruned", "ended below the beam")
                else (GRAY, 1.0)
            )
            shapes.append(Line(x1 + STEP - 26, y1, x2 - 2, y2, ink, width))
    for node in tree.nodes:
        x, y = places[node.id]
        shapes.append(
            Text(
                x,
                y,
                _node_text(node),
                SIZE,
                fill=STATUS_INK[node.status],
                bold=node.id in results,
            )
        )
    steps = max(node.step for node in tree.nodes)
    ranks = max(node.rank for node in tree.nodes)
    width = max(MARGIN + steps * STEP + 40, x + MARGIN)
    return Drawing(
        width, 44 + (ranks + 1) * LINE, tuple(shapes), f"beam search, {tree.ended_by}"
    )


def _node_text(node: BeamNode) -> str:
    number = node.total if node.score is None else node.score
    piece = short(node.piece, 8)
    return f"{piece} {number:.2f}" + ("" if node.result is None else f" #{node.result}")


def _path(tree: BeamTree, node: int) -> list[int]:
    found: list[int] = []
    at: int | None = node
    while at is not None:
        found.append(at)
        at = tree.nodes[at].parent
    return found


def short(piece: str, most: int = MAX_LABEL_LETTERS + 6) -> str:
    """Return a label that is cut off if it is long."""
    text = readable(piece)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def framed(drawing: Drawing) -> Drawing:
    """Return a drawing with a margin around it."""
    inner = below([Drawing(0, 0, (), ""), drawing], gap=MARGIN, title=drawing.title)
    wide = beside([Drawing(0, 0, (), ""), inner], gap=MARGIN, title=drawing.title)
    return replace(wide, width=wide.width + MARGIN, height=wide.height + MARGIN)


def _joined(pieces: Sequence[str]) -> str:
    return "".join(pieces).replace("▁", " ").strip()[:200]
