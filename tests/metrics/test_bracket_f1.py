"""Bracketing scores by hand; brackets are written [label first-last word]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.text.tree_strategies import trees, with_words

from headwise.errors import UsageError
from headwise.metrics.bracket_f1 import BracketCounts, BracketSettings, bracket_scores
from headwise.text.trees import parse_tree

GOLD = "(S (NP (D a) (N b)) (VP (V c) (NP (D d) (N e))))"
"""[S 1-5] [NP 1-2] [VP 3-5] [NP 4-5]."""


def counts(predicted, gold, **settings):
    scores = bracket_scores(
        [parse_tree(predicted)], [parse_tree(gold)], BracketSettings(**settings)
    )
    assert not scores.all.errors
    assert not scores.all.skipped
    return scores.all


def numbers(predicted, gold, **settings):
    """Return how many brackets matched, were predicted, and are gold."""
    found = counts(predicted, gold, **settings)
    return found.matched, found.predicted, found.gold


def test_equal_trees():
    found = counts(GOLD, GOLD)

    assert (found.matched, found.predicted, found.gold) == (4, 4, 4)
    assert (found.precision, found.recall, found.f1) == (100, 100, 100)
    assert (found.exact_match, found.no_crossing, found.average_crossing) == (
        100,
        100,
        0,
    )


def test_a_wrong_label():
    """[VP 3-5] became [PP 3-5]: 3 of 4 on both sides."""
    predicted = GOLD.replace("(VP", "(PP")

    assert numbers(predicted, GOLD) == (3, 4, 4)
    assert counts(predicted, GOLD).f1 == pytest.approx(75)
    assert counts(predicted, GOLD).exact_match == 0
    assert numbers(predicted, GOLD, labelled=False) == (4, 4, 4)


def test_a_missing_bracket():
    """Without [NP 4-5]: precision 3/3, recall 3/4, F1 = 2 * 3 / (3 + 4)."""
    found = counts("(S (NP (D a) (N b)) (VP (V c) (D d) (N e)))", GOLD)

    assert (found.precision, found.recall) == (100, 75)
    assert found.f1 == pytest.approx(600 / 7)


def test_tags_do_not_count():
    """All tags differ; the brackets are the same."""
    assert numbers(GOLD.replace("D ", "X ").replace("N ", "Y "), GOLD) == (4, 4, 4)


def test_equal_brackets_count_each():
    """Gold has [NP 1-1] twice, predicted once, and the other way round."""
    twice, once = "(S (NP (NP (N a))) (V b))", "(S (NP (N a)) (V b))"

    assert numbers(once, twice) == (2, 2, 3)
    assert numbers(twice, once) == (2, 3, 2)
    assert numbers(twice, twice) == (3, 3, 3)


def test_punctuation_is_left_out_of_ranges():
    """The comma is inside the NP in one tree, outside in the other: both [NP 1-1]."""
    inside = "(S (NP (N a) (, ,)) (VP (V b)) (. .))"
    outside = "(S (NP (N a)) (, ,) (VP (V b) (. .)))"

    assert numbers(inside, outside) == (3, 3, 3)


def test_other_tags_of_punctuation_are_words():
    """COLLINS.prm leaves brackets in: [NP 1-2] with the bracket, [NP 1-1] without."""
    inside = "(S (NP (N a) (-LRB- -LRB-)) (VP (V b)))"
    outside = "(S (NP (N a)) (-LRB- -LRB-) (VP (V b)))"

    assert numbers(inside, outside) == (2, 3, 3)


def test_brackets_without_words_do_not_count():
    """[PRN] has a comma only and [NP] a trace only: they count in no tree."""
    gold = "(S (NP (N a)) (PRN (, ,)) (VP (V b) (NP (-NONE- *T*-1))))"
    assert numbers("(S (NP (N a)) (, ,) (VP (V b)))", gold) == (3, 3, 3)


def test_adverb_and_particle_phrases_are_equal():
    assert numbers("(S (V a) (ADVP (R b)))", "(S (V a) (PRT (R b)))") == (2, 2, 2)
    assert numbers("(S (V a) (ADVP (R b)))", "(S (V a) (NP (R b)))") == (1, 2, 2)


def test_pairs_of_equal_labels_are_joined():
    """A = B, C = D and B = C make all four equal."""
    pairs = (("A", "B"), ("C", "D"), ("B", "C"))
    assert numbers("(A (N a))", "(D (N a))", equal_labels=pairs) == (1, 1, 1)
    assert numbers("(A (N a))", "(E (N a))", equal_labels=pairs) == (0, 1, 1)


def test_a_top_bracket_does_not_count_but_a_root_does():
    assert numbers(f"(TOP {GOLD})", GOLD) == (4, 4, 4)
    assert numbers(f"(ROOT {GOLD})", GOLD) == (4, 5, 4)


def test_function_tags_and_indices_do_not_count():
    assert numbers(GOLD, GOLD.replace("(NP", "(NP-SBJ=2-1")) == (4, 4, 4)


def test_crossing_brackets_are_those_of_the_predicted_tree():
    """[X 1-3] crosses [VP 3-5]; [Y 4-5] is in [VP 3-5]. Only [S 1-5] matches."""
    found = counts("(S (X (D a) (N b) (V c)) (Y (D d) (N e)))", GOLD)

    assert (found.matched, found.predicted, found.crossing) == (1, 3, 1)
    assert (found.no_crossing, found.two_or_less_crossing) == (0, 100)


def test_a_bracket_that_crosses_two_is_one_crossing_bracket():
    """[X 2-4] crosses [NP 1-2], [VP 3-5] and [NP 4-5]."""
    assert counts("(S (D a) (X (N b) (V c) (D d)) (N e))", GOLD).crossing == 1


def test_equal_predicted_brackets_cross_each():
    found = counts("(S (D a) (X (X (X (N b) (V c)))) (D d) (N e))", GOLD)
    assert (found.crossing, found.two_or_less_crossing) == (3, 0)


def test_corpus_scores_are_of_summed_counts():
    """4 of 4, and 1 of 1 predicted with 3 gold: F1 = 2 * 5 / (5 + 7).

    The mean of the sentences would be (100 + 50) / 2 = 75.
    """
    gold = [GOLD, "(S (NP (N a)) (VP (V b)))"]
    predicted = [GOLD, "(S (N a) (V b))"]

    found = bracket_scores([*map(parse_tree, predicted)], [*map(parse_tree, gold)])

    assert found.all.f1 == pytest.approx(1000 / 12)
    assert found.all.exact_match == 50
    assert str(found.score) == "bracket F1 83.3"
    assert found.score.signature == "evalb:COLLINS|labelled:yes|length:all"


def test_sentences_with_other_words_are_errors_and_count_nowhere_else():
    gold = parse_tree(GOLD)
    longer = parse_tree(GOLD.replace("(N e)", "(N e) (N f)"))
    other = parse_tree(GOLD.replace("(N e)", "(N f)"))
    mistagged = parse_tree(GOLD.replace("(N e)", "(. e)"))

    found = bracket_scores([gold, longer, other, mistagged], [gold] * 4)

    assert found.all == counts(GOLD, GOLD) + BracketCounts(sentences=3, errors=3)
    assert found.all.scored == 1
    assert found.errors == (
        "sentence 2: 6 words in the predicted tree and 5 in the gold tree, without "
        "those that do not count by their tags",
        "sentence 3: word 5 is 'f', in the gold tree 'e'",
        "sentence 4: 4 words in the predicted tree and 5 in the gold tree, without "
        "those that do not count by their tags",
    )


def test_sentences_that_were_not_parsed_or_have_no_words_are_skipped():
    gold, dots = parse_tree(GOLD), parse_tree("(S (. .) (. .))")

    found = bracket_scores([None, dots, gold], [gold, dots, gold])

    assert found.all == counts(GOLD, GOLD) + BracketCounts(sentences=2, skipped=2)
    assert found.errors == ()


def test_short_sentences_are_counted_apart_with_punctuation_and_without_traces():
    """The longer one has 3 words with its full stop; its trace does not count."""
    longer = parse_tree("(S (NP (-NONE- *)) (VP (V a) (N b)) (. .))")
    shorter = parse_tree("(S (N a) (. .))")
    golds = [longer, shorter]

    for cutoff, sentences in ((1, 0), (2, 1), (3, 2)):
        settings = BracketSettings(cutoff_length=cutoff)
        found = bracket_scores(golds, golds, settings)
        assert found.all.sentences == 2
        assert found.short.sentences == sentences


def test_nothing_predicted_is_zero_percent():
    """A word with its tag is no bracket."""
    found = counts("(N a)", "(NP (N a))")
    assert (found.precision, found.recall, found.f1) == (0, 0, 0)
    assert BracketCounts().exact_match == BracketCounts().average_crossing == 0


@given(st.lists(trees(), min_size=1, max_size=4))
def test_a_tree_has_all_brackets_of_itself(corpus):
    found = bracket_scores(corpus, corpus).all

    assert found.matched == found.gold == found.predicted
    assert found.crossing == found.errors == 0
    assert found.exact == found.scored
    assert found.f1 == (100 if found.gold else 0)


@given(trees(), trees(), st.booleans())
def test_exchanging_gold_and_predicted_exchanges_precision_and_recall(
    one, other, labelled
):
    settings = BracketSettings(labelled=labelled, delete_labels=frozenset())
    size = min(len(one.words), len(other.words))
    words = ["a"] * size
    one, other = (
        parse_tree(f"(S {with_leaves(tree, words)})") for tree in (one, other)
    )

    there = bracket_scores([one], [other], settings).all
    back = bracket_scores([other], [one], settings).all

    assert (there.precision, there.recall) == (back.recall, back.precision)
    assert there.f1 == pytest.approx(back.f1)
    assert (there.matched, there.exact) == (back.matched, back.exact)
    assert (there.crossing == 0) == (back.crossing == 0)


def with_leaves(tree, words):
    """Return ``tree`` over ``words`` in its first places; its further words are cut."""
    number = 0

    def cut(node):
        nonlocal number
        if node.is_preterminal:
            number += 1
            return f"({node.label} {words[number - 1]})" if number <= len(words) else ""
        inside = " ".join(filter(None, map(cut, node.children)))
        return f"({node.label} {inside})" if inside else ""

    return cut(tree)


@given(trees(), st.integers(0, 3))
def test_brackets_around_the_whole_sentence_lower_precision_only(tree, extra):
    words = [f"w{number}" for number in range(len(tree.words))]
    gold = with_words(tree, words)
    predicted = parse_tree("(EXTRA " * extra + str(gold) + ")" * extra)

    found = bracket_scores([predicted], [gold]).all

    assert found.matched == found.gold
    assert found.predicted == found.gold + (extra if found.scored else 0)


def test_each_predicted_tree_needs_a_gold_tree():
    tree = parse_tree(GOLD)
    with pytest.raises(UsageError, match="2 predicted trees and 1 gold tree"):
        bracket_scores([tree, tree], [tree])
    with pytest.raises(UsageError, match="nothing to score"):
        bracket_scores([], [])


def test_deep_trees_are_scored():
    depth = 20_000
    tree = parse_tree("(S " * depth + "(NN a)" + ")" * depth)
    assert bracket_scores([tree], [tree]).all.matched == depth
