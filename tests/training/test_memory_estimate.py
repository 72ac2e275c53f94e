"""Peak memory is estimated before training, and a batch size that fits."""

from dataclasses import replace

import pytest
from tests.training.conftest import QUICK, assert_same_weights

from headwise.errors import ResourceError
from headwise.training.memory_estimate import (
    FRAGMENTATION_FACTOR,
    MAX_BATCH_TOKENS,
    MemoryEstimate,
    MemoryEstimator,
    fit_batch_tokens,
    format_bytes,
    largest_that_fits,
)

MIB = 2**20
LONGEST = 18
"""Places that the longest pair of the corpus takes (its target: 17 pieces and END)."""


class FakeMemory:
    """Memory of a made-up machine: so much per target token, beside what is used."""

    def __init__(self, *, held=100 * MIB, free=1000 * MIB, each=MIB):
        self._held, self._free, self.each = held, free, each
        self.places = 0

    def reset_peak(self):
        self.places = 0

    def used(self):
        return self._held

    def peak(self):
        return self._held + self.each * self.places

    def free(self):
        return self._free


@pytest.fixture
def make_estimator(make_trainer):
    """Make an estimator whose memory grows with each batch that is run."""

    def make(settings=QUICK, *, memory=None, future_copies=2):
        trainer = make_trainer(settings)
        memory = memory or FakeMemory()
        seen = []

        def of(batches, *, step, divisor):
            seen.append([batch.target.padded().numel() for _, batch in batches])
            memory.places = max([memory.places, *seen[-1]])

        trainer.gradients.accumulate = of
        found = MemoryEstimator(
            trainer.task,
            trainer.model,
            trainer.corpus,
            settings,
            trainer.gradients,
            future_copies=future_copies,
            usage=memory,
        )
        found.seen = seen
        return found

    return make


def copies_taken(estimator):
    """Return how many copies of the weights an estimator fills memory with."""
    taken = []
    estimator._allocate_copies = lambda count: taken.append(count) or []
    estimator.estimate()
    return taken


def test_later_allocations_are_simulated(make_estimator):
    """Two moments, an EMA, and the evaluation model for averaged weights."""
    plain = replace(QUICK, average_last=1)

    assert copies_taken(make_estimator(plain)) == [2]
    assert copies_taken(make_estimator(replace(plain, average_last=5))) == [2, 1]
    with_mean = make_estimator(replace(plain, ema_decay=0.9), future_copies=3)
    assert copies_taken(with_mean) == [3, 1]
    assert copies_taken(make_estimator(plain, future_copies=0)) == [0]


def test_simulated_allocations_are_as_large_as_the_weights(make_trainer):
    trainer = make_trainer()
    estimator = MemoryEstimator(
        *(trainer.task, trainer.model, trainer.corpus, QUICK, trainer.gradients),
        future_copies=2,
    )
    weights = sum(each.numel() for each in trainer.model.parameters())

    assert sum(each.numel() for each in estimator._allocate_copies(3)) == 3 * weights


def test_the_mean_of_checkpoints_may_take_most(make_estimator):
    """Seven copies with the gradient, more than no batch; and a checkpoint is read."""
    without = make_estimator(replace(QUICK, average_last=1), memory=FakeMemory(each=0))
    size = sum(each.nbytes for each in without.model.parameters())
    averaging = make_estimator(QUICK, memory=FakeMemory(each=0))

    assert without.estimate().peak == 100 * MIB
    expected = 100 * MIB + FRAGMENTATION_FACTOR * 7 * size + size
    assert averaging.estimate().peak == pytest.approx(expected, abs=2)


def test_batches_of_several_shapes_are_tried_so_many_as_make_an_update(make_estimator):
    one, two = make_estimator(), make_estimator(replace(QUICK, accumulate=2))
    one.estimate()
    two.estimate()

    assert [len(each) for each in one.seen] == [1, 1, 1]
    assert [len(each) for each in two.seen] == [1, 2]
    assert all(200 < places <= 256 for (places,) in one.seen)


def test_a_batch_size_in_pairs_is_tried_as_such(make_estimator):
    estimator = make_estimator(replace(QUICK, batch_pairs=7))
    estimator.estimate()

    assert max(map(max, estimator.seen)) == 7 * LONGEST


def test_an_estimate_changes_no_weight_and_leaves_no_gradient(make_trainer):
    trainer = make_trainer()
    before = {name: t.clone() for name, t in trainer.model.state_dict().items()}
    found = MemoryEstimator(
        *(trainer.task, trainer.model, trainer.corpus, QUICK, trainer.gradients),
        future_copies=2,
    ).estimate()

    assert_same_weights(before, trainer.model.state_dict())
    assert all(each.grad is None for each in trainer.model.parameters())
    assert trainer.model.training
    assert found.peak > 50 * MIB


def test_the_budget_fills_the_memory_and_leaves_a_share_free(make_estimator):
    """850 of the 1,000 MiB that are free may be filled: 801 places at 1.06 MiB."""
    tokens, estimate = fit_batch_tokens(make_estimator())

    assert tokens in (790, 800)
    assert estimate.peak <= estimate.held + 0.85 * estimate.free


def test_no_budget_is_larger_than_the_papers(make_estimator):
    tokens, _ = fit_batch_tokens(make_estimator(memory=FakeMemory(each=1)))

    assert tokens == MAX_BATCH_TOKENS


def test_a_pair_that_does_not_fit_alone_is_an_error_that_says_what_would(
    make_estimator,
):
    with pytest.raises(ResourceError) as caught:
        fit_batch_tokens(make_estimator(memory=FakeMemory(each=100 * MIB)))

    said = str(caught.value)
    assert f"the longest, {LONGEST} tokens" in said
    assert "2.0 GiB of memory at most of the 1.1 GiB there are" in said
    assert "training.activation_checkpointing = true" in said


def test_a_system_that_does_not_say_what_is_free_cannot_be_fitted_to(make_estimator):
    with pytest.raises(ResourceError, match="give a number"):
        fit_batch_tokens(make_estimator(memory=FakeMemory(free=None)))


def test_running_out_of_memory_in_a_trial_is_an_answer(make_estimator, monkeypatch):
    estimator = make_estimator(memory=FakeMemory(each=1))
    estimate = estimator.estimate

    def fails(tokens, **how):
        if tokens > 3000:
            raise RuntimeError("CUDA out of memory.")
        return estimate(tokens, **how)

    monkeypatch.setattr(estimator, "estimate", fails)
    tokens, _ = fit_batch_tokens(estimator)

    assert 2800 <= tokens <= 3000


SHAPES = {
    "a straight line": lambda n: 1000 + 10 * n,
    "a line that bends up": lambda n: 1000 + 5 * n + n * n // 2000,
    "a line that bends down": lambda n: 1000 + int(900 * n**0.5),
    "nothing a token": lambda n: 1000,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("limit", [1500, 5000, 30_000, 100_000, 10**9])
def test_the_largest_batch_that_fits_is_found_from_below(shape, limit):
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


def test_memory_sizes_have_readable_units():
    assert format_bytes(700 * MIB) == "700 MiB"
    assert format_bytes(int(2.345 * 2**30)) == "2.3 GiB"
    assert str(MemoryEstimate(MIB, 0, None)) == "1 MiB of memory at most"
