"""A constituency tree among the shapes of another drawing."""

from __future__ import annotations

from headwise.reports.drawing import Drawing, Line, Shape, Text, text_width
from headwise.reports.tree_layout import lay_out
from headwise.text.trees import Tree

SIZE = 10.0
LEVEL = 30.0
GAP = 12


def draw_tree(tree: Tree) -> Drawing:
    """Draw labels above, each word below its tag."""
    layout = lay_out(tree, lambda text: round(text_width(text, SIZE)), GAP)
    shapes: list[Shape] = []
    for each in layout.brackets:
        x, y = float(each.centre), SIZE + LEVEL * each.level
        if each.parent is not None:
            parent = layout.brackets[each.parent]
            start = SIZE + LEVEL * parent.level + 7
            shapes.append(Line(parent.centre, start, x, y - 7, "#c4c9cf"))
        bold = each.word is None
        shapes.append(Text(x, y, each.label, SIZE, "middle", bold=bold))
        if each.word is not None:
            shapes.append(Text(x, y + 14, each.word, SIZE, "middle"))
    height = SIZE + LEVEL * (layout.levels - 1) + 26
    return Drawing(float(layout.width), height, tuple(shapes), str(tree))
