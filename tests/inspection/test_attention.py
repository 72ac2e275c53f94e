"""Attention weights against an independent forward pass in float64."""

import math

import numpy as np
import pytest
import torch
from tests.inspection.conftest import SHAPES, pair_of, random_model
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.errors import ResourceError, UsageError
from headwise.inspection import attention as module
from headwise.inspection.attention import attention_of, attention_rollout
from headwise.inspection.places import Head, all_heads, parse_head
from headwise.inspection.token_pair import TokenPair, run_model
from headwise.model import DecoderOnly, EncoderOnly, TransformerConfig
from headwise.model.attention import MultiHeadAttention


def test_every_head_has_the_weights_of_an_independent_forward_pass(
    model, pair, numbers
):
    found = attention_of(model, pair)

    assert [each.head for each in found.maps] == all_heads(model)
    assert len(found.maps) == 3 * 2 * 4
    for each in found.maps:
        expected = numbers[f"{each.head}.weights"]
        np.testing.assert_allclose(each.weights.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_in_float32_too(shape, pair):
    model = random_model(torch.float32, **SHAPES[shape])
    expected = NumpyTransformer(model).run(list(pair.source), list(pair.decoder_input))

    for each in attention_of(model, pair).maps:
        weights = each.weights.double().numpy()
        np.testing.assert_allclose(
            weights, expected[f"{each.head}.weights"], rtol=0, atol=2e-6
        )


def test_rows_sum_to_one_and_the_future_is_exactly_zero(model, pair):
    for each in attention_of(model, pair).maps:
        rows = each.weights.sum(dim=1)
        torch.testing.assert_close(rows, torch.ones_like(rows))
        if each.head.kind == "decoder":
            assert (each.weights.triu(diagonal=1) == 0).all()


def test_labels_are_those_of_rows_and_columns(model, pair):
    found = attention_of(model, pair)

    for each in found.maps:
        rows, columns = found.labels(each.head)
        assert each.weights.shape == (len(rows), len(columns))
    assert found.labels(parse_head("cross.0.0")) == (
        pair.target_pieces,
        pair.source_pieces,
    )
    assert found.labels(parse_head("decoder.0.0"))[1] == (
        "<s>",
        *pair.target_pieces[:-1],
    )


def test_norms_are_the_lengths_of_weighted_values_after_w_o(model, pair, numbers):
    """Kobayashi et al., from the arrays of the independent forward pass."""
    found = attention_of(model, pair, norms=True)
    weights = NumpyTransformer(model).weights
    names = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder"}
    for each in found.maps:
        head = each.head
        layer = "cross" if head.kind == "cross" else "self"
        stack = names[head.kind]
        w_o = weights[f"{stack}.blocks.{head.layer}.{layer}_attention.to_output.weight"]
        width = w_o.shape[1] // 4
        of_head = w_o[:, head.head * width : (head.head + 1) * width]
        added = (
            numbers[f"{head}.weights"][:, :, None]
            * (numbers[f"{head}.values"] @ of_head.T)[None]
        )  # Q K D
        np.testing.assert_allclose(
            each.norms.numpy(), np.linalg.norm(added, axis=-1), atol=1e-12
        )


def test_norms_of_a_layer_are_of_the_sum_over_its_heads(model, pair, numbers):
    found = attention_of(model, pair, norms=True)
    weights = NumpyTransformer(model).weights
    w_o = weights["encoder.blocks.1.self_attention.to_output.weight"]
    width = w_o.shape[1] // 4
    added = sum(
        numbers[f"encoder.1.{head}.weights"][:, :, None]
        * (
            numbers[f"encoder.1.{head}.values"]
            @ w_o[:, head * width : (head + 1) * width].T
        )[None]
        for head in range(4)
    )
    (layer,) = [x for x in found.layer_norms if str(x.attention) == "encoder.1"]
    np.testing.assert_allclose(
        layer.norms.numpy(), np.linalg.norm(added, axis=-1), atol=1e-9
    )


def test_rollout_of_two_layers_by_hand():
    """Two words. Layer 1 looks at itself; layer 2's first word looks at the second.

    (A₁ + I) / 2 = I; (A₂ + I) / 2 = [[1/2, 1/2], [0, 1]], which is the product.
    """
    first = torch.eye(2)
    second = torch.tensor([[0.0, 1.0], [0.0, 1.0]])

    found = attention_rollout([first, second])

    torch.testing.assert_close(found, torch.tensor([[0.5, 0.5], [0.0, 1.0]]))


def test_rollout_is_of_the_mean_over_heads_and_its_rows_sum_to_one(
    model, pair, numbers
):
    expected = np.eye(6)
    for layer in range(2):
        mean = sum(numbers[f"encoder.{layer}.{head}.weights"] for head in range(4)) / 4
        expected = (mean + np.eye(6)) / 2 @ expected

    found = attention_of(model, pair, rollout=True).rollout

    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(dim=1).numpy(), 1, atol=1e-12)


def test_only_the_heads_asked_for_are_kept(model, pair):
    heads = [parse_head("cross.1.2"), parse_head("encoder.0.3")]

    found = attention_of(model, pair, heads=heads, norms=True)

    assert [each.head for each in found.maps] == [heads[1], heads[0]]
    assert found.layer_norms == ()


def test_nothing_stays_swapped(model, pair):
    before = [each.attend for each in layers(model)]
    model.train()

    attention_of(model, pair)

    assert [each.attend for each in layers(model)] == before
    assert model.training
    assert model.interventions == ()


def layers(model):
    return [each for each in model.modules() if isinstance(each, MultiHeadAttention)]


def test_looking_changes_no_output(model, pair):
    plain = run_model(model, pair)
    attention_of(model, pair)

    assert torch.equal(run_model(model, pair), plain)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (Head("cross", 2, 0), "there is no attention layer cross.2; this model has"),
        (Head("encoder", 1, 4), r"there is no head encoder.1.4: encoder.1 has 4 heads"),
    ],
)
def test_a_head_that_there_is_not_is_refused_by_name(model, pair, head, said):
    with pytest.raises(UsageError, match=said):
        attention_of(model, pair, heads=[head])


def test_more_weights_than_memory_is_meant_for_are_refused(model, pair, monkeypatch):
    monkeypatch.setattr(module, "MAX_WEIGHTS", 100)

    with pytest.raises(ResourceError, match="choose fewer heads"):
        attention_of(model, pair)
    assert attention_of(model, pair, heads=[parse_head("cross.0.0")]).maps


def test_an_encoder_alone_is_looked_into_too():
    config = TransformerConfig(
        encoder_layers=2, decoder_layers=0, d_model=16, d_ff=24, num_heads=4
    )
    pair = TokenPair((5, 6, 7, 2), (), ("a", "b", "c", "</s>"), (), "<s>")

    found = attention_of(EncoderOnly(config, 13), pair, rollout=True)

    assert {each.head.kind for each in found.maps} == {"encoder"}
    assert found.rollout.shape == (4, 4)
    assert math.isclose(float(found.maps[0].weights.sum()), 4, rel_tol=1e-5)


def test_a_decoder_alone_is_looked_into_too():
    config = TransformerConfig(
        encoder_layers=0, decoder_layers=2, d_model=16, d_ff=24, num_heads=4
    )
    pair = TokenPair((), (5, 6, 7, 2), (), ("a", "b", "c", "</s>"), "<s>")

    found = attention_of(DecoderOnly(config, 13), pair, rollout=True)

    assert {each.head.kind for each in found.maps} == {"decoder"}
    assert (found.rollout.triu(diagonal=1) == 0).all()
    assert found.labels(parse_head("decoder.0.0")) == (
        ("a", "b", "c", "</s>"),
        ("<s>", "a", "b", "c"),
    )


def test_a_model_without_heads_is_refused_by_name():
    from headwise.model.recurrent.encoder_decoder import LstmModel

    config = TransformerConfig(kind="lstm", encoder_layers=1, decoder_layers=1)

    with pytest.raises(UsageError, match="a LstmModel has no multi-head attention"):
        attention_of(LstmModel(config, 13), pair_of())
