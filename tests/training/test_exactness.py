"""A run that was cut in two is the same run, bit for bit, however it trains."""

from dataclasses import replace

import pytest
import torch
from tests.torch_threads import torch_threads
from tests.training.conftest import QUICK, Recorder, assert_same_weights, weights_of

from headwise.backends.native import train_batch
from headwise.backends.native import training as native_training
from headwise.backends.native.train_batch import run_in_threads
from headwise.data.source_noise import NoiseSettings
from headwise.training.optimizer import optimizer_tensors

WAYS = {
    "plainly": {},
    "with weight decay": {"weight_decay": 0.3},
    "over several batches an update": {"accumulate": 3},
    "with an EMA": {"ema_decay": 0.9},
    "by Muon": {"optimizer": "muon", "weight_decay": 0.1},
    "with R-Drop": {"r_drop": 5.0},
    "with SimCut": {"simcut": 3.0, "simcut_rate": 0.2},
    "in bfloat16": {"precision": "bf16"},
    "reading ahead": {"data_workers": 3},
    "computing activations again": {"activation_checkpointing": True},
    "in two processes": {"processes": 2},
    "over drawn texts": {
        "bpe_dropout": 0.3,
        "source_noise": NoiseSettings(final_punctuation=0.3, typos=0.3),
        "data_workers": 2,
    },
    "all at once": {
        "processes": 2,
        "simcut": 3.0,
        "accumulate": 2,
        "ema_decay": 0.99,
        "precision": "bf16",
        "data_workers": 2,
        "activation_checkpointing": True,
    },
}


def continued(make_trainer, first, settings=QUICK, **others):
    """Make a trainer that resumes from the checkpoint of ``first``."""
    moments = optimizer_tensors(first.model, first.optimizer)
    return make_trainer(
        settings,
        state=first.state,
        weights=weights_of(first),
        optimizer={name: tensor.clone() for name, tensor in moments.items()},
        ema=first.ema and dict(first.ema.tensors),
        **others,
    )


KERNELS = (
    *("plainly", "over several batches an update", "by Muon", "in two processes"),
    *("with R-Drop", "with SimCut", "over drawn texts"),
)
"""Ways that are tried by kernels in C as well, where PyTorch would be taken."""


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize("way", KERNELS)
def test_a_run_by_kernels_cut_in_two_is_the_same_run(make_trainer, way):
    trainer = make_trainer(replace(QUICK, **WAYS[way]))

    assert "native library " in trainer.gradients.trained_on
    test_a_run_cut_in_two_is_the_same_run(make_trainer, way)


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize("way", KERNELS)
def test_a_run_that_threads_share_cut_in_two_is_the_same_run(
    make_trainer, way, monkeypatch
):
    counts = []

    def run(calls):
        counts.append(len(calls))
        return run_in_threads(calls)

    monkeypatch.setattr(train_batch, "MIN_TOKENS_PER_THREAD", 4)
    monkeypatch.setattr(native_training, "run_in_threads", run)
    with torch_threads(3):
        test_a_run_cut_in_two_is_the_same_run(make_trainer, way)

    assert max(counts) == 3 or way == "in two processes"


@pytest.mark.parametrize("way", WAYS)
def test_a_run_cut_in_two_is_the_same_run(make_trainer, way):
    settings = replace(QUICK, **WAYS[way])
    whole, rest = Recorder(), Recorder()
    uncut = make_trainer(settings, callback=whole)
    uncut.run()
    first = make_trainer(settings, until=4)
    first.run()

    second = continued(make_trainer, first, settings, callback=rest)
    second.run()

    assert rest.losses == whole.losses[4:]
    assert_same_weights(weights_of(uncut), weights_of(second))
    if settings.ema_decay is not None:
        assert_same_weights(uncut.ema.tensors, second.ema.tensors)
        assert not torch.equal(
            uncut.ema.tensors["embeddings.target.vectors"],
            weights_of(uncut)["embeddings.target.vectors"],
        )


@pytest.mark.parametrize("way", ["reading ahead", "computing activations again"])
def test_some_settings_change_nothing_that_is_learned(make_trainer, way):
    settings = replace(QUICK, backend="torch")  # in which all of them are possible
    plain, other = Recorder(), Recorder()
    make_trainer(settings, callback=plain).run()
    make_trainer(replace(settings, **WAYS[way]), callback=other).run()

    assert plain.losses == other.losses


def test_a_run_may_resume_beyond_its_last_step(make_trainer):
    """The schedule goes down to update 6, wherever the run pauses on the way."""
    settings = replace(QUICK, schedule="linear")
    whole, parts = Recorder(), Recorder()
    uncut = make_trainer(settings, callback=whole)
    uncut.run()
    trainer = make_trainer(settings, callback=parts, until=2)
    trainer.run()
    for until in (2, 5, None):  # the same once more changes nothing
        trainer = continued(
            make_trainer, trainer, settings, callback=parts, until=until
        )
        trainer.run()

    assert parts.losses == whole.losses
    assert_same_weights(weights_of(uncut), weights_of(trainer))
