"""The PCFG parser: by hand, and against NLTK's parser, which keeps everything."""

import math

import nltk
import numpy as np
import pytest
from benchmarks.pcfg import PCFG, Lexicon, Settings, to_binary, viterbi

from headwise.text.trees import parse_tree

TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))",
    "(S (NP (NP (DT a) (NN man)) (PP (IN with) (NP (DT a) (NN dog)))) (VP (VBZ runs)))",
    "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN man))"
    " (PP (IN with) (NP (DT a) (NN dog)))) (. .))",
    "(FRAG (NP (NN dog)) (PP (IN with) (NP (DT the) (NN cat))))",
]
SENTENCES = [
    "the dog sees a cat .",
    "a man sees the man with a cat with the dog .",
    "a cat with a cat with a cat runs",
    "dog with a man",
]


def grammar(**settings):
    return PCFG(map(parse_tree, TREES), Settings(**settings))


def oracle(settings):
    """Return NLTK's parser for the same trees, START above each root."""
    rules = []
    for text in TREES:
        tree = to_binary(parse_tree(text), settings)
        rules += [nltk.Production(nltk.Nonterminal("START"), [_symbol(tree)])]
        rules += tree.productions()
    return nltk.ViterbiParser(nltk.induce_pcfg(nltk.Nonterminal("START"), rules))


def _symbol(tree):
    return nltk.Nonterminal(tree.label())


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("vertical", [1, 2])
def test_the_best_tree_is_that_of_nltk(sentence, vertical):
    """Without smoothing: ln p(tag | word) / p(tag) is p(word | tag) times n / c(word).

    NLTK may find no tree, and then there is none here.
    """
    settings = Settings(vertical=vertical, horizontal=1, smoothing=0.0)
    model = PCFG(map(parse_tree, TREES), settings)
    words = sentence.split()
    emissions = np.array([model.lexicon.log_probabilities(word) for word in words])
    (best, *_) = [*oracle(settings).parse(words), None]

    found = viterbi(model.grammar, emissions)

    if best is None:
        assert found is None
        return
    tree = nltk.Tree.fromstring(found, read_leaf=lambda number: words[int(number)])
    tokens = [leaf for text in TREES for leaf in parse_tree(text).words]
    scale = sum(math.log(len(tokens) / tokens.count(word)) for word in words)
    assert _log_p(tree, model, emissions) == pytest.approx(
        math.log(best.prob()) + scale, rel=1e-5
    )


def _log_p(tree, model, emissions):
    """Return ln p of a tree, added up from its rules."""
    names = model.grammar.symbols
    rules = {
        (names[a], names[b], names[c]): p
        for a, b, c, p in zip(
            model.grammar.parents,
            model.grammar.left,
            model.grammar.right,
            model.grammar.log_p,
            strict=True,
        )
    }
    total = model.grammar.start[names.index(tree.label())]
    place = 0
    for each in tree.subtrees():
        if each.height() == 2:
            total += emissions[place, names.index(each.label())]
            place += 1
        else:
            total += rules[(each.label(), *(child.label() for child in each))]
    return total


def test_a_parse_by_hand():
    """S is B C in two of three trees, and C B in one; x is two of three B, y one.

    So "x x" is B C with 2/3 · 2/3 · 1/3 = 4/27, and C B with 1/3 · 1/3 · 2/3 = 2/27.
    """
    trees = ["(S (B x) (C y))", "(S (B x) (C y))", "(S (C x) (B y))"]
    model = PCFG(map(parse_tree, trees), Settings(smoothing=0.0))
    emissions = np.array([model.lexicon.log_probabilities("x")] * 2)

    assert viterbi(model.grammar, emissions) == "(S (B 0 ) (C 1 ) )"


def test_chains_and_phrases_of_many_children_come_back():
    tree = "(S (NP (XX dog)) (VP (XX sees) (NP (XX a) (XX cat)) (XX .)))"

    model = PCFG([parse_tree(tree)], Settings())

    assert str(model.parse(["dog", "sees", "a", "cat", "."])) == tree


def test_parentheses_are_escaped_in_trees_alone():
    model = PCFG([parse_tree("(S (X -LRB-) (Y a) (Z -RRB-))")], Settings())

    assert str(model.parse(["(", "a", ")"])) == "(S (XX -LRB-) (XX a) (XX -RRB-))"


def test_a_sentence_that_no_rule_covers_has_no_tree():
    model = PCFG([parse_tree("(S (X a) (Y b))")], Settings())

    assert model.parse(["a", "b", "a"]) is None


def test_an_unknown_word_is_tagged_by_its_ending():
    tagged = [("walking", 0), ("seeing", 0), ("dogs", 1), ("cats", 1), ("cows", 1)]

    found = Lexicon(tagged, 2, smoothing=1.0).log_probabilities("running")

    assert found.argmax() == 0


def test_a_wide_beam_changes_nothing():
    exact, pruned = grammar(), grammar(beam=30.0)

    for sentence in SENTENCES:
        assert exact.parse(sentence.split()) == pruned.parse(sentence.split())
