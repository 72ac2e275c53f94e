"""Variants learn, and a run of one resumes bit for bit."""

from dataclasses import replace

import pytest
import torch
from tests.model.variant_choices import CHOICES, CONCATENATED, EACH
from tests.run_folder.test_run import SHORT, Recorder, assert_same, weights
from tests.training.conftest import QUICK, SMALL, assert_same_weights, weights_of
from torch.nn import functional as F

from headwise.errors import SettingsError, Stopped
from headwise.model.transformer import Transformer
from headwise.recipe import resolve
from headwise.run_folder.run import train_run
from headwise.tasks.translation.task import Translation
from headwise.training.distributed import Ranks
from headwise.training.gradient_accumulation import GradientAccumulator
from headwise.training.optimizer import _inner_matrices

RESUMED = {
    "batch normalization": {"norm_kind": "batch"},
    "T5": {"positions": "t5", "attention": "cosine", "feed_forward": "geglu"},
    "Shaw, window": {"positions": "shaw", "attention_window": 3},
}


def recipe_of(corpus, model, **training):
    settings = corpus.fields["settings"]
    changed = {
        **SHORT,
        "model": {**SHORT["model"], "dropout": 0.1, **model},
        "training": {**SHORT["training"], **training},
    }
    return resolve(extra={**changed, **settings})


@pytest.mark.parametrize("model", RESUMED.values(), ids=RESUMED)
def test_an_interrupted_run_is_the_same_run_bit_for_bit(tmp_path, corpus, model):
    recipe = recipe_of(corpus, model)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train_run(whole, recipe, corpus, callbacks=[Recorder()])
    with pytest.raises(Stopped):
        train_run(stopped, recipe, corpus, callbacks=[Recorder(stop_after=3)])

    train_run(stopped, recipe, corpus, callbacks=[Recorder()])

    assert_same(weights(whole, 8), weights(stopped, 8))


def test_an_update_that_is_stopped_halfway_leaves_no_statistics(make_trainer):
    """Two batches an update, stopped between them, and then made again."""
    settings = replace(QUICK, accumulate=2, batch_tokens=128)
    config = replace(SMALL, norm_kind="batch")
    whole, stopped = (make_trainer(settings, config=config) for _ in range(2))
    whole.run()
    before = weights_of(stopped)
    calls = []
    check = stopped.gradients.check_stop

    def check_stop():
        calls.append(None)
        if len(calls) == 2:
            raise Stopped("stopped")
        check()

    stopped.gradients.check_stop = check_stop
    with pytest.raises(Stopped):
        stopped.run()
    assert_same_weights(weights_of(stopped), before)
    again = make_trainer(settings, config=config, weights=before)
    again.run()

    assert_same_weights(weights_of(again), weights_of(whole))


def test_the_start_of_training_says_why_pytorch_trains(tmp_path, corpus):
    recorder = Recorder()
    recipe = recipe_of(corpus, {"attention": "cosine"}, steps=4)
    train_run(tmp_path / "run", recipe, corpus, callbacks=[recorder])
    assert (
        "training by PyTorch: model.attention = 'cosine': variants, which only the "
        "model itself computes"
    ) in recorder.said


@EACH
def test_the_loss_falls(choice):
    """Reversed sequences, of which without order at least the words can be told."""
    shape = replace(SMALL, d_model=32, num_heads=4, dropout=0.0)
    model = Transformer(replace(shape, **choice), 11, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(60):
        source = torch.randint(3, 7, (16, 5), generator=generator)
        target = source.flip(1)
        logits = model(source, F.pad(target, (1, 0), value=1)[:, :-1], source > 0)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_every_choice_of_a_recipe_is_refused_where_it_cannot_be_trained(corpus):
    refused = {
        "backend": ["native", "torch_compile"],
        "devices": ["shard"],
    }
    for name, values in refused.items():
        for value in values:
            with pytest.raises(SettingsError) as error:
                recipe_of(corpus, {"positions": "alibi"}, **{name: value})
            assert any(
                f"training.{name} = {value!r} has no code for model.positions = 'alibi'"
                in each
                for each in error.value.problems
            )


def test_batch_normalization_is_refused_where_statistics_would_be_wrong(corpus):
    for name, value in (("activation_checkpointing", True), ("processes", 2)):
        with pytest.raises(SettingsError, match=f"training.{name} = .* more than once"):
            recipe_of(corpus, {"norm_kind": "batch"}, **{name: value})
    recipe_of(corpus, {"norm_kind": "rms"}, activation_checkpointing=True)


def test_fractions_of_a_decoder_must_reach_the_longest_translation(corpus):
    with pytest.raises(SettingsError, match="which is beyond the fractions"):
        recipe_of(corpus, {"positions": "fraction", "max_positions": 8})


def test_two_windows_of_one_attention_are_refused_before_text_is_read():
    """One of the task, by a mask, and one of the model."""
    with pytest.raises(SettingsError, match="are two windows of one attention"):
        resolve(
            extra={
                "task": "language_model",
                "model": {"encoder_layers": 0, "attention_window": 5},
                "language_model": {"window": 3},
            }
        )


def accumulator(corpus, model, settings, ranks=None):
    task = Translation(corpus.tokenizers)
    return GradientAccumulator(
        task,
        task.new_model(replace(SMALL, **model), seed=1),
        settings,
        seed=1,
        ranks=ranks or Ranks(),
        on_message=lambda text: None,
        check_stop=lambda: None,
    )


@pytest.mark.parametrize("backend", ["native", "torch_compile"])
def test_from_python_a_backend_without_code_for_it_is_refused_too(corpus, backend):
    with pytest.raises(SettingsError, match=r"used: model\.attention = 'cosine'"):
        accumulator(corpus, {"attention": "cosine"}, replace(QUICK, backend=backend))


def test_workers_train_variants_but_not_the_statistics_of_batches(corpus):
    several = replace(QUICK, processes=2)
    for model, count in (({"positions": "t5"}, 2), ({"norm_kind": "batch"}, 1)):
        made = accumulator(corpus, model, several)
        assert made._runner.num_workers == count
        made.close()


def test_batch_normalization_has_no_ranks(corpus):
    with pytest.raises(SettingsError, match="trains in one process, not 2"):
        accumulator(corpus, {"norm_kind": "batch"}, QUICK, Ranks(size=2))


def test_a_choice_that_needs_another_brings_it():
    assert CHOICES["residual = positions"] == {"residual": "positions", **CONCATENATED}


def test_muon_updates_projections_and_gates_but_no_tables_of_positions():
    shape = replace(SMALL, positions="shaw", feed_forward="glu")
    model = Transformer(shape, 11, seed=1)
    of_muon = {id(each) for each in _inner_matrices(model)}
    names = {n for n, weight in model.named_parameters() if id(weight) in of_muon}

    assert {"to_queries", "to_output", "gate", "widen", "narrow"} <= {
        each.split(".")[-2] for each in names
    }
    assert not any("relative_positions" in each for each in names)
