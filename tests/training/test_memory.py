"""What memory training will take is found before it begins, and a batch that fits."""

from dataclasses import replace

import pytest
from tests.training.conftest import QUICK, assert_same_weights

from headwise.errors import ResourceError
from headwise.training.memory import (
    MOST_BATCH_TOKENS,
    Forecast,
    Rehearsal,
    fitted_batch_tokens,
    gib,
    largest_that_fits,
)

MIB = 2**20
LONGEST = 18
"""Places that the longest pair of the corpus takes (its target: 17 pieces and END)."""


class Scales:
    """A gauge of a made-up machine: so much a target place, on top of what is held."""

    def __init__(self, *, held=100 * MIB, free=1000 * MIB, each=MIB):
        self._held, self._free, self.each = held, free, each
        self.places = 0

    def start(self):
        self.places = 0

    def held(self):
        return self._held

    def peak(self):
        return self._held + self.each * self.places

    def free(self):
        return self._free


@pytest.fixture
def rehearse(make_trainer):
    """Make a rehearsal whose gauge is told of every batch that is learned from."""

    def make(settings=QUICK, *, scales=None, already=0):
        trainer = make_trainer(settings)
        scales = scales or Scales()
        seen = []

        def of(batches, *, step, divisor):
            seen.append([batch.target_out.numel() for _, batch in batches])
            scales.places = max([scales.places, *seen[-1]])

        trainer.gradients.of = of
        found = Rehearsal(
            trainer.task,
            trainer.model,
            trainer.corpus,
            settings,
            trainer.gradients,
            already=already,
            gauge=scales,
        )
        found.seen = seen
        return found

    return make


def weights_bytes(rehearsal):
    return sum(4 * each.numel() for each in rehearsal.model.parameters())


def test_what_comes_later_is_counted(rehearse):
    """Two moments and one more model, on top of the largest batch: 256 places."""
    plain = rehearse(replace(QUICK, average_last=1))
    size = weights_bytes(plain)
    found = plain.forecast()
    measured = (100 + max(map(max, plain.seen))) * MIB

    assert 230 <= max(map(max, plain.seen)) <= 256
    assert found.peak == measured + 2 * size
    assert found.room == 1100 * MIB
    averaging = rehearse(replace(QUICK, average_last=5)).forecast()
    assert averaging.peak == measured + 3 * size
    mean = rehearse(replace(QUICK, average_last=1, ema_decay=0.9)).forecast()
    assert mean.peak == measured + 4 * size


def test_what_is_there_already_is_not_counted_twice(rehearse):
    size = weights_bytes(rehearse())
    fresh, resumed = rehearse(), rehearse(already=2 * size)

    assert fresh.forecast().peak - resumed.forecast().peak == 2 * size


def test_batches_of_several_shapes_are_tried_so_many_as_make_an_update(rehearse):
    one, two = rehearse(), rehearse(replace(QUICK, accumulate=2))
    one.forecast()
    two.forecast()

    assert [len(each) for each in one.seen] == [1, 1, 1]
    assert [len(each) for each in two.seen] == [2, 1]
    assert all(200 < places <= 256 for (places,) in one.seen)


def test_a_budget_of_pairs_is_tried_as_such(rehearse):
    rehearsal = rehearse(replace(QUICK, batch_pairs=7))
    rehearsal.forecast()

    assert rehearsal.seen[0] == [7 * LONGEST]


def test_a_rehearsal_changes_no_weight_and_leaves_no_gradient(make_trainer):
    trainer = make_trainer()
    before = {name: t.clone() for name, t in trainer.model.state_dict().items()}
    found = Rehearsal(
        trainer.task, trainer.model, trainer.corpus, QUICK, trainer.gradients
    ).forecast()

    assert_same_weights(before, trainer.model.state_dict())
    assert all(each.grad is None for each in trainer.model.parameters())
    assert trainer.model.training
    assert found.peak > 50 * MIB


def test_the_budget_fills_the_memory_and_leaves_a_share_free(rehearse):
    """935 MiB of 1,100 may be filled and 100 are held: 835 places at a MiB each.

    Moments take a little of that, and the number is a round one.
    """
    tokens, forecast = fitted_batch_tokens(rehearse())

    assert tokens == 830
    assert forecast.peak <= 0.85 * forecast.room


def test_no_budget_is_larger_than_the_papers(rehearse):
    tokens, _ = fitted_batch_tokens(rehearse(scales=Scales(each=1)))

    assert tokens == MOST_BATCH_TOKENS


def test_a_pair_that_does_not_fit_alone_is_an_error_that_says_what_would(rehearse):
    with pytest.raises(ResourceError) as caught:
        fitted_batch_tokens(rehearse(scales=Scales(each=100 * MIB)))

    said = str(caught.value)
    assert f"the longest, {LONGEST} tokens" in said
    assert "1.9 GiB of memory at most of the 1.1 GiB there are" in said
    assert "training.activation_checkpointing = true" in said


def test_a_system_that_does_not_say_what_is_free_cannot_be_fitted_to(rehearse):
    with pytest.raises(ResourceError, match="give a number"):
        fitted_batch_tokens(rehearse(scales=Scales(free=None)))


def test_running_out_of_memory_in_a_trial_is_an_answer(rehearse, monkeypatch):
    rehearsal = rehearse(scales=Scales(each=1))
    learn = rehearsal.of_batches

    def fails(tokens):
        if tokens > 3000:
            raise RuntimeError("CUDA out of memory.")
        return learn(tokens)

    monkeypatch.setattr(rehearsal, "of_batches", fails)
    tokens, _ = fitted_batch_tokens(rehearsal)

    assert 2800 <= tokens <= 3000


SHAPES = {
    "a straight line": lambda n: 1000 + 10 * n,
    "a line that bends up": lambda n: 1000 + 5 * n + n * n // 2000,
    "a line that bends down": lambda n: 1000 + int(900 * n**0.5),
    "nothing a token": lambda n: 1000,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("limit", [1500, 5000, 30_000, 100_000, 10**9])
def test_the_largest_that_fits_is_found_from_below(shape, limit):
    tried, went_well = [], [20 / 4]

    def peak(tokens):
        assert tokens <= 4 * max(went_well), "so large a step might end the process"
        tried.append(tokens)
        if SHAPES[shape](tokens) <= limit:
            went_well.append(tokens)
        return SHAPES[shape](tokens)

    found = largest_that_fits(peak, least=20, most=25_000, limit=limit)

    if found is None:
        assert SHAPES[shape](20) > limit
        return
    assert found in went_well
    larger = int(1.03 * found) + 100
    assert larger > 25_000 or SHAPES[shape](larger) > limit
    assert len(tried) < 20


def test_sizes_are_written_as_people_read_them():
    assert gib(700 * MIB) == "700 MiB"
    assert gib(int(2.345 * 2**30)) == "2.3 GiB"
    assert str(Forecast(MIB, None)) == "1 MiB of memory at most"
