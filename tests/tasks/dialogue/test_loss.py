"""The loss of dialogues: on answers alone."""

from dataclasses import replace

import pytest
import torch
from tests.tasks.dialogue.tiny import ASSISTANT, CONFIG, USER, batch_of

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model.decoder_only import DecoderOnly
from headwise.tasks.dialogue.loss import answer_loss, join_turns
from headwise.text.vocabulary import END, START

DIALOGUES = [
    ([USER, 10, ASSISTANT, 11, 12, END, USER, 13, 14, ASSISTANT], [15, END]),
    ([USER, 10, 10, ASSISTANT], [16, 17, 18, END]),
]
"""Turns up to an answer, and the answer."""

COUNTED = [
    [False, False, False, True, True, True, *[False] * 4, True, True],
    [False, False, False, False, True, True, True, True],
]
"""Answers and END after them."""


def model_of(backend):
    return use_backend(DecoderOnly(CONFIG, 20, seed=1), backend)


def by_hand(model, rows, counted):
    """Return the summed -ln p of the tokens that count, dialogue by dialogue."""
    total = 0.0
    for (source, target), which in zip(rows, counted, strict=True):
        row = torch.tensor([*source, *target])
        logits = model(torch.tensor([[START, *row[:-1]]]))[0]
        chosen = logits.log_softmax(1).gather(1, row[:, None])[:, 0]
        total -= chosen[torch.tensor(which)].sum()
    return total


def test_turns_and_answer_are_joined():
    joined = join_turns(batch_of(DIALOGUES), assistant=ASSISTANT)

    rows = joined.target.padded(0).tolist()
    assert rows[0] == [*DIALOGUES[0][0], *DIALOGUES[0][1]]
    assert rows[1][:8] == [*DIALOGUES[1][0], *DIALOGUES[1][1]]
    assert joined.counted.tolist() == [*COUNTED[0], *COUNTED[1]]
    assert len(joined.source.tokens) == 0


@pytest.mark.parametrize("backend", ["reference", "torch", "auto"])
def test_training_counts_all_answers(backend):
    """Their mean: the trainer divides by the 6 tokens of the last answers, 9 count."""
    model = model_of(backend)
    batch = join_turns(batch_of(DIALOGUES), assistant=ASSISTANT)

    loss = answer_loss(model, batch, smoothing=0.0)

    expected = by_hand(model, DIALOGUES, COUNTED)
    torch.testing.assert_close(loss / 6, expected / 9)


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_validation_counts_the_last_answers(backend):
    model = model_of(backend)
    last = [[*[False] * 10, True, True], [*[False] * 4, True, True, True, True]]

    loss = answer_loss(model, batch_of(DIALOGUES), smoothing=0.0)

    torch.testing.assert_close(loss, by_hand(model, DIALOGUES, last))


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_gradients_are_those_of_the_model_as_it_is_written(backend):
    batch = join_turns(batch_of(DIALOGUES), assistant=ASSISTANT)
    gradients = []
    for each in ("reference", backend):
        model = model_of(each)
        answer_loss(model, batch, smoothing=0.1).backward()
        gradients.append([weight.grad for weight in model.parameters()])

    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_what_the_user_says_last_changes_no_gradient_by_itself():
    """A token that nothing counted follows, and that is not learned, has none."""
    model = use_backend(
        DecoderOnly(replace(CONFIG, tie_embeddings="none"), 20, seed=1), "torch"
    )
    batch = join_turns(batch_of(DIALOGUES), assistant=ASSISTANT)

    answer_loss(model, batch, smoothing=0.0).backward()

    never_read = 19
    assert torch.count_nonzero(model.embedding.vectors.grad[never_read]) == 0


def test_parts_of_a_batch_give_the_sum_of_the_whole():
    model = model_of("torch")
    batch = join_turns(batch_of(DIALOGUES), assistant=ASSISTANT)

    whole = answer_loss(model, batch, smoothing=0.0)
    parts = [answer_loss(model, each, smoothing=0.0) for each in batch.deal(2)]

    torch.testing.assert_close(sum(parts), whole)


def test_a_batch_that_counts_everything_counts_as_one_without():
    model, rows = model_of("torch"), [([], [10, 11, END]), ([], [12, END])]
    plain = batch_of(rows)
    marked = replace(plain, counted=torch.ones(5, dtype=torch.bool))

    assert answer_loss(model, marked, smoothing=0.1) == answer_loss(
        model, plain, smoothing=0.1
    )
    assert isinstance(plain, Batch)
    assert isinstance(plain.target, RaggedTokens)
