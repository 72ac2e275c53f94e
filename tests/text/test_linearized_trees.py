import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.text.tree_strategies import tokens, trees

from headwise.errors import DataError, UsageError
from headwise.text.linearized_trees import linearize, parse_linearized
from headwise.text.trees import Tree, parse_tree

DOG = parse_tree("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
WORDS = ["the", "dog", "barks"]


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ("symbol", "(S (NP XX XX )NP (VP XX )VP )S"),
        ("word", "(S (NP the dog )NP (VP barks )VP )S"),
        ("tag", "(S (NP DT NN )NP (VP VBZ )VP )S"),
    ],
)
def test_a_tree_is_linearized_with_labels_at_both_ends(leaves, expected):
    assert " ".join(linearize(DOG, leaves=leaves)) == expected


def test_tags_come_from_the_caller_or_are_unknown():
    tokens_of_dog = linearize(DOG)

    assert parse_linearized(tokens_of_dog, WORDS, tags=["DT", "NN", "VBZ"]) == DOG
    assert parse_linearized(tokens_of_dog, WORDS).tags == ["XX", "XX", "XX"]


def test_a_single_word_is_a_tree():
    assert linearize(Tree("NN", "a")) == ["XX"]
    assert parse_linearized(["XX"], ["a"], tags=["NN"]) == Tree("NN", "a")


@pytest.mark.parametrize("leaves", ["symbol", "word", "tag"])
@given(tree=trees(labels=tokens, tags=tokens))
def test_parsing_is_the_inverse_of_linearizing(leaves, tree):
    again = parse_linearized(
        linearize(tree, leaves=leaves), tree.words, leaves=leaves, tags=tree.tags
    )
    assert again == tree


@given(tree=trees(labels=tokens))
def test_linearizing_is_the_inverse_of_parsing(tree):
    sequence = linearize(tree)
    assert linearize(parse_linearized(sequence, tree.words)) == sequence


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        (
            "(S (NP XX )VP",
            "token 4: ')VP' may not follow; expected '(' with a label or a word (2 "
            "words left) or ')NP'",
        ),
        (
            "(S (NP )NP",
            "token 3: ')NP' may not follow; expected '(' with a label or a word (3 "
            "words left)",
        ),
        (")S", "token 1: ')S' may not follow; expected '(' with a label"),
        ("XX", "token 1: 'XX' may not follow; expected '(' with a label"),
        (
            "(S XX XX )S",
            "token 4: ')S' may not follow; expected '(' with a label or a word (1 word "
            "left)",
        ),
        ("(S XX XX XX XX", "token 5: 'XX' may not follow; expected ')S'"),
        ("(S XX XX XX (NP", "token 5: '(NP' may not follow; expected ')S'"),
        ("(S XX XX XX )S (S", "token 6: '(S' may not follow; expected the end"),
        ("(S XX XX XX )S )S", "token 6: ')S' may not follow; expected the end"),
        ("(S XX XX XX", "the sequence ends after 4 tokens; expected ')S'"),
        ("", "the sequence ends after 0 tokens; expected '(' with a label"),
        ("(S XX dog", "token 3: 'dog' is no bracket; expected 'XX' for word 2 of 3"),
    ],
)
def test_a_fault_is_named_with_its_token_and_what_was_expected(sequence, message):
    with pytest.raises(DataError) as caught:
        parse_linearized(sequence.split(), WORDS)
    assert str(caught.value) == message


def test_a_wrong_word_is_named():
    with pytest.raises(DataError, match=r"token 3: 'cat' .* expected 'dog' for word 2"):
        parse_linearized(["(S", "the", "cat"], WORDS, leaves="word")


@given(st.lists(st.sampled_from(["(A", "(B", ")A", ")B", "XX", "YY"]), max_size=9))
def test_a_sequence_is_parsed_or_refused(sequence):
    """Whatever is parsed is the linearization of what it was parsed to."""
    try:
        tree = parse_linearized(sequence, ["a", "b"])
    except DataError:
        return
    assert linearize(tree) == sequence
    assert tree.words == ["a", "b"]


def test_each_word_needs_a_tag_and_leaves_a_known_name():
    with pytest.raises(UsageError, match="there are 3 words and 1 tag"):
        parse_linearized(linearize(DOG), WORDS, tags=["DT"])
    with pytest.raises(UsageError, match="leaves must be one of"):
        linearize(DOG, leaves="words")


def test_a_deep_tree_is_linearized_and_parsed():
    depth = 20_000
    sequence = ["(S"] * depth + ["XX"] + [")S"] * depth
    assert linearize(parse_linearized(sequence, ["a"])) == sequence
