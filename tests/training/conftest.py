"""A corpus and a model that train in a moment."""

from dataclasses import dataclass, field

import pytest
import torch

from headwise.data.prepare import prepare
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.model import TransformerConfig
from headwise.tasks.translation.task import Translation
from headwise.text.settings import TextSettings
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.trainer import Trainer

SMALL = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.1
)
QUICK = TrainingSettings(
    precision="float32",  # the same on every machine, and exact to six digits
    steps=6,
    batch_tokens=256,
    warmup_steps=3,
    learning_rate=0.01,
    validate_every=3,
    validation_pairs=4,
    average_last=2,
)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, tiny_text):
    source, target = map(str, tiny_text)
    data = DataSettings(corpora=(CorpusSettings(source=source, target=target),))
    folder = tmp_path_factory.mktemp("corpus") / "prepared"
    return prepare(data, TextSettings(vocab_size=50), folder, seed=1)


@dataclass
class InMemoryWriter:
    """A checkpoint writer that keeps everything in memory."""

    saved: list = field(default_factory=list)
    best: list = field(default_factory=list)

    def save(self, state, weights, optimizer, ema):
        copies = [
            {n: t.clone() for n, t in each.items()} for each in (weights, optimizer)
        ]
        self.saved.append((state, *copies))
        self.ema = ema and {name: tensor.clone() for name, tensor in ema.items()}

    def save_best(self, state, model, validation):
        weights = {name: t.clone() for name, t in model.state_dict().items()}
        self.best.append((state, weights, validation))

    def last_weights(self, count):
        return [weights for _, weights, _ in self.saved[-count:]]


@dataclass
class Recorder:
    """A callback that notes everything."""

    updates: list = field(default_factory=list)
    validations: list = field(default_factory=list)
    reason: str = ""

    def on_start(self, state, settings, epoch_batches):
        self.epoch_batches = epoch_batches

    def on_step(self, update, state):
        self.updates.append(update)

    def on_validation(self, validation, state, name, best):
        self.validations.append((name, validation, best))

    def on_message(self, text):
        if not text.startswith(("training by ", "other segmentations ")):
            raise AssertionError(text)

    def on_end(self, state, reason):
        self.reason = reason

    @property
    def losses(self):
        return [update.loss for update in self.updates]


def weights_of(trainer):
    return {name: t.clone() for name, t in trainer.model.state_dict().items()}


def assert_same_weights(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


@pytest.fixture
def make_trainer(corpus):
    def make(
        settings=QUICK,
        *,
        config=SMALL,
        seed=1,
        state=None,
        weights=None,
        optimizer=None,
        callback=None,
        signals=None,
        model=None,
        **others,
    ):
        task = Translation(corpus.tokenizers)
        model = model or task.new_model(config, seed=seed)
        if weights is not None:
            model.load_state_dict(weights)
        return Trainer(
            task,
            model,
            corpus,
            settings,
            seed=seed,
            checkpoint_writer=InMemoryWriter(),
            callbacks=[callback or Recorder()],
            signals=signals or StopSignals(),
            state=state,
            optimizer=optimizer,
            **others,
        )

    return make
