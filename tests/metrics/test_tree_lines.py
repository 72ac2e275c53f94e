"""Trees in lines of text, scored by EVALB's rules."""

import pytest

from headwise.errors import DataError, UsageError
from headwise.metrics.bracket_f1 import bracket_scores
from headwise.metrics.registry import measure
from headwise.metrics.tree_lines import (
    read_trees_of_lines,
    score_lines,
    scores_by_length,
    with_words_of,
)
from headwise.text.trees import parse_tree

GOLD = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))"
RIGHT = "(S (NP (XX the) (XX dog)) (VP (XX barks)) (XX .))"
WRONG = "(S (NP (XX the)) (VP (XX dog) (XX barks)) (XX .))"


def test_two_trees_by_hand():
    """Of three gold brackets the second tree has S alone, of three it writes: 4 of 6.

    The period counts for no range, as its gold tag says so.
    """
    assert measure("bracket-f1", [RIGHT, WRONG], [GOLD, GOLD]).value == pytest.approx(
        100 * 4 / 6
    )
    assert measure("complete-match", [RIGHT, WRONG], [GOLD, GOLD]).value == 50


def test_a_bracket_around_the_period_costs_nothing():
    inside = "(S (NP (XX the) (XX dog)) (VP (XX barks) (XX .)))"

    assert measure("bracket-f1", [inside], [GOLD]).value == 100


def test_the_scores_are_those_of_the_trees():
    tagged = "(S (NP (DT the)) (VP (NN dog) (VBZ barks)) (. .))"
    of_lines = score_lines([WRONG, RIGHT], [GOLD, GOLD])
    of_trees = bracket_scores(
        [parse_tree(tagged), parse_tree(GOLD)], [parse_tree(GOLD)] * 2
    )

    assert of_lines == of_trees


def test_tags_that_were_predicted_are_kept():
    tree = parse_tree("(S (, a) (XX b))")

    assert with_words_of(tree, parse_tree("(S (DT a) (NN b))")).tags == [",", "NN"]


def test_escaped_brackets_equal_others():
    gold = parse_tree("(S (-LRB- -LRB-) (NN x) (-RRB- -RSB-))")
    tree = parse_tree("(S (XX -LRB-) (XX x) (XX ]))")

    assert with_words_of(tree, gold) == gold


def test_a_blank_hypothesis_was_not_parsed_and_a_blank_reference_is_left_out():
    scores = score_lines(["", RIGHT, ""], [GOLD, GOLD, ""])

    assert (scores.all.sentences, scores.all.skipped) == (2, 1)
    assert scores.all.f1 == 100


def test_other_words_are_an_error_of_that_sentence():
    scores = score_lines([RIGHT.replace("dog", "cat"), RIGHT], [GOLD, GOLD])

    assert scores.all.errors == 1


def test_a_line_that_is_no_tree_is_named():
    with pytest.raises(DataError, match="hypothesis 2, line 1, column 1"):
        score_lines([RIGHT, "S NP"], [GOLD, GOLD])
    with pytest.raises(DataError, match="reference 1"):
        score_lines([RIGHT], ["(S"])


def test_blank_references_alone_are_an_error():
    with pytest.raises(UsageError, match="all references are blank"):
        score_lines([RIGHT], [""])


def test_scores_by_length_are_those_of_the_sentences_of_that_length():
    long = f"(S {' '.join(['(NN a)'] * 11)})"
    trees = read_trees_of_lines([RIGHT, WRONG, long], [GOLD, GOLD, long])
    short, longer = scores_by_length(*trees)

    assert (short.label, longer.label) == ("1-10", "11-20")
    assert short.counts == score_lines([RIGHT, WRONG], [GOLD, GOLD]).all
    assert longer.counts.f1 == 100
