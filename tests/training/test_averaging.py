"""Checkpoint averaging (Section 6.1), and the EMA of the weights."""

from dataclasses import replace

import pytest
import torch
from tests.training.conftest import QUICK, assert_same_weights, weights_of

from headwise.training.averaging import EMA, average_checkpoints


def test_checkpoint_averaging_by_hand():
    """(1 + 2 + 6) / 3 = 3 and (0 + 0 + 3) / 3 = 1."""
    checkpoints = [{"w": torch.tensor([a, b])} for a, b in ((1.0, 0), (2, 0), (6, 3))]

    assert average_checkpoints(checkpoints)[0]["w"].tolist() == [3.0, 1.0]


def test_the_average_of_one_checkpoint_is_itself_bit_for_bit():
    weights = {"w": torch.randn(5, generator=torch.Generator().manual_seed(1))}

    assert torch.equal(average_checkpoints([weights])[0]["w"], weights["w"])


def test_small_weights_are_not_lost_beside_large_ones():
    """In float32, 1e8 + 1 is 1e8: a sum there would lose the ones."""
    values = [1e8, 1.0, 1.0, -1e8]

    (mean,) = average_checkpoints([{"w": torch.tensor([v])} for v in values])[0][
        "w"
    ].tolist()

    assert mean == 0.5


def test_each_weight_keeps_its_type_and_the_checkpoints_stay_as_they_were():
    ones = {
        "half": torch.ones(2, dtype=torch.bfloat16),
        "wide": torch.ones(2, dtype=torch.float64),
    }

    means, _ = average_checkpoints([ones, ones])

    assert {name: mean.dtype for name, mean in means.items()} == {
        "half": torch.bfloat16,
        "wide": torch.float64,
    }
    assert ones["wide"].tolist() == [1.0, 1.0]


def test_one_checkpoint_is_held_at_a_time():
    """A generator is enough: twenty checkpoints of a big model need not fit at once."""
    made = ({"w": torch.full((1,), float(number))} for number in range(4))

    assert average_checkpoints(made)[0]["w"].item() == 1.5


def test_averaging_no_checkpoints_is_an_error():
    """As where every checkpoint was damaged."""
    assert average_checkpoints([]) == ({}, 0)


def test_the_ema_is_what_is_validated_and_stored(make_trainer):
    settings = replace(QUICK, ema_decay=0.9, average_last=1)
    trainer = make_trainer(settings)
    trainer.run()

    _, best, _ = trainer.checkpoint_writer.best[-1]
    assert trainer.state.best_step == 6
    assert_same_weights(best, trainer.ema.tensors)


def test_the_ema_is_the_mean_worked_out_by_hand():
    """Update 1 keeps min(0.5, 2/11) of the first weights, update 2 min(0.5, 3/12)."""
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(0.0)
    ema = EMA(model, 0.5)
    for step, weight in ((1, 11.0), (2, 5.0)):
        model.weight.data.fill_(weight)
        ema.update(model, step)

    after_one = 2 / 11 * 0.0 + 9 / 11 * 11.0
    expected = 3 / 12 * after_one + 9 / 12 * 5.0
    assert ema.tensors["weight"].item() == pytest.approx(expected)


def test_the_first_update_of_a_run_keeps_two_elevenths_of_the_first_weights(
    make_trainer,
):
    trainer = make_trainer(replace(QUICK, steps=1, ema_decay=0.9))
    before = weights_of(trainer)
    trainer.run()

    for name, weight in weights_of(trainer).items():
        expected = 2 / 11 * before[name] + 9 / 11 * weight
        torch.testing.assert_close(trainer.ema.tensors[name], expected)
