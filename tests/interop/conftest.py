"""Folders to export: the trained model of the repository, and chance weights."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.tiny import WORDS
from torch.nn.utils.rnn import pad_sequence

from headwise.decoding.settings import DecodingSettings
from headwise.demo_corpus import demo_corpus
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.run_folder.model_folder import (
    ModelFacts,
    ModelFolder,
    open_model_folder,
    write_model_folder,
)
from headwise.tasks.translation.task import Translation
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

DEMO = Path(__file__).parents[1] / "models" / "demo"

SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "d_model": 16,
    "d_ff": 24,
    "num_heads": 4,
    "dropout": 0.0,
}


@dataclass(frozen=True)
class Trained:
    """The trained model, 500 sentences it never saw, and what it makes of them."""

    opened: ModelFolder
    sentences: list[str]
    ids: list[list[int]]

    def search(self, beam):
        settings = DecodingSettings(beam=beam)
        found = self.opened.task.search(self.opened.model, self.ids, settings)
        return [best for (best,) in found]

    def decode(self, hypotheses):
        return [self.opened.task.decode(each) for each in hypotheses]


@pytest.fixture(scope="package")
def trained():
    opened = open_model_folder(DEMO)
    held_out = demo_corpus(num_train=0, num_dev=0, num_held_out=500, seed=7).held_out
    sentences = [pair.english for pair in held_out]
    return Trained(opened, sentences, opened.task.encode(sentences))


@pytest.fixture(scope="package")
def ours(trained):
    """Return what the trained model writes, greedy and with a beam of 4."""
    return {beam: trained.search(beam) for beam in (1, 4)}


@pytest.fixture(scope="package")
def tokenizers():
    """Return a function that trains small tokenizers, each kind once."""
    lines = [f"{english} {german}" for english, german in WORDS.items()]
    pairs = [(line.split()[0], line.split()[1]) for line in lines] * 3
    made = {}

    def train(**text):
        settings = TextSettings(**{"vocab_size": 40, **text})
        if settings not in made:
            made[settings] = train_tokenizers(lambda: pairs, settings, seed=1)
        return made[settings]

    return train


@pytest.fixture
def chance_model(tmp_path, tokenizers):
    """Return a function that writes and opens a folder of a model nobody trained."""

    def make(*, text=None, decoding=None, **changes):
        pair = tokenizers(**(text or {}))
        config = TransformerConfig(**{**SMALL, **changes})
        model = Transformer(config, pair.source.size, pair.target.size, seed=1)
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
        write_model_folder(
            tmp_path / "model",
            model=model.eval(),
            task=Translation(pair),
            decoding=decoding or DecodingSettings(),
            facts=ModelFacts(
                source_vocab_size=pair.source.size,
                target_vocab_size=pair.target.size,
                longest_source=12,
                longest_target=14,
            ),
            card="# chance\n",
        )
        return open_model_folder(tmp_path / "model")

    return make


def in_batches(trained, targets, size=50):
    """Yield places, sources and what precedes each token of the targets, all padded.

    Similar lengths go together: the logits of hundreds of sentences in a few calls.
    """
    order = sorted(range(len(targets)), key=lambda n: len(trained.ids[n]))
    for first in range(0, len(order), size):
        places = order[first : first + size]
        yield (
            places,
            padded([[*trained.ids[n], END] for n in places]),
            padded([[START, *targets[n]] for n in places]),
        )


def padded(rows):
    """Return rows of tokens as one tensor."""
    return pad_sequence([torch.tensor(row) for row in rows], True, PAD)


def our_logits_of(trained, targets):
    """Return the logits [1 + length, vocabulary] after START and each token."""
    found = {}
    for places, sources, before in in_batches(trained, targets):
        with torch.inference_mode():
            logits = trained.opened.model(sources, before, sources != PAD)
        for row, number in enumerate(places):
            found[number] = logits[row, : len(targets[number]) + 1].numpy()
    return [found[number] for number in range(len(targets))]


CHANCE_SOURCES = [[5, 9, 17], [21, 4, 8, 11, 30, 6], [7], [12, 12, 33, 10, 5]]
CHANCE_TARGETS = [[8, 4], [9, 30, 31, 5, 22, 7, 6], [6, 6, 6], [11]]


def in_vocabulary(rows, size):
    """Return ids that stand for text in a vocabulary of ``size`` entries."""
    first = UNKNOWN + 1
    return [[first + token % (size - first) for token in row] for row in rows]
