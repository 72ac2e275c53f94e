"""Trees as tokens: brackets, and words."""

import pytest
from hypothesis import given
from tests.text.tree_strategies import trees, with_words

from headwise.errors import DataError
from headwise.text.linearized_trees import linearize
from headwise.text.settings import TextSettings
from headwise.text.tree_tokenizer import TreeTokenizer
from headwise.text.trees import parse_tree
from headwise.text.vocabulary import UNKNOWN

SETTINGS = TextSettings(tokenizer="words", target_tokenizer="trees", joint=False)
TREES = ["(S (NP (DT a) (NN b)) (VP (VB c)))", "", "(S (NP (NN a)))"]
"""The word "a" occurs twice, the others once."""


def train(lines=TREES, vocab_size=100):
    return TreeTokenizer.train(lines, vocab_size=vocab_size, settings=SETTINGS)


def test_tokens_are_brackets_and_words_and_a_symbol_for_rare_ones():
    tokenizer = train()

    assert tokenizer.pieces(tokenizer.encode(TREES[0])) == [
        *("(S", "(NP", "a", "XX", ")NP", "(VP", "XX", ")VP", ")S")
    ]
    assert tokenizer.encode("") == tokenizer.encode(" \t") == []


def test_a_word_that_looks_like_a_special_symbol_is_a_rare_word():
    tokenizer = train(["(S (NN <s>) (NN </s>))"] * 3)

    found = tokenizer.encode("(S (NN <s>) (NN </s>))")
    assert tokenizer.pieces(found) == ["(S", "XX", "XX", ")S"]


def test_decoding_gives_a_tree_with_a_symbol_for_tags():
    tokenizer = train()

    assert tokenizer.decode(tokenizer.encode(TREES[2])) == "(S (NP (XX a)))"
    assert tokenizer.decode(tokenizer.encode(TREES[0])[:3]) == "(S (NP a"
    assert tokenizer.decode([]) == ""


@given(trees())
def test_decoding_is_the_inverse_but_for_tags_and_rare_words(tree):
    tokenizer = train([str(tree)] * 2)
    found = parse_tree(tokenizer.decode(tokenizer.encode(str(tree))))

    assert linearize(with_words(found, tree.words)) == linearize(tree)
    assert all(
        one in (other, "XX") for one, other in zip(found.words, tree.words, strict=True)
    )


def test_a_small_vocabulary_has_both_brackets_of_the_most_frequent_labels():
    tokenizer = train(vocab_size=10)

    assert tokenizer.vocabulary.pieces[4:] == ("XX", "(NP", ")NP", "(S", ")S", "a")
    assert tokenizer.notes == ("labels too rare to get an entry: 1 (vocab_size=10)",)
    assert tokenizer.encode("(VP (VB c))")[0] == UNKNOWN


def test_what_is_no_tree_is_refused():
    with pytest.raises(DataError, match="line 1, column 1"):
        train().encode("no tree")
    with pytest.raises(DataError, match="there is no tree"):
        train(["", " "])


def test_it_is_opened_as_it_was_saved(tmp_path):
    tokenizer = train()
    tokenizer.save(tmp_path / "brackets.json")
    again = TreeTokenizer.open(tmp_path / "brackets.json", SETTINGS)

    assert again.vocabulary == tokenizer.vocabulary
