"""A treebank as pairs: the words of a sentence, and its tree."""

import gzip

import pytest

from headwise.data.corpus_reader import count_pairs, read_pairs
from headwise.data.pair_formats import TREES
from headwise.data.prepare import prepare
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import DataError, SettingsError
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers

TREEBANK = """( (S (NP-SBJ-1 (DT the) (NN dog))
     (VP (VBZ barks) (-LRB- -LRB-) (NP (-NONE- *T*-1)))) )
( (X (-NONE- *)) ) (TOP (NP (NN cat)))
"""

TEXT = TextSettings(
    tokenizer="words", target_tokenizer="trees", joint=False, vocab_size=30
)


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text(TREEBANK, encoding="utf-8")
    return path


def test_pairs_are_words_and_normalized_trees(treebank):
    """Traces, function tags and the root are gone; brackets in words are themselves."""
    notes = []
    first, empty, last = read_pairs(
        CorpusSettings(source=str(treebank)), note=notes.append
    )

    assert first.source == "the dog barks ("
    assert first.target == ("(S (NP (DT the) (NN dog)) (VP (VBZ barks) (-LRB- -LRB-)))")
    assert empty.is_empty
    assert (last.source, last.target) == ("cat", "(NP (NN cat))")
    assert [each.line for each in (first, empty, last)] == [1, 3, 3]
    assert notes == [f"{treebank}: trees without a word, which are left out: 1"]


def test_trees_are_counted_not_lines(treebank):
    assert count_pairs(CorpusSettings(source=str(treebank))) == 3


def test_gzip_and_names_of_any_kind(treebank, tmp_path):
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(treebank.read_bytes()))

    found = list(read_pairs(CorpusSettings(source=str(path), format="trees")))
    assert found == list(read_pairs(CorpusSettings(source=str(treebank))))


def test_several_words_in_a_bracket_are_joined_if_asked(tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text("(NP (NN ice cream))", encoding="utf-8")

    with pytest.raises(DataError, match=r"line 1, column 13: .*join_words"):
        list(read_pairs(CorpusSettings(source=str(path))))
    (pair,) = read_pairs(CorpusSettings(source=str(path), join_words="_"))
    assert pair.source == "ice_cream"


def test_join_words_is_for_treebanks_and_joins_to_one_word():
    with pytest.raises(SettingsError, match="is for treebanks"):
        CorpusSettings(source="a.tsv", join_words="_")
    with pytest.raises(SettingsError, match="must have no white space"):
        CorpusSettings(source="a.mrg", join_words=" ")


def tokenizers():
    pairs = [("the dog (", "(S (NP (DT the) (NN dog)) (-LRB- -LRB-))")]
    return train_tokenizers(lambda: pairs, TEXT, seed=1)


def test_a_pair_becomes_tokens_of_words_and_of_brackets():
    """A word that is not in the vocabulary has a token all the same."""
    both = tokenizers()
    source, target = TREES.encode(
        both, "the ( new", "(S (DT the) (-LRB- -LRB-) (NN new))"
    )

    assert len(source) == 3
    assert both.target.pieces(target) == ["(S", "XX", "XX", "XX", ")S"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("the", "1 word and its tree 2"),
        ("the cat", "word 2 is 'cat' in the sentence and 'dog' in its tree"),
    ],
)
def test_a_tree_over_other_words_is_refused(source, message):
    with pytest.raises(DataError, match=message):
        TREES.encode(tokenizers(), source, "(NP (DT the) (NN dog))")


def test_a_no_break_space_is_part_of_a_word():
    source, _ = TREES.encode(tokenizers(), "10\u00a0km", "(NP (CD 10\u00a0km))")

    assert source


def test_a_prepared_treebank_keeps_gold_tags_for_scores(tmp_path):
    trees = [f"(S (NP (NN w{n})) (. .))\n" for n in range(30)]
    (tmp_path / "a.mrg").write_text("".join(trees) + "((X (-NONE- *)))\n")
    data = DataSettings(
        corpora=(CorpusSettings(source=str(tmp_path / "a.mrg")),), dev_pairs=3
    )
    said = []
    corpus = prepare(
        data, TEXT, tmp_path / "out", seed=1, pair_format=TREES, say=said.append
    )

    sources, references = corpus.dev_text
    assert len(references) == 3
    assert all("(. .)" in each for each in references)
    assert all(each.endswith(" .") for each in sources)
    assert corpus.facts.corpora[0].empty == 1
    dropped = (tmp_path / "out" / "dropped.tsv").read_text().splitlines()[1]
    assert dropped.split("\t")[1:3] == ["31", "empty"]
    assert any("trees without a word" in each for each in said)
