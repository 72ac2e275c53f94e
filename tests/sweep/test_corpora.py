"""Prepared corpora that trials share."""

from dataclasses import replace

import pytest
from tests.tiny import SETTINGS, write_text

from headwise.recipe import resolve
from headwise.sweep.corpora import Corpora


@pytest.fixture
def recipe(tmp_path):
    source, target = map(str, write_text(tmp_path / "text", num_pairs=60))
    data = {"corpora": [{"source": source, "target": target}]}
    return resolve(extra={**SETTINGS, "data": data})


@pytest.fixture
def said():
    return []


@pytest.fixture
def corpora(tmp_path, said):
    return Corpora(tmp_path / "sweep", seed=1, say=said.append)


def test_trials_that_differ_in_model_and_seed_share_one(corpora, recipe, said):
    first = corpora.get(recipe)
    training = replace(recipe.training, learning_rate=0.5)
    second = corpora.get(replace(recipe, seed=2, training=training))

    assert first is second
    assert len([*(corpora.folder / "corpora").iterdir()]) == 1
    assert sum("pairs read" in each for each in said) == 1


def test_other_text_settings_have_another_of_the_same_validation_text(corpora, recipe):
    first = corpora.get(recipe)
    second = corpora.get(replace(recipe, text=replace(recipe.text, vocab_size=45)))

    assert first.name != second.name
    assert first.validation_text == second.validation_text


def test_a_longest_length_that_drops_pairs_changes_the_validation_text(corpora, recipe):
    short = replace(recipe, data=replace(recipe.data, max_tokens=4))

    assert corpora.get(recipe).validation_text != corpora.get(short).validation_text


def test_what_was_prepared_before_is_not_prepared_again(corpora, recipe, said):
    first = corpora.get(recipe)
    again = Corpora(corpora.folder, seed=1, say=said.append).get(recipe)

    assert again == first
    assert "is up to date" in said[-1]
