"""The searches over a decoder alone (GPT), against uncached search."""

from dataclasses import dataclass, replace

import pytest
import torch

from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import PRESETS, DecodingSettings
from headwise.model import DecoderOnly, TransformerConfig

PAD, START, END = 0, 1, 2
PROMPTS = [[5, 6, 7], [9], [8, 4, 8, 4, 8], []]
OTHERS = {
    "n-best": DecodingSettings(beam=3, num_best=3),
    "diverse-beam": DecodingSettings(
        search="diverse-beam", beam=4, groups=2, diversity=0.5, num_best=4
    ),
    "sampling": DecodingSettings(search="sampling", samples=3, num_best=3, seed=7),
    "rules": DecodingSettings(beam=3, no_repeat_ngram=2),
}
SETTINGS = {**{name: make() for name, make in PRESETS.items()}, **OTHERS}


@pytest.fixture(scope="module", params=[None, 3], ids=["causal", "window"])
def model(request):
    """Return random weights, with an output that is far from an even choice."""
    config = TransformerConfig(
        encoder_layers=0,
        decoder_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=2,
        tie_embeddings="none",
        output_bias=True,
    )
    model = DecoderOnly(config, 12, window=request.param, seed=2).eval()
    with torch.no_grad():
        model.output_vectors.mul_(3)
        model.output.bias[END] = 4.0  # so that texts end
    return model


@dataclass
class Texts:
    """The tokens of each row so far, and the prompts that will follow the first."""

    prompts: list[list[int]]
    tokens: list[list[int]]

    def index_select(self, index):
        rows = index.tolist()
        return Texts([self.prompts[i] for i in rows], [self.tokens[i] for i in rows])


class Uncached:
    """The same model, by a whole forward pass of each row at every step."""

    def __init__(self, model):
        self.model = model

    def step(self, tokens, state):
        texts = [
            [*before, token] if before else [token, *prompt]
            for prompt, before, token in zip(
                state.prompts, state.tokens, tokens.tolist(), strict=True
            )
        ]
        logits = [self.model(torch.tensor([text]))[0, -1] for text in texts]
        return torch.stack(logits), Texts(state.prompts, texts)


def padded(prompts):
    longest = max(map(len, prompts))
    ids = torch.tensor([each + [PAD] * (longest - len(each)) for each in prompts])
    return ids, ids != PAD


@pytest.mark.parametrize("name", SETTINGS)
def test_cached_search_equals_uncached_search(model, name):
    settings = replace(
        SETTINGS[name], max_length_factor=1.0, max_length_offset=4
    )  # to be fast
    request = SearchRequest(
        source_lengths=[5, 4, 3, 6], start=START, end=END, forbidden=(PAD, START)
    )

    cached = search(model, model.start(*padded(PROMPTS)), settings, request)
    uncached = search(
        Uncached(model), Texts(PROMPTS, [[] for _ in PROMPTS]), settings, request
    )

    assert any(each.finished for found in cached for each in found)
    for ours, expected in zip(cached, uncached, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in expected]
        assert [each.score for each in ours] == pytest.approx(
            [each.score for each in expected], rel=1e-4
        )


def test_a_prompt_changes_what_is_generated(model):
    settings = replace(SETTINGS["n-best"], max_length_factor=1.0, max_length_offset=4)
    request = SearchRequest(
        source_lengths=[5] * 4, start=START, end=END, forbidden=(PAD, START)
    )

    found = search(model, model.start(*padded(PROMPTS)), settings, request)

    assert len({tuple(each.tokens for each in some) for some in found}) == 4
