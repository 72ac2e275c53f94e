"""Training with R-Drop and SimCut: what both passes share, wherever a batch goes."""

import json
from dataclasses import replace

import pytest
import torch
from tests.training.conftest import QUICK, SMALL, Recorder, weights_of
from tests.training.test_distributed import assert_same, trained

from headwise.data.batches import make_batch
from headwise.errors import SettingsError
from headwise.recipe import resolve
from headwise.training.dry_run_estimate import dry_run_report
from headwise.training.memory_estimate import MemoryEstimator
from headwise.training.micro_batch import MicroBatchRunner
from headwise.training.step_result import SummedLoss

STILL = replace(SMALL, dropout=0.0)
R_DROP, SIMCUT = {"r_drop": 5.0}, {"simcut": 3.0, "simcut_rate": 0.3}
FORMS = pytest.mark.parametrize("form", [R_DROP, SIMCUT], ids=["R-Drop", "SimCut"])
BACKENDS = pytest.mark.parametrize("backend", ["native", "torch", "reference"])


def first_batch(trainer):
    return make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))


def gradients_of(trainer, batch):
    loss = trainer.gradients.accumulate([(0, batch)], step=1, divisor=7.0)
    return loss, {n: p.grad.clone() for n, p in trainer.model.named_parameters()}


@pytest.mark.usefixtures("uses_native_backend")
@BACKENDS
def test_without_dropout_r_drop_is_training_with_half_the_batch(make_trainer, backend):
    """Both passes are the same then, and both count in ``batch_tokens``."""
    plain, twice = Recorder(), Recorder()
    settings = replace(QUICK, backend=backend)
    one = make_trainer(settings, config=STILL, callback=plain)
    one.run()
    doubled = replace(settings, batch_tokens=2 * QUICK.batch_tokens, **R_DROP)
    other = make_trainer(doubled, config=STILL, callback=twice)
    other.run()

    assert [each.kl_divergence for each in plain.updates] == [None] * 6
    most = max(each.kl_divergence for each in twice.updates)
    assert most == 0 if backend == "native" else most < 1e-9
    assert twice.losses == pytest.approx(plain.losses, rel=1e-5)
    assert [each.tokens for each in twice.updates] == [
        each.tokens for each in plain.updates
    ]
    for name, weight in weights_of(one).items():
        torch.testing.assert_close(weights_of(other)[name], weight, rtol=0, atol=2e-4)


@pytest.mark.usefixtures("uses_native_backend")
@FORMS
@BACKENDS
def test_the_divergence_is_a_number_of_its_own(make_trainer, form, backend):
    """The loss is the cross-entropy, so it can be compared with that of other runs."""
    trainer = make_trainer(replace(QUICK, backend=backend, **form))
    batch = first_batch(trainer)
    sums, _ = gradients_of(trainer, batch)
    part = trainer.gradients._runner.loss(batch, 1, 0, 0)
    weight = {"r_drop": 2.5, "simcut": 3.0}[next(iter(form))]

    assert sums.kl_divergence > 0
    assert sums.kl_divergence == pytest.approx(part.kl_divergence.item())
    total = sums.loss + weight * sums.kl_divergence
    assert part.total.item() == pytest.approx(total)
    metrics = Recorder()
    make_trainer(replace(QUICK, backend=backend, **form), callback=metrics).run()
    assert all(0 < each.kl_divergence < 1 for each in metrics.updates)


@FORMS
def test_both_passes_stay_together_in_micro_batches(make_trainer, form):
    """Without dropout and cuts their divergence is 0, however a batch is split."""
    trainer = make_trainer(
        replace(QUICK, **{**form, "simcut_rate": 1e-9}), config=STILL
    )
    batch = first_batch(trainer)
    loss, expected = gradients_of(trainer, batch)
    trainer.gradients._max_padded_tokens = batch.padded_tokens // 3
    split, found = gradients_of(trainer, batch)

    assert (
        len(trainer.gradients._runner.micro_batches(batch, batch.padded_tokens // 3))
        > 2
    )
    assert split.kl_divergence == loss.kl_divergence == 0
    assert split.loss == pytest.approx(loss.loss, rel=1e-6)
    for name, gradient in expected.items():
        worst = (found[name] - gradient).abs().max()
        assert worst < 3e-6 * gradient.abs().max(), name


@FORMS
def test_workers_share_the_examples_of_a_batch(make_trainer, form):
    """Each worker doubles its part; the sums are those of the parts run one by one."""
    settings = replace(QUICK, processes=2, **form)
    trainer = make_trainer(settings)
    batch = first_batch(trainer)
    try:
        together, found = gradients_of(trainer, batch)
    finally:
        trainer.gradients.close()
    trainer.model.zero_grad()
    apart = SummedLoss(0.0)
    for worker, part in enumerate(batch.deal(2)):
        runner = MicroBatchRunner(
            trainer.task.loss,
            trainer.model,
            settings,
            seed=trainer.seed,
            worker=worker,
            num_workers=2,
            two_pass_loss=trainer.task.two_pass_loss,
        )
        apart += runner.run([part], 1 / 7.0, 1, 0)

    assert together.kl_divergence > 0
    assert together.loss == pytest.approx(apart.loss, rel=1e-6)
    assert together.kl_divergence == pytest.approx(apart.kl_divergence, rel=1e-5)
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5)


def divergences(run):
    entries = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [each["kl_divergence"] for each in entries if each["what"] == "update"]


@FORMS
def test_two_ranks_are_one_process_with_two_batches_an_update(corpus, tmp_path, form):
    alone, together = tmp_path / "alone", tmp_path / "together"
    trained(corpus, alone, **form)
    trained(corpus, together, ranks=2, **form)

    assert_same(alone, together)
    assert divergences(alone) == divergences(together)
    assert min(divergences(alone)) > 0


def test_shards_have_the_loss_of_whole_weights(corpus, tmp_path):
    whole, sharded = tmp_path / "whole", tmp_path / "sharded"
    options = {"ranks": 2, "backend": "torch", "steps": 3, **R_DROP}
    trained(corpus, whole, **options)
    trained(corpus, sharded, devices="shard", **options)

    assert divergences(sharded) == pytest.approx(divergences(whole), rel=1e-4)


@FORMS
def test_the_dry_run_makes_both_passes(make_trainer, form):
    settings = replace(QUICK, **form)
    trainer = make_trainer(settings)
    estimator = MemoryEstimator(
        *(trainer.task, trainer.model, trainer.corpus, settings),
        trainer.gradients,
        future_copies=2,
    )
    run = trainer.gradients._runner
    sizes = []
    original = run._two_pass_loss

    def note(model, batch, **options):
        sizes.append(batch.padded_tokens)
        return original(model, batch, **options)

    run._two_pass_loss = note
    found = dry_run_report(estimator, seed=1)

    assert found.updates_an_epoch == trainer.order.num_batches(0)
    assert found.updates_an_epoch > make_trainer().order.num_batches(0)
    assert QUICK.batch_tokens / 2 < max(sizes) <= QUICK.batch_tokens


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            {"training": {"r_drop": 5.0}, "model": {"dropout": 0.0}},
            r"r_drop = 5.0 does nothing without dropout",
        ),
        (
            {"task": "regression", "training": {"r_drop": 5.0}},
            r"r_drop is for .* task = translation, .* not 'regression'; leave it out",
        ),
        (
            {"task": "masked_language_model", "training": {"simcut": 5.0}},
            r"simcut is for .* not 'masked_language_model'; leave it out",
        ),
        (
            {"task": "captioning", "training": {"simcut": 3.0}},
            r"simcut cuts tokens of a text, and 'captioning' reads pictures",
        ),
    ],
)
def test_a_recipe_in_which_two_passes_cannot_work_is_refused(extra, said):
    with pytest.raises(SettingsError, match=said):
        resolve(preset="micro", extra=extra)
