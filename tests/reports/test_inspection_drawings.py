"""Drawings and texts of inspections, from results made by hand."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from headwise.errors import ResourceError
from headwise.inspection.attention import Attention, AttentionMap
from headwise.inspection.attribution import Attribution
from headwise.inspection.beam_tree import REASONS, BeamNode, BeamResult, BeamTree
from headwise.inspection.comparison import Comparison, FoundOutput
from headwise.inspection.head_ranking import HeadRanking, HeadsLoss
from headwise.inspection.output import Alternative, Output, OutputPosition
from headwise.inspection.patch_grid import PatchGrid, png_url
from headwise.inspection.places import parse_head
from headwise.reports.drawing import Bitmap, Drawing, Line, Rectangle, Text, to_png
from headwise.reports.inspection_drawings import (
    Table,
    draw_attention,
    draw_attribution,
    draw_beam,
    draw_output,
    draw_table,
    short,
)
from headwise.reports.inspection_text import (
    attention_text,
    beam_text,
    comparison_text,
    output_text,
    ranking_text,
)


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


IMAGE = png_url(np.full((2, 4, 3), 255, np.uint8))


def picture_attention(kind, weights, *, first):
    grid = PatchGrid(1, 2, 1, first, IMAGE)
    source = ("[class]",) * first + grid.pieces
    target = () if kind == "encoder" else ("▁a", "</s>")
    maps = (AttentionMap(parse_head(f"{kind}.0.0"), torch.tensor(weights)),)
    return Attention(source, target, target, maps, patches=grid)


def test_weights_lie_over_the_patches():
    """By hand: the largest weight is 0.8 opaque, one of a quarter of it 0.2."""
    found = draw_attention(
        picture_attention("cross", [[0.2, 0.8], [1.0, 0.0]], first=0)
    )

    pictures = [each for each in found.shapes if isinstance(each, Bitmap)]
    over = [each for each in found.shapes if isinstance(each, Rectangle)]
    assert len(pictures) == 2
    assert [each.opacity for each in over] == pytest.approx([0.2, 0.8, 0.8])
    side = pictures[0].width / 2
    assert [each.x - pictures[0].x for each in over[:2]] == pytest.approx([0, side])
    assert (over[2].x, over[2].y) == (pictures[1].x, pictures[1].y)
    assert texts(found) == ["cross.0.0 ·a 0.80", "cross.0.0 </s> 1.00"]


def test_the_class_token_says_what_an_encoder_attends_to():
    rows = [[0.5, 0.1, 0.4], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    with_class = draw_attention(picture_attention("encoder", rows, first=1))
    mean = draw_attention(
        picture_attention("encoder", [[1.0, 0.0], [0.5, 0.5]], first=0)
    )

    opacities = [
        [each.opacity for each in found.shapes if isinstance(each, Rectangle)]
        for found in (with_class, mean)
    ]
    assert opacities == [pytest.approx([0.2, 0.8]), pytest.approx([0.8, 0.8 / 3])]


def test_what_counts_against_a_part_is_red_over_the_patches():
    grid = PatchGrid(1, 2, 1, 0, IMAGE)
    values = torch.tensor([[2.0, -1.0]])
    found = draw_attribution(
        Attribution(grid.pieces, ("dog",), (0,), values, values, patches=grid)
    )

    over = [each for each in found.shapes if isinstance(each, Rectangle)]
    assert [each.fill for each in over] == ["#1d4e9c", "#b02a20"] * 2
    assert [each.opacity for each in over] == pytest.approx([0.8, 0.4] * 2)


def test_a_picture_in_a_png_keeps_its_pixels():
    image = np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)
    drawing = Drawing(2, 1, (Bitmap(0, 0, 2, 1, png_url(image)),), "two pixels")

    pixels = np.asarray(Image.open(io.BytesIO(to_png(drawing))))

    assert (pixels[:2, :2] == [255, 0, 0]).all()
    assert (pixels[:2, 2:4] == [0, 0, 255]).all()


def test_a_tree_is_drawn_below_the_tokens():
    position = OutputPosition("(S", 5, -0.1, 1, 0.2, (Alternative("(S", 5, 0.9),))
    tree = "(S (NN dog) (VB runs))"
    found = draw_output(Output(tree, ("dog",), (position,), -0.1, tree))

    assert texts(found)[-5:] == ["S", "NN", "dog", "VB", "runs"]


def test_a_number_stands_alone():
    found = Output("41.5", ("one",), (), None)

    assert output_text(found) == ["41.5"]
    assert texts(draw_output(found)) == ["41.5"]


def test_tags_name_the_words_that_they_are_about():
    position = OutputPosition("NN", 5, 0.0, 1, 0.0, (Alternative("NN", 5, 1.0),), 1)
    found = Output("NN", ("▁a", "▁dog"), (position,), 0.0)

    assert output_text(found)[2].split()[:2] == ["of", "token"]
    assert output_text(found)[3].split()[:2] == ["·dog", "NN"]
    assert "▁dog: NN" not in texts(draw_output(found))
    assert "·dog: NN" in texts(draw_output(found))


def test_a_comparison_lists_labels_and_says_how_many_more_there_are():
    labels = tuple(FoundOutput(f"label {n}", -n, -n) for n in range(12))
    lines = comparison_text(Comparison("a", ("b off",), labels, labels[:1], -0.5))

    assert lines[1] == "before  label 0  (ln p 0.000)"
    assert lines[11] == "before  and 2 more"
    assert lines[12] == "after   label 0  (ln p 0.000)"
    assert lines[13] == "ln p of the output before: 0.000, and -0.500 after"


def test_numbers_are_compared_without_probabilities():
    number, other = FoundOutput("3", None, None), FoundOutput("4", None, None)
    found = Comparison("a", ("b off",), (number,), (other,), None)

    assert comparison_text(found) == ["b off:", "before  3", "after   4"]
