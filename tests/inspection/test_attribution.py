"""Attribution: gradients against Captum, leave-one-out against another forward pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient
from tests.inspection.conftest import random_model
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.errors import UsageError
from headwise.inspection import attribution as module
from headwise.inspection.attribution import (
    attribution_of,
    gradient_times_input,
    leave_one_out,
    target_of_transformer,
)
from headwise.model.masks import make_causal_mask, make_padding_mask


def captum_rows(model, pair):
    """Return what Captum attributes to the embedded source, [T S]."""
    source = torch.tensor([pair.source])
    inputs = torch.tensor([pair.decoder_input])
    mask = make_padding_mask(torch.ones_like(source).bool())

    def log_p(embedded):
        encoded = model.encoder(model.enter_encoder(embedded, 0), mask)
        state = model.decoder.initial_state(encoded, mask)
        x = model.enter_decoder(model.target_embedding(inputs), 0)
        causal = make_causal_mask(inputs.shape[1], inputs.device)
        return model.logits(model.decoder(x, state, causal)).log_softmax(-1)

    embedded = model.source_embedding(source).detach().requires_grad_()
    attribute = InputXGradient(log_p).attribute
    return torch.stack(
        [
            attribute(embedded, target=(position, token))[0].sum(dim=-1)
            for position, token in enumerate(pair.target)
        ]
    )


def test_gradient_times_input_is_captums(model, pair):
    found = gradient_times_input(target_of_transformer(model, pair), range(5))

    torch.testing.assert_close(found, captum_rows(model, pair).detach())


def test_gradient_times_input_is_the_slope_along_the_embedding(model, pair):
    """By finite differences: ln p as one embedding grows by a millionth of itself."""
    step = 1e-6
    found = gradient_times_input(target_of_transformer(model, pair), range(5))
    reference = NumpyTransformer(model)

    def log_p(factor, position):
        def edit(name, x):
            if name == "encoder.embedding":
                x[position] *= factor
            return x

        run = reference.run(list(pair.source), list(pair.decoder_input), edit=edit)
        return run["log_p"][range(5), pair.target]

    for position in range(6):
        slope = (log_p(1 + step, position) - log_p(1 - step, position)) / (2 * step)
        np.testing.assert_allclose(found[:, position].numpy(), slope, atol=1e-6)


def test_leave_one_out_hides_a_token_from_all_attention(model, pair):
    found = leave_one_out(target_of_transformer(model, pair), range(5))
    reference = NumpyTransformer(model)
    source, inputs = list(pair.source), list(pair.decoder_input)
    whole = reference.run(source, inputs)["log_p"][range(5), pair.target]
    for position in range(6):
        hidden = reference.run(source, inputs, hidden_source=(position,))
        without = hidden["log_p"][range(5), pair.target]
        np.testing.assert_allclose(
            found[:, position].numpy(), whole - without, atol=1e-9
        )


@pytest.mark.parametrize("limit", ["BATCH_TOKENS", "LOGITS_AT_ONCE"])
def test_batches_and_positions_change_nothing(limit, model, pair, monkeypatch):
    output = target_of_transformer(model, pair)
    whole = attribution_of(output)
    two_rows = {"BATCH_TOKENS": 12, "LOGITS_AT_ONCE": 2 * 5 * output.vocabulary}
    monkeypatch.setattr(module, limit, two_rows[limit])
    rows = []

    def counted(is_real):
        rows.append(len(is_real))
        return output.numbers(is_real)

    found = attribution_of(replace(output, numbers=counted), positions=[4, 1])

    assert max(rows) == 2
    torch.testing.assert_close(found.gradient_input, whole.gradient_input[[4, 1]])
    torch.testing.assert_close(found.leave_one_out, whole.leave_one_out[[4, 1]])
    assert found.positions == (4, 1)
    assert whole.positions == (0, 1, 2, 3, 4)


def test_no_gradient_is_left_behind_and_inference_mode_is_no_matter(pair):
    model = random_model()
    with torch.no_grad():
        found = gradient_times_input(target_of_transformer(model, pair), [0])

    assert not found.requires_grad
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("position", [-1, 5])
def test_a_position_that_there_is_not_is_refused(model, pair, position):
    with pytest.raises(UsageError, match=f"no target position {position}; there are 5"):
        attribution_of(target_of_transformer(model, pair), positions=[position])
