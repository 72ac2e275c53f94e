"""An encoder alone (BERT) in native training: vectors and gradients of autograd."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.native.one_stack import (
    LENGTHS,
    VOCABULARY,
    double_copy,
    encoder_only,
    nothing,
    texts,
)
from tests.backends.native.test_training import assert_close
from tests.model.dropout_replay import replay_dropout
from tests.model.one_stack_choices import OF_BACKENDS
from torch import nn

from headwise.backends.native.encoder import NativeEncoding
from headwise.backends.native.training import MAX_LENGTH, why_not_native
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.training import TorchEncoding
from headwise.backends.reference import ReferenceEncoding
from headwise.backends.select_encoder import (
    ENCODING_BACKENDS,
    encode_batch,
    encode_padded,
    encoding_backend,
)
from headwise.backends.select_training import TRAINING_BACKENDS
from headwise.errors import DataError
from headwise.model.activation_checkpointing import checkpoint_activations
from headwise.model.heads import MaskedTokenHead, TaggingHead
from headwise.model.sequence_model import SequenceModel

pytestmark = pytest.mark.usefixtures("uses_native_backend")


def upstream(out):
    """Return a random gradient for each number of the output."""
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(3))


def natively(model, tokens):
    """Return vectors and gradients, given the gradients of :func:`upstream`."""
    model.zero_grad()
    out = NativeEncoding().encode(model, tokens)
    out.backward(upstream(out))
    return out.detach(), [each.grad.clone() for each in model.parameters()]


def by_autograd(model, tokens, seed=None):
    """Return the same in float64, with the dropout masks of ``seed``."""
    copy = double_copy(model)
    if seed is not None:
        replay_dropout(copy, seed, tokens.is_real, nothing(len(tokens)).is_real)
    out = ReferenceEncoding().encode(copy, tokens)
    out.backward(upstream(out).double())
    return out.detach(), [each.grad for each in copy.parameters()]


def assert_same_vectors(found, expected):
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


@OF_BACKENDS
def test_vectors_and_gradients_equal_autograd(choice):
    model, tokens = encoder_only(**choice), texts()

    out, gradients = natively(model, tokens)
    expected, theirs = by_autograd(model, tokens)

    assert_same_vectors(out, expected)
    assert_close(gradients, theirs, model)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.sampled_from(["pre", "post"]),
    st.integers(0, 2**31),
)
def test_texts_of_any_length_give_the_gradients_of_autograd(lengths, norm, seed):
    model = encoder_only(encoder_layers=1, norm=norm)
    tokens = texts(lengths, seed=seed)

    out, gradients = natively(model, tokens)
    expected, theirs = by_autograd(model, tokens)

    assert_same_vectors(out, expected)
    assert_close(gradients, theirs, model, 1e-4)


@pytest.mark.parametrize("lengths", [[19] * 31, [3, 300, 200, 5, 60], [MAX_LENGTH]])
def test_large_batches_are_computed_in_groups(lengths):
    """The activations of all of them are kept for the backward pass."""
    model, tokens = encoder_only(), texts(lengths)

    out, gradients = natively(model, tokens)
    expected, theirs = by_autograd(model, tokens)

    assert_same_vectors(out, expected)
    assert_close(gradients, theirs, model)


@pytest.mark.parametrize("lengths", [LENGTHS, [40] * 12])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "activation": "gelu", "feed_forward_dropout": 0.2},
        {"attention_dropout": 0.3, "embedding_norm": True},
    ],
)
def test_both_passes_draw_the_same_dropout_masks(changes, lengths):
    model, tokens = encoder_only(dropout=0.4, **changes), texts(lengths)
    torch.manual_seed(5)
    seed = int(torch.randint(2**62, (1,)))

    torch.manual_seed(5)
    out, gradients = natively(model, tokens)
    expected, theirs = by_autograd(model, tokens, seed)
    torch.manual_seed(5)
    again, same = natively(model, tokens)

    assert_same_vectors(out, expected)
    assert_close(gradients, theirs, model)
    assert torch.equal(out, again)
    assert all(torch.equal(a, b) for a, b in zip(gradients, same, strict=True))
    assert not torch.equal(out, natively(model, tokens)[0])


def test_a_text_is_the_same_bits_in_any_batch():
    model, tokens = encoder_only(), texts([9, 30, 1, 300, 22])

    together = natively(model, tokens)[0].split([9, 30, 1, 300, 22])
    apart = [natively(model, tokens.rows(torch.tensor([n])))[0] for n in range(5)]

    for one, other in zip(together, apart, strict=True):
        assert torch.equal(one, other)


def test_texts_of_one_token_have_finite_gradients():
    out, gradients = natively(encoder_only(), texts([1, 1, 1]))

    assert out.isfinite().all()
    assert all(each.isfinite().all() for each in gradients)


def test_padding_changes_nothing():
    model, slim = encoder_only(), texts()
    wide = replace(slim, max_length=40)

    found = [natively(model, tokens)[1] for tokens in (slim, wide)]
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_graph_that_is_retained_can_be_run_twice(backend):
    model, tokens = use_backend(encoder_only(), backend), texts()
    loss = encode_batch(model, tokens).square().sum()
    loss.backward(retain_graph=True)
    once = [each.grad.clone() for each in model.parameters()]
    (loss * 0.5).backward()

    for found, first in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(found.grad, 1.5 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_weights_that_change_before_the_backward_pass_are_an_error(backend):
    model, tokens = use_backend(encoder_only(), backend), texts()
    loss = encode_batch(model, tokens).sum()
    with torch.no_grad():
        model.encoder.blocks[0].feed_forward.widen.weight.mul_(2)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_two_forward_passes_may_precede_their_backward_passes():
    model, some = encoder_only(dropout=0.2), [texts(seed=seed) for seed in range(2)]
    torch.manual_seed(1)
    apart = [natively(model, tokens)[1] for tokens in some]

    torch.manual_seed(1)
    model.zero_grad()
    outs = [NativeEncoding().encode(model, tokens) for tokens in some]
    for out in outs:
        out.backward(upstream(out))

    for found, *parts in zip(model.parameters(), *apart, strict=True):
        assert torch.equal(found.grad, parts[0] + parts[1])


def test_a_forward_pass_without_a_backward_pass_disturbs_nothing():
    model, tokens = encoder_only(), texts()
    expected = natively(model, tokens)[1]
    NativeEncoding().encode(model, texts(seed=9))

    for one, other in zip(natively(model, tokens)[1], expected, strict=True):
        assert torch.equal(one, other)


CONFIG = encoder_only().config


class WithHead(SequenceModel):
    """A model that contains an encoder, as those of the tasks do."""

    def __init__(self, body, head):
        super().__init__(CONFIG)
        self.body = body
        self.head = head


def test_a_model_with_a_head_trains_as_by_autograd():
    """Masked tokens: the embedding gets gradients from both of its uses."""
    body = encoder_only(activation="gelu", output_bias=True)
    model = WithHead(body, MaskedTokenHead(body.config, VOCABULARY)).train()
    tokens, places = texts(), torch.tensor([0, 5, 9, 40])
    targets = tokens.tokens[places]

    def learned(backend):
        use_backend(model, backend).zero_grad()
        vectors = encode_batch(model.body, tokens)[places]
        logits = model.head(vectors, model.body.embedding.vectors)
        loss = nn.functional.cross_entropy(logits, targets)
        loss.backward()
        return loss.item(), [each.grad.clone() for each in model.parameters()]

    expected, theirs = learned("reference")
    for backend in ENCODING_BACKENDS:
        loss, gradients = learned(backend)
        assert loss == pytest.approx(expected, rel=1e-5)
        assert_close(gradients, [each.double() for each in theirs], model, 1e-4)


@pytest.mark.parametrize("backend", ENCODING_BACKENDS)
def test_padded_vectors_are_those_of_the_model(backend):
    model, tokens = use_backend(encoder_only(), backend), texts([3, 7, 1])

    padded = encode_padded(model, tokens)
    padded.square().sum().backward()

    assert torch.equal(padded[tokens.is_real], encode_batch(model, tokens))
    assert (padded[~tokens.is_real] == 0).all()
    assert model.embedding.vectors.grad.abs().sum() > 0


def test_customizations_are_named_with_their_place():
    """What a head is made of is PyTorch's affair."""

    def made():
        body = encoder_only()
        model = WithHead(body, nn.Sequential(TaggingHead(body.config, 5)))
        return use_backend(model.train(), "auto")

    model = made()
    model.head[0].forward = lambda x: x
    assert why_not_native(model) is None
    model.body.encoder.blocks[1].feed_forward.activation = torch.tanh
    name = "body.encoder.blocks.1.feed_forward.activation was changed"
    assert why_not_native(model) == name
    model = made()
    checkpoint_activations(model)
    assert "keeps activations" in why_not_native(model)
    assert "keeps activations" in why_not_native(model.body)


def test_a_model_without_such_a_part_is_trained_by_pytorch():
    model = encoder_only()

    assert why_not_native(WithHead(model, nn.Linear(24, 5))) is None
    assert why_not_native(WithHead(model.encoder, nn.Linear(24, 5))) == (
        "the native backend does not know a WithHead"
    )


def test_every_backend_that_trains_encodes():
    assert set(ENCODING_BACKENDS) == set(TRAINING_BACKENDS)


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("auto", NativeEncoding),
        ("native", NativeEncoding),
        ("torch", TorchEncoding),
        ("torch_compile", TorchEncoding),
        ("reference", ReferenceEncoding),
    ],
)
def test_the_first_backend_that_can_encode_a_batch_does(backend, expected):
    model = use_backend(encoder_only(), backend)

    assert isinstance(encoding_backend(model, texts()), expected)


def test_pytorch_encodes_what_the_native_backend_cannot():
    model, why_not = encoder_only(), NativeEncoding().why_not

    assert "up to 512 tokens, not 513" in why_not(model, texts([MAX_LENGTH + 1]))
    assert why_not(model, texts([])) == "there are no tokens"
    with torch.no_grad():
        assert "dropout" in why_not(model, texts())
        assert why_not(model.eval(), texts([MAX_LENGTH + 1])) is None
    assert "whole float32 weights" in why_not(model.double(), texts())


def test_tokens_of_another_vocabulary_are_refused():
    with pytest.raises(DataError, match="vocabulary goes from 0 to 100"):
        encode_batch(encoder_only(), texts(vocabulary=200))
