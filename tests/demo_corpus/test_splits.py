"""The parts of the corpus: distinct, repeatable, and truly held out."""

import itertools
import re

import pytest

from headwise.demo_corpus import (
    EXAMPLES,
    demo_corpus,
    generate,
    is_held_out,
    splits,
    write,
)
from headwise.errors import UsageError

PARTS = ("train", "dev", "held_out")


def words(sentence):
    return re.findall(r"[^\W\d_]+", sentence.lower())


def combinations(pairs):
    return {combination for pair in pairs for combination in pair.combinations}


def test_the_same_seed_gives_the_same_corpus():
    once = demo_corpus(200, 50, seed=3, num_dev=20)
    again = demo_corpus(200, 50, seed=3, num_dev=20)
    other = demo_corpus(200, 50, seed=4, num_dev=20)
    assert once == again
    assert once != other


def test_a_seed_means_the_same_everywhere():
    """A recorded sentence, so that no version of Python changes the corpus unseen."""
    pair = demo_corpus(4, 0, seed=1, num_dev=0).train[0]
    assert (pair.english, pair.french) == (
        "My horse didn't break the lamps.",
        "Mon cheval n'a pas cassé les lampes.",
    )


def test_the_sizes_are_as_asked(corpus):
    assert [len(getattr(corpus, part)) for part in PARTS] == [20_000, 500, 1_000]


def test_no_sentence_occurs_twice(corpus):
    sentences = [pair.english for part in PARTS for pair in getattr(corpus, part)]
    assert len(set(sentences)) == len(sentences)


def test_held_out_combinations_never_occur_in_training(corpus):
    seen = combinations(corpus.train) | combinations(corpus.dev)
    assert not any(is_held_out(combination) for combination in seen)
    for pair in corpus.held_out:
        new = [c for c in pair.combinations if is_held_out(c)]
        assert new
        assert not seen & set(new)


@pytest.mark.parametrize("language", ["english", "french"])
def test_every_held_out_word_occurs_in_training(corpus, language):
    known = {word for pair in corpus.train for word in words(getattr(pair, language))}
    for pair in corpus.held_out:
        assert set(words(getattr(pair, language))) <= known


def test_the_famous_animal_is_held_out(corpus):
    assert is_held_out(("animal", "cross", "street"))
    trained = {pair.english for pair in corpus.train}
    shown = [pair.english for pair in EXAMPLES[:2]]
    assert shown == [
        "The animal didn't cross the street because it was too tired.",
        "The animal didn't cross the street because it was too wide.",
    ]
    assert not trained & set(shown)


@pytest.mark.parametrize("language", ["english", "french"])
def test_the_examples_hold_no_word_that_training_lacks(corpus, language):
    known = {word for pair in corpus.train for word in words(getattr(pair, language))}
    for example in EXAMPLES:
        assert set(words(getattr(example, language))) <= known


def test_no_example_is_in_any_part_even_if_it_is_drawn(monkeypatch):
    """The first sentence of a corpus, made an example, is drawn and passed over."""
    shown = demo_corpus(50, 0, seed=1, num_dev=0).train[0]
    monkeypatch.setattr(splits, "EXAMPLES", (shown,))

    without = demo_corpus(50, 20, seed=1, num_dev=20)

    everything = [pair for part in PARTS for pair in getattr(without, part)]
    assert shown.english not in {pair.english for pair in everything}


def test_the_stream_is_endless_distinct_and_repeatable():
    first = list(itertools.islice(generate(5), 2_000))
    again = list(itertools.islice(generate(5), 2_000))
    assert first == again
    assert len({pair.english for pair in first}) == 2_000
    share = sum(pair.pronoun is not None for pair in first) / 2_000
    assert 0.14 < share < 0.26


def test_the_stream_keeps_to_its_side():
    trained = list(itertools.islice(generate(5), 500))
    held_out = list(itertools.islice(generate(5, held_out=True), 100))
    assert not any(is_held_out(c) for c in combinations(trained))
    for pair in held_out:
        assert any(is_held_out(c) for c in pair.combinations)


def test_files_are_aligned_line_by_line(tmp_path):
    corpus = write(tmp_path, num_train=300, num_held_out=100, num_dev=30, seed=2)
    for part, pairs in (
        ("train", corpus.train),
        ("dev", corpus.dev),
        ("heldout", corpus.held_out),
    ):
        english = (tmp_path / f"{part}.en").read_text(encoding="utf-8").split("\n")
        french = (tmp_path / f"{part}.fr").read_text(encoding="utf-8").split("\n")
        assert english == [*(pair.english for pair in pairs), ""]
        assert french == [*(pair.french for pair in pairs), ""]
    lines = (tmp_path / "pronouns.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows) == sum(pair.pronoun is not None for pair in corpus.held_out)
    for english, french, expected in rows:
        assert " it " in english
        assert f"parce qu'{expected} " in french


def test_a_negative_size_is_refused_with_its_name():
    with pytest.raises(UsageError, match="num_train must be 0 or more, not -1"):
        demo_corpus(num_train=-1)
