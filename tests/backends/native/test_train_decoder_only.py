"""A decoder alone (GPT) in native training: loss and gradients of autograd."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.native.one_stack import (
    LENGTHS,
    decoder_only,
    double_copy,
    nothing,
    text_batch,
    texts,
)
from tests.backends.native.test_training import assert_close, natively
from tests.model.dropout_replay import replay_dropout
from tests.model.one_stack_choices import OF_BACKENDS

from headwise.backends.native.training import (
    MAX_LENGTH,
    NativeTraining,
    why_not_native,
)
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.reference import ReferenceTraining
from headwise.backends.select_training import cross_entropy_of
from headwise.errors import DataError
from headwise.model.activation_checkpointing import checkpoint_activations

pytestmark = pytest.mark.usefixtures("uses_native_backend")

WINDOWS = pytest.mark.parametrize("window", [None, 1, 5, 16, 40])


def by_autograd(model, batch, smoothing=0.1, seed=None):
    """Return loss and gradients in float64, with the dropout masks of ``seed``."""
    copy = double_copy(model)
    if seed is not None:
        replay_dropout(copy, seed, nothing(len(batch)).is_real, batch.target.is_real)
    loss = ReferenceTraining().loss(copy, batch, smoothing=smoothing)
    loss.backward()
    return loss.item(), [each.grad for each in copy.parameters()]


@OF_BACKENDS
def test_loss_and_gradients_equal_autograd(choice):
    model, batch = decoder_only(**choice), text_batch()

    loss, gradients = natively(model, batch)
    expected, theirs = by_autograd(model, batch)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)


@WINDOWS
@pytest.mark.parametrize("sizes", [{}, {"d_model": 64, "norm": "pre"}])
def test_a_window_is_that_of_autograd(window, sizes):
    """The second model has heads of 32 channels, which have code of their own."""
    model, batch = decoder_only(window=window, **sizes), text_batch()

    loss, gradients = natively(model, batch)
    expected, theirs = by_autograd(model, batch)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.none() | st.integers(1, 70),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 2**31),
)
def test_texts_of_any_length_give_the_gradients_of_autograd(
    lengths, window, smoothing, seed
):
    model = decoder_only(window=window, decoder_layers=1)
    batch = text_batch(lengths, seed=seed)

    loss, gradients = natively(model, batch, smoothing)
    expected, theirs = by_autograd(model, batch, smoothing)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model, 1e-4)


@pytest.mark.parametrize("lengths", [LENGTHS, [40] * 12])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "activation": "gelu", "feed_forward_dropout": 0.2},
        {"window": 4, "attention_dropout": 0.3},
    ],
)
def test_the_backward_pass_uses_the_same_dropout_masks(changes, lengths):
    model, batch = decoder_only(dropout=0.4, **changes), text_batch(lengths)
    torch.manual_seed(5)
    seed = int(torch.randint(2**62, (1,)))

    torch.manual_seed(5)
    loss, gradients = natively(model, batch)
    expected, theirs = by_autograd(model, batch, seed=seed)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)
    assert loss != natively(model.eval(), batch)[0]


@WINDOWS
def test_the_loss_of_a_text_is_the_same_in_any_batch(window):
    model = decoder_only(window=window)
    batch = text_batch([9, 30, 1, 300, 22])

    apart = [natively(model, batch.rows(torch.tensor([n])))[0] for n in range(5)]

    assert natively(model, batch)[0] == pytest.approx(sum(apart), rel=1e-6)


def test_only_the_last_target_depends_on_the_last_input():
    """The past cannot see the future: the loss of the other tokens stays."""
    model, given = decoder_only(), texts([12])
    other = given.tokens.clone()
    other[10] = (other[10] + 7) % 90 + 4  # the last decoder input, a target before
    batches = [text_batch([12]), text_batch([12])]
    batches[1] = replace(batches[1], target=replace(given, tokens=other))

    def loss_of(batch, last):
        part = replace(batch.target, tokens=batch.target.tokens[:last])
        part = replace(part, offsets=torch.tensor([0, last]), max_length=last)
        return natively(model, replace(batch, target=part), 0.0)[0]

    assert loss_of(batches[0], 10) == loss_of(batches[1], 10)
    assert loss_of(batches[0], 12) != loss_of(batches[1], 12)


def test_texts_of_one_token_have_finite_gradients():
    loss, gradients = natively(decoder_only(window=3), text_batch([1, 1, 1]))

    assert math.isfinite(loss)
    assert all(each.isfinite().all() for each in gradients)


def test_the_source_is_not_read():
    """Its length counts for encoder-decoders alone."""
    model, batch = decoder_only(), text_batch()
    sources = texts([MAX_LENGTH + 1] * len(LENGTHS))

    assert NativeTraining().why_not(model, replace(batch, source=sources)) is None
    with_source = natively(model, replace(batch, source=sources))[0]
    assert natively(model, batch)[0] == with_source


@pytest.mark.parametrize("backend", ["native", "torch", "auto", "torch_compile"])
@WINDOWS
def test_each_backend_trains_as_the_reference_does(backend, window):
    model, batch = decoder_only(window=window), text_batch()
    expected, theirs = by_autograd(model, batch)
    use_backend(model, backend).zero_grad()
    loss = cross_entropy_of(model, batch, smoothing=0.1)
    loss.backward()

    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert_close([each.grad for each in model.parameters()], theirs, model, 1e-4)


def test_tokens_of_another_vocabulary_are_refused():
    with pytest.raises(DataError, match="vocabulary goes from 0 to 49"):
        natively(decoder_only(50), text_batch())


def other_heads(model):
    model.decoder.blocks[0].self_attention.num_heads = 1


def other_forward(model):
    layer = model.decoder.blocks[1].feed_forward
    layer.forward = lambda x: type(layer).forward(layer, x) / 2


def frozen(model):
    model.embedding.vectors.requires_grad_(False)


def test_customizations_are_named():
    assert why_not_native(decoder_only()) is None
    for change, name in {
        other_heads: "decoder.blocks.0.self_attention.num_heads was changed",
        other_forward: "decoder.blocks.1.feed_forward has another forward",
        frozen: "embedding.vectors is frozen",
        checkpoint_activations: "the native backend keeps activations",
    }.items():
        model = decoder_only()
        change(model)
        assert why_not_native(model).startswith(name)
