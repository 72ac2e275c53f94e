"""What is in the context of a model that goes on beyond it."""

import pytest
import torch

from headwise.model import DecoderOnly, TransformerConfig
from headwise.tasks.language_model.sliding_context import SlidingContext
from headwise.text.vocabulary import START

CONFIG = TransformerConfig(
    encoder_layers=0, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)
CONTEXT = 8


@pytest.mark.parametrize("prompt", [[], [6, 9, 5], [4, 8, 7, 11, 5, 10, 9, 6, 4, 7, 5]])
def test_each_step_is_the_model_of_the_tokens_in_its_context(prompt):
    """START and the prompt's end first; of a full context, the later half stays."""
    model = DecoderOnly(CONFIG, 12, seed=2).eval()
    sliding = SlidingContext(model, CONTEXT, "cpu")
    text = torch.randint(4, 12, (20,), generator=torch.Generator().manual_seed(1))
    window = prompt[-(CONTEXT - 1) :]
    state = sliding.start([prompt])

    for token in [START, *text.tolist()]:
        if token != START:
            window = [*window, token]
        if len(window) == CONTEXT:
            window = window[-(CONTEXT // 2) :]
        logits, state = sliding.step(torch.tensor([token]), state)
        expected = model(torch.tensor([[START, *window]]))[:, -1]

        torch.testing.assert_close(logits, expected)
