"""Two stages (Ding et al. 2021): both directions first, then one from those weights."""

import numpy as np
import pytest
import torch
from tests.tiny import SETTINGS, write_text

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.inference.translator import load
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import model_path
from headwise.run_folder.run import train_run
from headwise.settings import merged
from headwise.text.tokenizer import digest


class Listener:
    """Keeps what is said, and the weights before the first step."""

    def __init__(self):
        self.said = []

    def on_start(self, *_):
        pass

    def on_step(self, *_):
        pass

    def on_validation(self, *_):
        pass

    def on_message(self, text):
        self.said.append(text)

    def on_end(self, *_):
        pass


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """Return what a first and a second stage of a few steps left."""
    folder = tmp_path_factory.mktemp("stages")
    source, target = map(str, write_text(folder, num_pairs=120))
    data = {"corpora": [{"source": source, "target": target}], "dev_pairs": 12}
    short = {"steps": 4, "validate_every": 2, "learning_rate": 1e-9}
    table = merged(SETTINGS, {"data": data, "training": short})
    first = resolve_checked(extra=merged(table, {"data": {"both_directions": True}}))
    both = prepare_corpus(folder / "both", first)
    train_run(folder / "both", first, both)
    extra = merged(
        {key: table[key] for key in ("data", "training")},
        {"initialize_from": [str(folder / "both")]},
    )
    second = resolve_checked(extra=extra, out=folder / "one")
    one = prepare_corpus(folder / "one", second)
    listener = Listener()
    train_run(folder / "one", second, one, callbacks=[listener])
    return folder, both, one, listener


def test_the_second_stage_has_the_same_vocabulary_and_validation_set(stages):
    _, both, one, _ = stages

    assert digest(one.tokenizers.source) == digest(both.tokenizers.source)
    assert one.facts.joint
    assert one.dev_text == both.dev_text
    assert one.facts.train.pairs == both.facts.train.pairs // 2


def test_the_second_stage_starts_from_the_weights_of_the_first(stages):
    """At a rate of 1e-9 they are where they began: the best of the first stage."""
    folder, _, _, listener = stages
    first = open_model_folder(model_path(folder / "both")).model.state_dict()
    second = open_model_folder(model_path(folder / "one")).model.state_dict()

    assert first.keys() == second.keys()
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight, rtol=0, atol=1e-6)
    started = [each for each in listener.said if "starts from" in each]
    assert len(started) == 2  # encoder and decoder, and all of their tensors
    for each in started:
        found, of = each.split(": ")[1].split(" tensors")[0].split(" of ")
        assert found == of


def test_one_model_is_asked_in_either_direction(stages):
    """Both languages are in its vocabulary, so that no word is unknown."""
    folder, both, _, _ = stages
    translator = load(folder / "both", engine="torch")

    assert len(translator.translate(["one two.", "eins zwei."])) == 2
    for text in ("one two three.", "vier fünf sechs."):
        tokens = np.array(both.tokenizers.source.encode(text))
        assert not (tokens == 3).any()
