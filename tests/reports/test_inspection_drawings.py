"""Drawings and texts of inspections, from results made by hand."""

import pytest
import torch

from headwise.errors import ResourceError
from headwise.inspection.attention import Attention, AttentionMap
from headwise.inspection.beam_tree import REASONS, BeamNode, BeamResult, BeamTree
from headwise.inspection.head_ranking import HeadRanking, HeadsLoss
from headwise.inspection.places import parse_head
from headwise.reports.drawing import Line, Rectangle, Text
from headwise.reports.inspection_drawings import (
    Table,
    draw_attention,
    draw_beam,
    draw_table,
    short,
)
from headwise.reports.inspection_text import attention_text, beam_text, ranking_text


def texts(drawing):
    return [each.text for each in drawing.shapes if isinstance(each, Text)]


def cells(drawing):
    return [each for each in drawing.shapes if isinstance(each, Rectangle)][1:]


def test_a_cell_is_as_dark_as_its_number():
    found = draw_table(Table("title", ["▁a", "b"], ["x", "▁y"], [[1, 0], [0.5, -1]]))

    assert texts(found) == ["title", "x", "·y", "·a", "b"]
    fills = [each.fill for each in cells(found)]
    assert fills == ["#1d4e9c", "#8ea6ce", "#b02a20"]
    x0, x1 = cells(found)[0].x, cells(found)[2].x
    assert (x0, cells(found)[1].x) == (x0, x0)
    assert x1 > x0


def attention(*heads, rollout=None):
    weights = torch.tensor([[0.75, 0.25], [0.0, 1.0]])
    maps = tuple(AttentionMap(parse_head(name), weights) for name in heads)
    return Attention(("▁a", "</s>"), ("▁b", "</s>"), ("<s>", "▁b"), maps, (), rollout)


def test_heads_of_a_layer_are_side_by_side_and_layers_below_one_another():
    found = draw_attention(
        attention("encoder.0.0", "encoder.0.1", "cross.0.0", rollout=torch.eye(2))
    )

    titles = [x for x in found.shapes if isinstance(x, Text) and x.bold]
    names = [each.text for each in titles]
    assert names == ["encoder.0.0", "encoder.0.1", "cross.0.0", "attention rollout"]
    assert titles[0].y == titles[1].y < titles[2].y < titles[3].y
    assert titles[0].x < titles[1].x
    assert texts(found).count("·b") == 1  # rows of cross-attention are of the target


def test_more_cells_than_can_be_drawn_are_refused():
    maps = (AttentionMap(parse_head("encoder.0.0"), torch.zeros(500, 500)),)

    with pytest.raises(ResourceError, match="250,000 cells, more than the 200,000"):
        draw_attention(Attention(("a",) * 500, (), (), maps))


def test_attention_as_text_by_hand():
    """One head: 0.75 ln 0.75 + 0.25 ln 0.25 is -0.562, half of which is the mean."""
    several = attention_text(attention("encoder.0.0", "cross.0.0"))
    assert several[1].split() == ["encoder.0.0", "0.28", "</s>", "→", "</s>", "1.00"]
    assert several[2].endswith("</s> → </s> 1.00")

    (_, first, _) = attention_text(attention("cross.0.0"))
    assert first.split() == ["·b", "·a", "0.75", "</s>", "0.25"]


def node(number, parent, step, rank, piece, total, status, score=None, result=None):
    return BeamNode(
        number, parent, step, rank, 5, piece, 0.0, total, status, score, result
    )


TREE = BeamTree(
    ("▁a", "</s>"),
    2,
    "exact",
    (
        node(0, None, 1, 1, "▁x", -0.1, "kept"),
        node(1, None, 1, 2, "▁y", -2.0, "pruned"),
        node(2, 0, 2, 1, "</s>", -0.3, "ended", -0.15, 1),
        node(3, 0, 2, 2, "▁z", -0.9, "stopped"),
    ),
    (BeamResult(2, "x", -0.15, -0.3, True),),
    "exact: no hypothesis could score better",
    REASONS,
)


def test_a_tree_is_drawn_with_its_result_in_bold():
    found = draw_beam(TREE)

    bold = [x.text for x in found.shapes if isinstance(x, Text) and x.bold][1:]
    assert bold == ["·x -0.10", "</s> -0.15 #1"]
    lines = [each for each in found.shapes if isinstance(each, Line)]
    assert len(lines) == 2  # one for each node with a parent
    assert lines[0].stroke != lines[1].stroke


def test_a_tree_as_text():
    lines = beam_text(TREE)

    assert lines[0] == "  1  ·x -0.10  -·y -2.00"
    assert lines[1] == "  2  *</s> -0.15  |·z -0.90"
    assert lines[-1] == "1. -0.1500  x"


def test_a_ranking_as_text_with_bleu_of_the_first():
    heads = parse_head("cross.0.1"), parse_head("encoder.0.0")
    losses = tuple(
        HeadsLoss((head,), loss, None, None, 1, 5)
        for head, loss in zip(heads, (2.0, -0.5), strict=True)
    )

    lines = ranking_text(HeadRanking(losses, -3.0), [50.0, 12.5])

    assert [line.split() for line in lines[1:4]] == [
        ["(none", "off)", "0", "50.00"],
        ["cross.0.1", "2.0000", "-", "12.50"],
        ["encoder.0.0", "-0.5000", "-"],
    ]
    assert lines[-1].endswith("mean over 1 sentence")


def test_long_labels_are_cut_off():
    assert short("▁" + "a" * 30) == "·" + "a" * 16 + "…"
