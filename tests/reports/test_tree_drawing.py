import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from tests.text.tree_strategies import tokens, trees

from headwise.reports.tree_drawing import GAP_CELLS, cells, tree_svg, tree_text
from headwise.reports.tree_layout import lay_out
from headwise.text.trees import Tree, parse_tree, unescape_brackets

DOG = parse_tree("(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))")


def test_labels_stand_above_and_each_word_below_its_tag():
    assert tree_text(DOG).split("\n") == [
        "        S",
        "   ┌────┴───┬────┐",
        "   NP       VP   │",
        " ┌─┴──┐     │    │",
        " DT   NN   VBZ   .",
        "the  dog  barks  .",
    ]


def test_a_drawing_may_be_ascii_only():
    assert tree_text(DOG, ascii_only=True).isascii()


@given(trees())
def test_ascii_changes_lines_only(tree):
    drawn, plain = tree_text(tree), tree_text(tree, ascii_only=True)
    kept = str.maketrans(dict.fromkeys("│─┌┐┬┴┼├┤|-+", "#"))
    assert drawn.translate(kept) == plain.translate(kept)
    assert len(drawn.split("\n")) == 2 * (depth(tree) + 1)


def depth(tree):
    """Return the levels of phrases."""
    return 0 if tree.is_preterminal else 1 + max(map(depth, tree.children))


def test_a_word_without_a_phrase_is_drawn():
    assert tree_text(Tree("NN", "Results")) == "   NN\nResults"


def test_wide_letters_take_two_cells_and_accents_none():
    assert (cells("犬"), cells("e\u0301"), cells("ab")) == (2, 1, 2)
    assert tree_text(parse_tree("(NP (N 犬) (N a))")).split("\n")[-1] == "犬  a"


def test_brackets_in_words_are_drawn_as_brackets():
    assert tree_text(parse_tree("(P (-LRB- -LRB-))")).endswith("-LRB-\n  (")


@given(trees(labels=tokens))
def test_labels_of_a_level_never_overlap(tree):
    layout = lay_out(tree, cells, GAP_CELLS)
    for level in range(layout.levels):
        row = [
            (each.centre - (width - 1) // 2, width)
            for each in layout.brackets
            if each.level == level
            for width in [max(cells(each.label), cells(each.word or ""))]
        ]
        assert row == sorted(row)
        assert all(start >= 0 and start + width <= layout.width for start, width in row)
        for (start, width), (after, _) in pairwise(row):
            assert start + width + GAP_CELLS <= after


@given(trees())
def test_parents_are_above_and_between_their_children(tree):
    layout = lay_out(tree, cells, GAP_CELLS)
    for number, bracket in enumerate(layout.brackets):
        children = [each for each in layout.brackets if each.parent == number]
        if bracket.word is None:
            assert children[0].centre <= bracket.centre <= children[-1].centre
            assert all(each.level > bracket.level for each in children)
        else:
            assert not children


@given(trees(labels=tokens, tags=tokens))
def test_an_svg_has_all_labels_and_words_and_nothing_from_elsewhere(tree):
    drawn = ElementTree.fromstring(tree_svg(tree))

    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    labels = [node.label for event, node in tree.walk() if event != "close"]
    words = [unescape_brackets(word) for word in tree.words]

    assert sorted(texts) == sorted(map(readable, labels + words))
    assert drawn.get("aria-label") is not None
    assert "http" not in tree_svg(tree).replace("http://www.w3.org/2000/svg", "", 1)


def readable(text):
    """Return ``text`` as XML can have it."""
    return "".join(
        "\ufffd" if each < " " or each in "\ufffe\uffff" else each for each in text
    )


def test_an_svg_is_as_large_as_what_is_in_it():
    drawn = ElementTree.fromstring(tree_svg(DOG))
    width, height = float(drawn.get("width")), float(drawn.get("height"))
    for text in drawn.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(text.get("x")) < width
        assert 0 < float(text.get("y")) < height


@pytest.mark.parametrize("draw", [tree_text, tree_svg])
def test_a_deep_tree_is_drawn(draw):
    depth = 3_000
    assert draw(parse_tree("(S " * depth + "(NN a)" + ")" * depth)).count("S") >= depth
