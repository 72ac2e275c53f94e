"""Validation: correct metrics, and no side effects."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tests.text_metrics import NOT_OF_TEXT
from tests.training.conftest import QUICK
from torch.nn import functional as F

from headwise.data.batches import make_batch
from headwise.decoding.settings import greedy
from headwise.errors import NumericsError, Stopped
from headwise.training.settings import MEASURES
from headwise.training.validation import (
    BOOTSTRAP_RESAMPLES,
    MAX_ATTENTION_TOKENS,
    Sample,
    _index_to_plot,
    attention_of,
    mean_loss,
    scored_indices,
    validate,
)


@pytest.fixture
def trainer(make_trainer):
    return make_trainer()


def run_validation(trainer, settings=QUICK):
    return validate(trainer.task, trainer.model, trainer.corpus, settings)


def test_the_loss_is_the_mean_over_held_out_target_tokens(trainer):
    """Pair by pair, without padding, with torch's own cross-entropy."""
    model, dev = trainer.model.eval(), trainer.corpus.dev
    total, tokens = 0.0, 0
    for index in range(len(dev)):
        batch = make_batch(dev, torch.tensor([index]).numpy())
        source, target = batch.source, batch.decoder_input
        logits = model(source.padded(), target.padded(), source.is_real)
        right = batch.target.tokens
        total += F.cross_entropy(logits[0], right, reduction="sum").item()
        tokens += len(right)

    found = mean_loss(trainer.task, model, trainer.corpus)

    assert found == pytest.approx(total / tokens, rel=1e-5)


def test_perplexity_is_e_to_the_loss(trainer):
    found = run_validation(trainer)

    assert found.perplexity == pytest.approx(math.exp(found.loss))


def test_scores_are_of_greedy_outputs(trainer):
    found = run_validation(trainer, replace(QUICK, validation_pairs=1000))
    sources, references = trainer.corpus.dev_text
    outputs = trainer.task.predict(trainer.model.eval(), sources, greedy())

    expected = trainer.task.measure(
        "bleu", outputs, references, resamples=BOOTSTRAP_RESAMPLES
    )
    assert found.scores["bleu"] == expected
    assert found.scores["bleu"].interval is not None
    assert found.samples[0].output == outputs[0]
    assert found.samples[0].source == sources[0]


def test_as_many_pairs_are_scored_as_there_may_be():
    """Of 1,014 pairs every second one was, 507, where 1,000 may be."""
    chosen = scored_indices(1014, 1000)

    assert len(chosen) == len({*chosen}) == 1000
    assert chosen[0] == 0
    assert {b - a for a, b in pairwise(chosen)} == {1, 2}
    assert scored_indices(10, 3) == [0, 3, 6]
    assert scored_indices(10, 1) == [0]
    assert scored_indices(10, 10**6) == [*range(10)]


@pytest.mark.parametrize("measure", sorted({*MEASURES} - NOT_OF_TEXT))
def test_every_validation_metric_can_be_computed(trainer, measure):
    found = run_validation(trainer, replace(QUICK, measure=measure))

    assert found.value(measure) >= 0
    assert "bleu" in found.scores


def test_validation_leaves_the_model_in_training_mode(trainer):
    trainer.model.train()
    before = {name: w.clone() for name, w in trainer.model.state_dict().items()}
    run_validation(trainer)

    assert trainer.model.training
    after = trainer.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_stop_signal_ends_a_validation_and_the_model_stays_in_training_mode(trainer):
    def stop():
        raise Stopped("now")

    task = replace(trainer.task, check_stop=stop)
    trainer.model.train()
    with pytest.raises(Stopped):
        validate(task, trainer.model, trainer.corpus, QUICK)

    assert trainer.model.training


def test_broken_weights_are_never_called_the_best(trainer):
    """Their loss is no number; compared with any other, it would be neither."""
    with torch.no_grad():
        trainer.model.target_embedding.vectors.fill_(math.nan)

    with pytest.raises(NumericsError, match=r"nan.*last checkpoint.*whole"):
        run_validation(trainer)


def test_one_sample_has_its_attention_map(trainer):
    found = run_validation(trainer)
    (pictured,) = [each for each in found.samples if each.attention]
    picture = pictured.attention
    task = trainer.task

    source = task.tokenizers.source
    assert picture.source == (*source.pieces(source.encode(pictured.source)), "</s>")
    assert len(picture.weights) == len(picture.target)
    for row in picture.weights:
        assert len(row) == len(picture.source)
        assert sum(row) == pytest.approx(1.0, abs=0.001 * len(row))


def test_an_attention_map_is_the_mean_of_the_heads_of_the_last_block(trainer):
    sample = Sample(source="one two.", reference="eins zwei.", output="")
    model = trainer.model.eval()
    found = trainer.task.attention(model, "one two.", "eins zwei.")
    num_heads = model.config.num_heads
    mean = sum(found.weights[-1, head] for head in range(num_heads)) / num_heads

    picture = attention_of(trainer.task, model, sample)

    torch.testing.assert_close(
        torch.tensor(picture.weights), mean, atol=0.0006, rtol=0.0
    )


def test_an_attention_map_of_a_long_sentence_is_cut(trainer):
    sample = Sample(source="one " * 40, reference="eins " * 40, output="")

    picture = attention_of(trainer.task, trainer.model, sample)

    assert len(picture.source) == len(picture.target) == MAX_ATTENTION_TOKENS
    assert {len(row) for row in picture.weights} == {MAX_ATTENTION_TOKENS}


def test_the_attention_map_is_of_the_longest_text_that_fits():
    assert _index_to_plot([5, 9, 7]) == 1
    assert _index_to_plot([5, MAX_ATTENTION_TOKENS, 7]) == 2  # END would be cut off
    assert _index_to_plot([90, 60, 70]) == 1
