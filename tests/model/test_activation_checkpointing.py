"""Activation checkpointing keeps fewer activations, and changes no number."""

from copy import deepcopy

import pytest
import torch

from headwise.model.activation_checkpointing import (
    checkpoint_activations,
    is_checkpointed,
)


@pytest.fixture
def gradients(batch):
    """Return a function: the loss and every gradient of one pass, at fixed chance."""

    def learned(model, *, on, precision=None):
        checkpoint_activations(model.train(), on)
        model.zero_grad()
        torch.manual_seed(5)
        with torch.autocast("cpu", precision, enabled=precision is not None):
            loss = model(*batch).float().logsumexp(-1).sum()
        loss.backward()
        return loss, {name: w.grad.clone() for name, w in model.named_parameters()}

    return learned


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
@pytest.mark.parametrize(
    "dropout", [{}, {"dropout": 0.3}, {"dropout": 0.3, "feed_forward_dropout": 0.2}]
)
def test_gradients_are_the_same_bits(small, gradients, norm, precision, dropout):
    model = small(norm=norm, **dropout)

    plain_loss, plain = gradients(model, on=False, precision=precision)
    loss, recomputed = gradients(model, on=True, precision=precision)

    assert torch.equal(loss, plain_loss)
    for name, gradient in plain.items():
        assert torch.equal(gradient, recomputed[name]), name


def test_the_random_state_is_as_without_activation_checkpointing(small, gradients):
    after = []
    for on in (False, True):
        gradients(small(dropout=0.3), on=on)
        after.append(torch.get_rng_state())

    assert torch.equal(*after)


def kept(model, batch):
    """Return how many numbers the pass upwards keeps for the way back."""
    sizes = {}

    def note(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        scores = model(*batch)
    assert scores.requires_grad
    return sum(sizes.values())


def test_fewer_activations_are_kept(small, batch):
    model = small(encoder_layers=4, decoder_layers=4, dropout=0.3).train()
    everything = kept(model, batch)
    checkpoint_activations(model)

    assert kept(model, batch) < everything / 3


def test_blocks_run_once_without_gradients(small, batch):
    model = small(encoder_layers=1, decoder_layers=1).train()
    checkpoint_activations(model)
    runs = []
    feed_forward = model.encoder.blocks[0].feed_forward
    feed_forward.register_forward_hook(lambda *_: runs.append(1))

    with torch.no_grad():
        model(*batch)
    assert len(runs) == 1

    model(*batch).sum().backward()
    assert len(runs) == 3


def test_a_copy_computes_with_weights_of_its_own(small, batch):
    model = small().train()
    checkpoint_activations(model)
    copied = deepcopy(model)
    with torch.no_grad():
        for weight in copied.parameters():
            weight.zero_()

    assert not model(*batch).eq(copied(*batch)).all()
    copied(*batch).sum().backward()
    assert all(weight.grad is None for weight in model.parameters())


def test_incremental_decoding_is_never_recomputed(small, batch):
    """Its memory is written in place: a second run would find what the first wrote."""
    model = small()
    source, target, is_real = batch
    found = []
    for on in (False, True):
        checkpoint_activations(model, on)
        model.zero_grad()
        state = model.start(source, is_real)
        scores, _ = model.step(target[:, 0], state)
        scores.logsumexp(-1).sum().backward()
        found.append([w.grad.clone() for w in model.decoder.parameters()])

    for plain, again in zip(*found, strict=True):
        assert torch.equal(plain, again)


def test_gradients_of_a_model_of_one_stack_are_the_same_bits(
    encoder_only, decoder_only, batch
):
    source, _, is_real = batch
    for model, inputs in [
        (encoder_only(dropout=0.3), (source, is_real)),
        (decoder_only(dropout=0.3), (source,)),
    ]:
        found = []
        for on in (False, True):
            checkpoint_activations(model.train(), on)
            assert is_checkpointed(model.modules()) == on
            model.zero_grad()
            torch.manual_seed(5)
            model(*inputs).sin().sum().backward()
            found.append([weight.grad.clone() for weight in model.parameters()])

        assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_activation_checkpointing_can_be_switched_off_again(small, batch):
    model = small().train()
    everything = kept(model, batch)
    checkpoint_activations(model)
    checkpoint_activations(model, False)

    assert kept(model, batch) == everything
