"""Answers: prompts, what is never generated, what is refused."""

import json

import pytest
import torch
from tests.tasks.dialogue.tiny import CONFIG

from headwise.errors import SettingsError
from headwise.recipe import resolve
from headwise.tasks.dialogue.task import Answering
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.prediction import InputError
from headwise.text.dialogue import SYMBOLS
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers
from headwise.text.vocabulary import END


@pytest.fixture(scope="module")
def task():
    text = TextSettings(
        tokenizer="characters", normalization="lossless", symbols=SYMBOLS
    )
    tokenizers = train_tokenizers(lambda: [("", "abcdefgh")], text, seed=1)
    return Answering(tokenizers, LanguageModelSettings(), context=64)


def token(task, symbol):
    (found,) = task.tokenizers.target.encode(symbol)
    return found


def test_a_prompt_ends_where_the_answer_begins(task):
    turns = [
        {"role": "system", "text": "a"},
        {"role": "user", "text": "b"},
        {"role": "assistant", "text": "c"},
        {"role": "user", "text": "d"},
    ]
    a, b, c, d = (token(task, each) for each in "abcd")
    system, user, assistant = (token(task, each) for each in SYMBOLS)

    found = task.encode([json.dumps({"turns": turns}), "b"])

    dialogue = [system, a, user, b, assistant, c, END, user, d, assistant]
    assert found == [dialogue, [user, b, assistant]]


def test_no_answer_begins_another_turn(task):
    """The model would write nothing but symbols of roles."""
    model = task.new_model(CONFIG, seed=1).eval()
    symbols = [token(task, each) for each in SYMBOLS]
    with torch.no_grad():
        model.embedding.vectors[symbols] += 1.0

    for each in task.predict(model, ["ab", "h"]):
        assert not any(symbol in each for symbol in SYMBOLS)


def test_a_batch_does_not_change_an_answer(task):
    model = task.new_model(CONFIG, seed=1).eval()
    texts = ["ab", "", "cdefgh", "a"]

    together = task.predict(model, texts)

    assert together == [task.predict(model, [each])[0] for each in texts]
    assert together[1] == ""


def test_input_that_is_no_dialogue_is_named_by_its_index(task):
    model = task.new_model(CONFIG, seed=1).eval()

    with pytest.raises(InputError, match=r"input 3: .* is missing") as error:
        task.predictions(model, ["a", "", '{"text": "a"}'])

    assert error.value.index == 2


def test_a_vocabulary_without_roles_is_refused():
    with pytest.raises(SettingsError, match=r"text.symbols must have <system>, <user>"):
        resolve(
            preset="micro",
            extra={"task": "dialogue", "text": {"symbols": ["<assistant>"]}},
        )


def test_word_dropout_is_refused():
    with pytest.raises(SettingsError, match="'dialogue' has none: leave it out"):
        resolve(
            preset="micro",
            extra={"task": "dialogue", "training": {"word_dropout": 0.1}},
        )
