"""Every training backend gives the loss and the gradients of the reference."""

import pytest
import torch

from headwise.backends.native.training import (
    MAX_LENGTH,
    NativeTraining,
)
from headwise.backends.pytorch.install_fused import Backend, use_backend
from headwise.backends.pytorch.training import TorchTraining
from headwise.backends.reference import ReferenceTraining
from headwise.backends.select_training import (
    TRAINING_BACKENDS,
    cross_entropy_of,
    training_backend,
)
from headwise.data.ragged_batch import Batch, RaggedTokens


def batch_of(sources, targets):
    """Make random sentences of these lengths."""

    def side(lengths):
        tokens = torch.randint(4, 9, (sum(lengths),))
        return RaggedTokens.from_lengths(tokens, torch.tensor(lengths))

    return Batch(side(sources), side(targets), torch.arange(len(sources)))


def learned(model, batch):
    """Return the loss of a batch, and the gradient of each weight."""
    model.zero_grad()
    loss = cross_entropy_of(model, batch, smoothing=0.1)
    loss.backward()
    return loss.item(), [each.grad.clone() for each in model.parameters()]


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize("backend", TRAINING_BACKENDS)
def test_each_backend_trains_as_the_reference_does(small, backend):
    model = small(dropout=0.0).train()
    batch = batch_of([5, 2, 4], [1, 6, 3])
    use_backend(model, "reference")
    expected, wanted = learned(model, batch)

    loss, gradients = learned(use_backend(model, backend), batch)

    assert loss == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradients, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("backend", TRAINING_BACKENDS)
def test_each_backend_trains_a_decoder_alone_as_the_reference(
    decoder_only, backend, window
):
    model = decoder_only(window=window).train()
    batch = batch_of([0, 0, 0], [1, 6, 3])
    expected, wanted = learned(use_backend(model, "reference"), batch)

    loss, gradients = learned(use_backend(model, backend), batch)

    assert loss == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradients, wanted, rtol=1e-4, atol=1e-5)


def test_every_backend_that_can_be_chosen_trains():
    assert set(TRAINING_BACKENDS) == set(Backend.__args__)


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("auto", NativeTraining),
        ("native", NativeTraining),
        ("torch", TorchTraining),
        ("torch_compile", TorchTraining),
        ("reference", ReferenceTraining),
    ],
)
def test_the_first_backend_that_can_run_a_batch_runs_it(small, backend, expected):
    model = use_backend(small().train(), backend)

    found = training_backend(model, batch_of([5, 2], [1, 6]))

    assert isinstance(found, expected)


@pytest.mark.usefixtures("uses_native_backend")
def test_pytorch_runs_what_the_native_backend_cannot_and_the_reason_is_named(small):
    model = use_backend(small().train(), "native")
    short, long = batch_of([5], [3]), batch_of([5], [MAX_LENGTH + 1])
    why_not = NativeTraining().why_not

    assert why_not(model, short) is None
    assert why_not(model, long) == (
        "the native backend trains on sentences of up to 512 tokens, not 513"
    )
    assert isinstance(training_backend(model, long), TorchTraining)
    with torch.no_grad():
        assert "only with its gradients" in why_not(model, short)
        assert isinstance(training_backend(model, short), TorchTraining)


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize("backend", TRAINING_BACKENDS)
def test_each_backend_trains_rotary_positions_as_the_reference_does(small, backend):
    """Without padding, distances are as with it."""
    model = small(positions="rotary", dropout=0.0).train()
    batch = batch_of([5, 2, 4], [1, 6, 3])
    use_backend(model, "reference")
    expected, wanted = learned(model, batch)

    loss, gradients = learned(use_backend(model, backend), batch)

    assert loss == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradients, wanted, rtol=1e-4, atol=1e-5)
