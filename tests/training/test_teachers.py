"""Training with teachers: what their divergence does to a run, and what excludes it."""

from dataclasses import replace

import pytest
import torch
from tests.training.conftest import (
    QUICK,
    SMALL,
    Recorder,
    assert_same_weights,
    weights_of,
)

from headwise.backends.distillation import WHY_NOT_NATIVE, Teachers
from headwise.data.batches import make_batch
from headwise.errors import SettingsError
from headwise.tasks.translation.task import Translation

TAUGHT = replace(QUICK, teacher=("t",), teacher_weight=0.4)


@pytest.fixture
def teachers(corpus):
    """Return one teacher, wider than the student and with weights of its own."""

    def make(weight=TAUGHT.teacher_weight):
        task = Translation(corpus.tokenizers)
        return Teachers([task.new_model(replace(SMALL, d_model=24), seed=9)], weight)

    return make


class Listener(Recorder):
    def __init__(self):
        super().__init__()
        self.said = []

    def on_message(self, text):
        self.said.append(text)


def test_the_loss_of_a_run_is_the_cross_entropy_and_the_divergence_beside_it(
    make_trainer, teachers
):
    listener = Listener()
    trainer = make_trainer(TAUGHT, callback=listener, teachers=teachers())
    before = weights_of(trainer)
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    trainer.run()

    student = trainer.model.train()
    student.load_state_dict(before)
    first = listener.updates[0]
    assert first.kl_divergence > 0.1
    assert listener.said == [f"training by PyTorch: {WHY_NOT_NATIVE}"]
    untaught = Recorder()
    plain = make_trainer(replace(QUICK, backend="torch"), callback=untaught)
    plain.run()
    assert first.loss == pytest.approx(untaught.updates[0].loss, rel=1e-5)
    assert untaught.updates[0].kl_divergence is None
    assert len(batch) > 0


def test_gradients_are_the_weighted_sum_of_both_parts(make_trainer, teachers):
    """Of (1 - w) CE and w KL: those of w = 1 and of no teacher, in these shares."""
    found = {}
    for name, settings, given in (
        ("both", TAUGHT, teachers(0.4)),
        ("teacher", replace(TAUGHT, teacher_weight=1.0), teachers(1.0)),
        ("labels", replace(QUICK, backend="torch"), None),
    ):
        trainer = make_trainer(
            settings, config=replace(SMALL, dropout=0.0), teachers=given
        )
        batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
        trainer.gradients.accumulate([(0, batch)], step=1, divisor=7.0)
        found[name] = [each.grad for each in trainer.model.parameters()]

    for both, teacher, labels in zip(*found.values(), strict=True):
        torch.testing.assert_close(
            both, 0.6 * labels + 0.4 * teacher, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("cut", [1, 3])
def test_an_interrupted_run_is_the_same_run_bit_for_bit(make_trainer, teachers, cut):
    whole, rest = Listener(), Listener()
    uninterrupted = make_trainer(TAUGHT, callback=whole, teachers=teachers())
    uninterrupted.run()
    part = make_trainer(
        replace(TAUGHT, steps=cut, average_last=1),
        callback=Listener(),
        teachers=teachers(),
    )
    part.run()
    state, weights, optimizer = part.checkpoint_writer.saved[-1]

    resumed = make_trainer(
        TAUGHT,
        state=state,
        weights=weights,
        optimizer=optimizer,
        callback=rest,
        teachers=teachers(),
    )
    resumed.run()

    assert rest.losses == whole.losses[cut:]
    assert_same_weights(weights_of(uninterrupted), weights_of(resumed))


def test_a_student_comes_closer_to_its_teacher(make_trainer, teachers):
    """By its distribution alone: the divergence falls, as a loss does."""
    listener = Listener()
    settings = replace(TAUGHT, teacher_weight=1.0, steps=40, validate_every=40)
    make_trainer(settings, callback=listener, teachers=teachers(1.0)).run()

    found = [each.kl_divergence for each in listener.updates]
    assert sum(found[-5:]) < 0.8 * sum(found[:5])


def test_one_process_trains_whatever_the_size_of_batches(make_trainer, teachers):
    settings = replace(TAUGHT, batch_tokens=8192)
    trainer = make_trainer(settings, teachers=teachers())

    assert trainer.gradients.workers._count == 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"backend": "native"}, "C kernels do not return the distribution"),
        ({"backend": "torch_compile"}, "teachers read no packed batches"),
        ({"devices": "shard"}, "each rank runs whole teachers"),
        ({"processes": 2}, "processes = 2 exclude each other"),
        ({"r_drop": 5.0}, "r_drop = 5.0 exclude each other"),
        ({"simcut": 3.0}, "simcut = 3.0 exclude each other"),
        ({"teacher_weight": 0.0}, "teacher_weight must be more than 0 and at most 1"),
        ({"teacher_weight": 1.5}, "teacher_weight must be more than 0 and at most 1"),
        ({"teacher_weight": float("nan")}, "teacher_weight must be more than 0"),
    ],
)
def test_what_excludes_teachers_is_refused_by_name(changes, problem):
    with pytest.raises(SettingsError, match=problem):
        replace(TAUGHT, **changes)
