"""Poolings and heads of an encoder: worked by hand, and laws of padding."""

import math
from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL, VOCABULARY, perturbed
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model.feed_forward import ACTIVATIONS
from headwise.model.heads import (
    POOLINGS,
    ClassificationHead,
    ContextPooling,
    MaskedTokenHead,
    RegressionHead,
    TaggingHead,
)

CONFIG = replace(SMALL, decoder_layers=0)
ENCODED = torch.tensor([[[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]]])
IS_REAL = torch.tensor([[True, True, False]])
"""Two vectors, and one of padding."""

EACH_POOLING = pytest.mark.parametrize("name", POOLINGS)


def pooling_of(name, width, dtype=torch.float32):
    return perturbed(POOLINGS[name](width), dtype)


def test_the_first_vector_by_hand():
    assert POOLINGS["first"](2)(ENCODED, IS_REAL).tolist() == [[3.0, 0.0]]


def test_the_mean_by_hand():
    """(3 + 0) / 2 and (0 + 4) / 2: padding has no part in it."""
    assert POOLINGS["mean"](2)(ENCODED, IS_REAL).tolist() == [[1.5, 2.0]]


def test_the_weights_by_a_context_vector_by_hand():
    """U = (ln 3, 0) has the cosines 1 and 0, times ln 3: weights 3/4 and 1/4."""
    pooling = ContextPooling(2)
    with torch.no_grad():
        pooling.context_vector.copy_(torch.tensor([math.log(3), 0.0]))

    pooled = pooling(ENCODED, IS_REAL)

    torch.testing.assert_close(pooled, torch.tensor([[0.75 * 3, 0.25 * 4]]))


def test_a_context_vector_of_length_1_weighs_by_the_cosine_similarity():
    encoded = torch.randn(2, 5, 16, dtype=torch.float64)
    pooling = pooling_of("context", 16, torch.float64)
    with torch.no_grad():
        pooling.context_vector /= pooling.context_vector.norm()

    pooled = pooling(encoded, torch.ones(2, 5, dtype=torch.bool))

    cosines = F.cosine_similarity(pooling.context_vector, encoded, dim=-1)
    expected = (cosines.softmax(1)[:, :, None] * encoded).sum(1)
    torch.testing.assert_close(pooled, expected)


def test_a_context_vector_of_zeros_gives_the_mean():
    """So it begins: heads draw weights, but a vector that is no matrix is zeros."""
    head = ClassificationHead(CONFIG, 3, pooling="context")
    encoded, is_real = torch.randn(2, 5, 16), torch.arange(5) < torch.tensor([[5], [2]])

    pooled = head.pooler.pooling(encoded, is_real)

    assert (head.pooler.pooling.context_vector == 0).all()
    torch.testing.assert_close(pooled, POOLINGS["mean"](16)(encoded, is_real))


@EACH_POOLING
def test_padding_changes_nothing(name):
    pooling = pooling_of(name, 16, torch.float64)
    encoded = torch.randn(3, 7, 16, dtype=torch.float64)
    lengths = [7, 5, 2]
    is_real = torch.arange(7) < torch.tensor(lengths)[:, None]
    other = torch.where(is_real[:, :, None], encoded, -3.0)

    pooled = pooling(encoded, is_real)

    assert torch.equal(pooling(other, is_real), pooled)
    for row, length in enumerate(lengths):
        mine = slice(row, row + 1), slice(length)
        alone = pooling(encoded[mine], is_real[mine])
        torch.testing.assert_close(pooled[row : row + 1], alone, rtol=0, atol=1e-12)


@EACH_POOLING
def test_a_row_of_padding_alone_gives_zeros_and_finite_gradients(name):
    pooling = pooling_of(name, 16)
    encoded = torch.randn(2, 3, 16, requires_grad=True)
    is_real = torch.tensor([[True, True, False], [False, False, False]])

    pooled = pooling(encoded, is_real)
    pooled.square().sum().backward()

    assert (pooled[1] == 0).all()
    assert (pooled[0] != 0).any()
    assert (encoded.grad[1] == 0).all()
    for each in (encoded, *pooling.parameters()):
        assert each.grad.isfinite().all()


@EACH_POOLING
@pytest.mark.parametrize("tanh_layer", [True, False])
def test_a_class_is_pooled_then_tanh_then_linear(encoder_only, batch, name, tanh_layer):
    source, _, is_real = batch
    encoded = encoder_only()(source, is_real)
    head = perturbed(ClassificationHead(CONFIG, 4, pooling=name, tanh_layer=tanh_layer))

    logits = head(encoded, is_real)

    x = head.pooler.pooling(encoded, is_real)
    if tanh_layer:
        x = torch.tanh(x @ head.pooler.dense.weight.T + head.pooler.dense.bias)
    expected = x @ head.to_logits.weight.T + head.to_logits.bias
    torch.testing.assert_close(logits, expected)
    assert logits.shape == (3, 4)
    assert (head.pooler.dense is not None) == tanh_layer


def test_regression_gives_one_number_for_each_text(encoder_only, batch):
    source, _, is_real = batch
    encoded = encoder_only()(source, is_real)
    head = perturbed(RegressionHead(CONFIG, pooling="mean", tanh_layer=False))

    numbers = head(encoded, is_real)

    means = POOLINGS["mean"](16)(encoded, is_real)
    expected = (means * head.to_number.weight[0]).sum(1) + head.to_number.bias
    torch.testing.assert_close(numbers, expected)
    assert numbers.shape == (3,)


def test_a_tag_depends_on_the_vector_at_its_position_alone(encoder_only, batch):
    source, _, is_real = batch
    encoded = encoder_only()(source, is_real)
    head = perturbed(TaggingHead(CONFIG, 5))

    logits = head(encoded)

    assert logits.shape == (3, 7, 5)
    for row in range(3):
        for position in range(7):
            expected = head.to_logits(encoded[row, position])
            torch.testing.assert_close(logits[row, position], expected)


@pytest.mark.parametrize("tying", ["none", "all"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_masked_tokens_are_scored_by_the_embedding_unless_untied(
    encoder_only, batch, activation, tying
):
    source, _, is_real = batch
    choice = {"activation": activation, "tie_embeddings": tying, "output_bias": True}
    model = encoder_only(**choice)
    head = perturbed(MaskedTokenHead(model.config, VOCABULARY))
    encoded = model(source, is_real)

    logits = head(encoded, model.embedding.vectors)

    matrix = head.output.vectors if tying == "none" else model.embedding.vectors
    x = head.norm(ACTIVATIONS[activation](head.dense(encoded)))
    torch.testing.assert_close(logits, x @ matrix.T + head.output.bias)
    assert ("output.vectors" in head.state_dict()) == (tying == "none")
    some = head(encoded[is_real], model.embedding.vectors)
    torch.testing.assert_close(some, logits[is_real])


@EACH_POOLING
def test_a_head_trains_with_its_encoder(encoder_only, batch, name):
    """A gradient reaches every weight of both."""
    source, _, is_real = batch
    model = encoder_only(dropout=0.1).train()
    heads = [
        ClassificationHead(CONFIG, 4, pooling=name),
        RegressionHead(CONFIG, pooling=name),
        TaggingHead(CONFIG, 5),
        MaskedTokenHead(CONFIG, VOCABULARY),
    ]
    classify, regress, tag, unmask = heads

    encoded = model(source, is_real)
    outputs = [
        classify(encoded, is_real).logsumexp(-1),
        regress(encoded, is_real),
        tag(encoded).logsumexp(-1),
        unmask(encoded[is_real], model.embedding.vectors).logsumexp(-1),
    ]
    sum(each.sum() for each in outputs).backward()

    for module in (model, *heads):
        for weight_name, weight in module.named_parameters():
            assert weight.grad is not None, weight_name
            assert weight.grad.isfinite().all(), weight_name
            assert weight.grad.abs().max() > 0, weight_name


def test_dropout_is_on_what_the_last_layer_reads_and_in_training_only():
    config = replace(CONFIG, dropout=0.5)
    encoded, is_real = torch.randn(4, 3, 16), torch.ones(4, 3, dtype=torch.bool)
    for head, inputs in [
        (ClassificationHead(config, 4), (encoded, is_real)),
        (RegressionHead(config), (encoded, is_real)),
        (TaggingHead(config, 4), (encoded,)),
    ]:
        assert not torch.equal(head.train()(*inputs), head(*inputs))
        assert torch.equal(head.eval()(*inputs), head(*inputs))


def test_the_same_seed_gives_the_same_weights():
    for kind in (ClassificationHead, TaggingHead, MaskedTokenHead):
        first, second, other = (kind(CONFIG, 4, seed=seed) for seed in (5, 5, 6))

        pairs = zip(first.parameters(), second.parameters(), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)
        assert not torch.equal(*(next(each.parameters()) for each in (first, other)))


def test_an_unknown_pooling_is_refused_with_those_that_are_known():
    with pytest.raises(
        SettingsError, match="pooling must be one of first, mean, context, not 'max'"
    ):
        RegressionHead(CONFIG, pooling="max")


def test_a_context_vector_is_zero_when_it_is_made():
    """It used to be memory that nobody had written, which once in a while is NaN."""
    assert not ContextPooling(64).context_vector.any()
