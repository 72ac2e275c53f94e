"""``data.both_directions``: each training pair, and its reverse."""

from dataclasses import replace

import pytest
from tests.data.test_prepare import WORDS, corpus, decoded, done, pairs  # noqa: F401

from headwise.data.pair_formats import LABELLED_TEXT
from headwise.data.prepare import fingerprint, prepare
from headwise.data.settings import DataSettings
from headwise.errors import SettingsError
from headwise.recipe import resolve
from headwise.text.placeholders import PLACEHOLDER
from headwise.text.settings import TextSettings

JOINT = replace(WORDS, joint=True)
ADDRESSES = [(f"write to a{n}@b.org", f"an a{n}@b.org schreiben") for n in range(40)]


def reverse(rows):
    return [(target, source) for source, target in rows]


def sides(prepared):
    return (
        decoded(prepared.train, prepared.tokenizers),
        decoded(prepared.dev, prepared.tokenizers),
    )


def test_each_training_pair_is_followed_by_its_reverse(corpus, done):  # noqa: F811
    there = done(corpus("train", pairs(100)), text=JOINT, dev_pairs=10)
    one_way, dev = sides(there)
    facts = done(
        corpus("train", pairs(100)), text=JOINT, dev_pairs=10, both_directions=True
    )
    both_ways, same_dev = sides(facts)

    assert len(one_way) == 90
    assert both_ways[0::2] == one_way
    assert both_ways[1::2] == reverse(one_way)
    assert same_dev == dev


def test_no_reverse_of_a_validation_pair_is_trained_on(corpus, done):  # noqa: F811
    found = done(
        corpus("train", pairs(100)), text=JOINT, dev_pairs=10, both_directions=True
    )
    train, dev = sides(found)

    assert len(dev) == 10
    assert not set(dev + reverse(dev)) & set(train)


def test_weights_and_counts_are_of_both_directions(corpus, done):  # noqa: F811
    """A corpus of 30 pairs and one of 20, the second at twice the weight."""
    first = corpus("first", pairs(30))
    second = corpus("second", pairs(20, start=30), weight=2.0)
    dev = corpus("dev", pairs(5, start=60))
    said = []
    found = done(
        first, second, text=JOINT, dev=dev, both_directions=True, say=said.append
    )

    one, two = found.facts.corpora
    assert [(x.train, x.reversed, x.examples) for x in (one, two)] == [
        *((30, 30, 60), (20, 20, 40))
    ]
    assert two.first_pair == 60
    assert found.facts.train.pairs == 100
    assert found.facts.train.source_tokens == found.facts.train.target_tokens
    ranges = [(x.start, x.stop, x.weight) for x in found.train.ranges]
    assert ranges == [(0, 60, 1.0), (60, 100, 2.0)]
    assert any("30 for training in both directions" in each for each in said)


def test_both_directions_have_placeholders(corpus, done):  # noqa: F811
    text = TextSettings(vocab_size=120, placeholders=1.0)
    dev = corpus("dev", pairs(5))
    found = done(corpus("train", ADDRESSES), text=text, dev=dev, both_directions=True)
    train, _ = sides(found)

    there = (f"write to {PLACEHOLDER}", f"an {PLACEHOLDER} schreiben")
    assert set(train[0::2]) == {there}
    assert set(train[1::2]) == set(reverse([there]))


@pytest.mark.parametrize(
    ("text", "pair_format"),
    [(replace(WORDS, joint=False), None), (JOINT, LABELLED_TEXT)],
)
def test_two_vocabularies_and_labels_are_refused(
    corpus,  # noqa: F811
    tmp_path,
    text,
    pair_format,
):
    data = DataSettings(corpora=(corpus("train", pairs(100)),), both_directions=True)
    chosen = {} if pair_format is None else {"pair_format": pair_format}

    with pytest.raises(SettingsError, match="one vocabulary of both languages"):
        prepare(data, text, tmp_path / "prepared", seed=1, **chosen)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"text": {"joint": False}, "model": {"tie_embeddings": "output"}}, "joint"),
        ({"task": "classification"}, "those of task = 'translation', not"),
    ],
)
def test_a_recipe_says_so_before_anything_is_read(table, problem):
    with pytest.raises(SettingsError, match=problem):
        resolve(extra={**table, "data": {"both_directions": True}})


def test_the_fingerprint_of_other_corpora_is_what_it_was(corpus):  # noqa: F811
    """It has no key for the setting, as before there was one."""
    one = DataSettings(corpora=(corpus("train", pairs(9)),))
    names = {
        fingerprint(each, JOINT, seed=1)
        for each in (one, replace(one, both_directions=False))
    }

    assert len(names) == 1
    assert fingerprint(replace(one, both_directions=True), JOINT, seed=1) not in names
