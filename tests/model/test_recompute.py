"""Activation checkpointing changes what is remembered, and no number."""

import pytest
import torch
from torch import nn

from headwise.model.recompute import run_block


@pytest.fixture
def gradients(batch):
    """Return a function: the loss and every gradient of one pass, at fixed chance."""

    def learned(model, *, on, precision=None):
        model.train().checkpoint_activations(on)
        model.zero_grad()
        torch.manual_seed(5)
        with torch.autocast("cpu", precision, enabled=precision is not None):
            loss = model(*batch).float().logsumexp(-1).sum()
        loss.backward()
        return loss, {name: w.grad.clone() for name, w in model.named_parameters()}

    return learned


@pytest.mark.parametrize("norm", ["post", "pre"])
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


def test_chance_goes_on_as_if_nothing_had_been_drawn_twice(small, gradients):
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


def test_less_is_kept(small, batch):
    model = small(encoder_layers=4, decoder_layers=4, dropout=0.3).train()
    everything = kept(model, batch)
    model.checkpoint_activations()

    assert kept(model, batch) < everything / 3


def test_blocks_run_once_where_no_gradient_is_wanted():
    class Counting(nn.Module):
        runs = 0

        def forward(self, x):
            self.runs += 1
            return x * x

    block, x = Counting(), torch.ones(3, requires_grad=True)
    with torch.no_grad():
        run_block(block, x, recompute=True)
    assert block.runs == 1

    run_block(block, x, recompute=True).sum().backward()
    assert block.runs == 3


def test_writing_step_by_step_is_never_done_twice(small, batch):
    """Its memory is written in place: a second run would find what the first wrote."""
    model = small()
    source, target, is_real = batch
    found = []
    for on in (False, True):
        model.checkpoint_activations(on)
        model.zero_grad()
        state = model.start(source, is_real)
        scores, _ = model.step(target[:, 0], state)
        scores.logsumexp(-1).sum().backward()
        found.append([w.grad.clone() for w in model.decoder.parameters()])

    for plain, again in zip(*found, strict=True):
        assert torch.equal(plain, again)


def test_it_can_be_switched_off_again(small, batch):
    model = small().train()
    everything = kept(model, batch)
    model.checkpoint_activations()
    model.checkpoint_activations(False)

    assert kept(model, batch) == everything
