import math

import pytest
import torch

from headwise.model import DecoderOnly, TransformerConfig
from headwise.tasks.language_model.loss import sliding_log_probabilities
from headwise.text.vocabulary import START

CONFIG = TransformerConfig(
    encoder_layers=0, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)
TEXT = torch.randint(4, 20, (45,), generator=torch.Generator().manual_seed(1)).tolist()


@pytest.fixture(scope="module")
def model():
    return DecoderOnly(CONFIG, 20, seed=3).eval()


def log_p(model, context, token):
    """Return ln p of ``token`` after START and ``context``, alone."""
    logits = model(torch.tensor([[START, *context]]))[0, -1]
    return logits.log_softmax(0)[token].item()


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_each_token_is_predicted_from_what_is_said(model, stride):
    context = 8
    found = sliding_log_probabilities(model, TEXT, context=context, stride=stride)

    assert len(found) == len(TEXT)
    for place, token in enumerate(TEXT):
        if place < context:
            before = TEXT[:place]
        else:
            first = context + (place - context) // stride * stride
            stop = min(len(TEXT), first + stride)
            before = TEXT[stop - context : place]
        assert len(before) >= min(place, context - stride)
        assert found[place].item() == pytest.approx(
            log_p(model, before, token), abs=1e-5
        )


def test_with_a_stride_of_1_each_token_has_the_whole_window(model):
    found = sliding_log_probabilities(model, TEXT, context=6, stride=1)
    expected = log_p(model, TEXT[-6:-1], TEXT[-1])

    assert found[-1].item() == pytest.approx(expected, abs=1e-5)


def test_a_short_text_is_one_window(model):
    found = sliding_log_probabilities(model, TEXT[:5], context=64, stride=1)

    assert found.sum().exp().item() == pytest.approx(
        math.exp(sum(log_p(model, TEXT[:i], TEXT[i]) for i in range(5))), rel=1e-4
    )
    assert len(sliding_log_probabilities(model, [], context=4, stride=2)) == 0
