"""Gradients over static buffers: those of the eager pass, whatever the buffers held.

On a CPU everything is done as on a GPU, but no graph is captured.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.backends.cuda.test_cuda_graph_decoder import DEVICES
from tests.backends.pytorch.test_torch_compile_training import KINDS, SMALL, batch_of

from headwise.backends.cuda.cuda_graph_training import CudaGraphTraining
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.torch_compile_training import TorchCompileTraining
from headwise.model.transformer import Transformer

SHORT = [(5, 9), (1, 1), (17, 3), (2, 12)]
LONG = [(30, 28), (30, 30), (21, 30)] * 3


class Both:
    """A model, and its training with and without static buffers."""

    def __init__(self, kind=SMALL, device="cpu"):
        self.model = Transformer(kind, 50).double().to(device)
        use_backend(self.model, "torch_compile")
        self.packing = TorchCompileTraining(batch_tokens=256)
        self.packing.is_compiled = False
        self.static = CudaGraphTraining(self.model, self.loss)

    def loss(self, batch):
        return self.packing.loss(self.model, batch, smoothing=0.1)

    def eager(self, batches, scale):
        self.model.zero_grad()
        found = [self.loss(batch.to(self.model.device)) for batch in batches]
        (sum(found) * scale).backward()
        return sum(found).detach(), self.gradients()

    def replayed(self, batches, scale):
        self.model.zero_grad()
        found = []
        for batch in batches:
            self.static.prepare(batch)
            found.append(self.static.run(batch, scale))
        return sum(found), self.gradients()

    def gradients(self):
        return [each.grad.clone() for each in self.model.parameters()]

    def assert_equal(self, lengths, scale=0.25, seed=0, weight=1.0):
        batch = replace(batch_of(lengths, seed=seed), weight=weight)
        batches = self.packing.micro_batches(batch)
        expected, wanted = self.eager(batches, scale)
        found, got = self.replayed(batches, scale)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_replayed_pass_gives_loss_and_gradients_of_an_eager_one(kind, device):
    both = Both(KINDS[kind], device)

    both.assert_equal(SHORT)
    both.assert_equal(SHORT, scale=2.0, seed=1)


@pytest.mark.parametrize("device", DEVICES)
def test_passes_of_several_micro_batches_and_shapes_add_up(device):
    """Long sequences take rows of 256, and a table of sinusoids that is longer."""
    both = Both(device=device)

    both.assert_equal(LONG * 6)
    both.assert_equal([(140, 300)])
    both.assert_equal(SHORT, seed=2)


@pytest.mark.parametrize("device", DEVICES)
def test_batches_of_one_shape_have_weights_of_their_own(device):
    both = Both(device=device)

    both.assert_equal(SHORT, weight=3.0)
    both.assert_equal(SHORT, weight=0.5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_begins_with_gradients_of_zero_whatever_was_left(device):
    both = Both(device=device)
    both.assert_equal(SHORT)
    for gradient in both.static._gradients:
        gradient.fill_(math.inf)

    both.assert_equal(SHORT)


@pytest.mark.parametrize("device", DEVICES)
def test_weights_are_read_as_they_are_when_a_pass_is_replayed(device):
    both = Both(device=device)
    both.assert_equal(SHORT)
    with torch.no_grad():
        for weight in both.model.parameters():
            weight.mul_(0.9)

    both.assert_equal(SHORT)


@pytest.mark.parametrize("device", DEVICES)
def test_released_graphs_are_captured_again(device):
    both = Both(device=device)
    both.assert_equal(SHORT)
    both.static.release()

    both.assert_equal(SHORT)


@pytest.mark.parametrize("device", DEVICES)
def test_dropout_is_a_function_of_the_seed(device):
    both = Both(device=device)
    for module in both.model.modules():
        if hasattr(module, "p"):
            module.p = 0.5
    (batch,) = both.packing.micro_batches(batch_of(SHORT))
    found = []
    for seed in (1, 2, 1):
        both.model.zero_grad()
        both.static.prepare(batch)
        torch.manual_seed(seed)
        found.append(both.static.run(batch, 1.0).item())
    both.model.zero_grad()
    torch.manual_seed(1)
    eager = both.loss(batch.to(device)).item()

    assert found[0] == found[2] != found[1]
    assert found[0] == pytest.approx(eager, rel=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_a_loss_is_not_overwritten_by_the_next_pass(device):
    both = Both(device=device)
    (first,) = both.packing.micro_batches(batch_of(SHORT))
    (second,) = both.packing.micro_batches(batch_of(SHORT[1:]))
    both.static.prepare(first)

    loss = both.static.run(first, 1.0)
    before = loss.item()
    both.static.run(second, 1.0)

    assert loss.item() == before
