"""Summaries that follow from constituency trees."""

import pytest

from headwise.sample_data.sentence_compression import compression, pairs, tidied
from headwise.text.trees import parse_tree

TREE = parse_tree(
    "(S (ADVP (RB However)) (, ,) (NP (PRP$ our) (NNS results)) (VP (VBP show)"
    " (SBAR (IN that) (S (NP (NP (DT the) (NN gene)) (PP (IN of) (NP (DT these)"
    " (NNS mice)))) (VP (VBZ is) (VP (VBN expressed) (PP (IN in) (NP (NNS limbs))))))"
    ")) (. .))"
)


def test_modifiers_are_left_out_and_complements_stay():
    assert compression(TREE) == "our results show that the gene is expressed ."


def test_a_clause_of_time_and_a_relative_clause_are_left_out():
    tree = parse_tree(
        "(S (SBAR (WHADVP (WRB When)) (S (NP (PRP it)) (VP (VBZ rains)))) (, ,)"
        " (NP (NP (DT a) (NN dog)) (VP (VBN called) (NP (NNP Rex)))) (VP (VBZ likes)"
        " (NP (NP (DT the) (NN house)) (SBAR (WHNP (WDT that)) (S (VP (VBZ is)"
        " (ADJP (JJ dry))))))) (. .))"
    )

    assert compression(tree) == "a dog likes the house ."


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (", a b .", "a b ."),
        ("a , , b", "a , b"),
        ("a , .", "a ."),
        ("a ( b ( c ) ) d", "a d"),
        ("a ) b", "a ) b"),
        ("a , b", "a , b"),
    ],
)
def test_punctuation_that_lost_its_phrase_is_left_out(words, expected):
    assert " ".join(tidied(words.split())) == expected


def test_short_sentences_and_those_without_modifiers_have_no_summary():
    short = parse_tree("(S (NP (NN a)) (VP (VBZ is) (PP (IN in) (NP (NN b)))))")
    nouns = " ".join(f"(NN n{number})" for number in range(12))
    plain = parse_tree(f"(S (NP {nouns}) (VP (VBZ is)))")

    assert pairs([short, TREE, plain]) == [
        (" ".join(TREE.words), "our results show that the gene is expressed .")
    ]
