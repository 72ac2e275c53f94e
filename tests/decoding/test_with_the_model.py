"""The searches over a Transformer, against uncached search of one sentence."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from tests.reference.beam_search import readable_beam_search

from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import PRESETS, DecodingSettings
from headwise.decoding.stopping import STOPPING
from headwise.model import Transformer, TransformerConfig

PAD, START, END = 0, 1, 2
SOURCES = [[5, 6, 7, END], [9, END], [8, 4, 8, 4, 8, END], [END]]


@pytest.fixture(scope="module")
def model():
    """Return random weights, with an output that is far from an even choice."""
    config = TransformerConfig(
        encoder_layers=2,
        decoder_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=2,
        tie_embeddings="none",
    )
    model = Transformer(config, 12, seed=2).eval()
    with torch.no_grad():
        model.output_vectors.mul_(3)
    return model


def padded(sources):
    longest = max(len(source) for source in sources)
    ids = torch.tensor([each + [PAD] * (longest - len(each)) for each in sources])
    return ids, ids != PAD


@pytest.mark.parametrize(
    "settings",
    [*(make() for make in PRESETS.values()), DecodingSettings(beam=3, num_best=3)],
    ids=[*PRESETS, "n-best"],
)
def test_cached_batched_search_equals_uncached_search_of_one_sentence(model, settings):
    """Batched, with memory and padding, against whole forward passes of one row."""
    settings = replace(
        settings, max_length_factor=1.0, max_length_offset=3
    )  # to be fast
    source, is_real = padded(SOURCES)
    lengths = [len(each) - 1 for each in SOURCES]

    with torch.inference_mode():
        batched = search(
            model,
            model.start(source, is_real),
            settings,
            SearchRequest(
                source_lengths=lengths, start=START, end=END, forbidden=(PAD, START)
            ),
        )

    assert any(found[0].finished for found in batched)
    for ids, length, found in zip(SOURCES, lengths, batched, strict=True):

        @cache
        def log_probabilities(written, ids=ids):
            row = torch.tensor([ids])
            target = torch.tensor([[START, *written]])
            with torch.inference_mode():
                logits = model(row, target, torch.ones_like(row, dtype=torch.bool))
            return logits[0, -1].double().log_softmax(-1).tolist()

        plain = readable_beam_search(
            log_probabilities,
            end=END,
            beam=settings.beam,
            penalty=settings.penalty,
            stopping=STOPPING[settings.stopping],
            max_length=settings.max_length(length),
            num_best=settings.num_best,
            forbidden=(PAD, START),
        )
        assert [each.tokens for each in found] == [each.tokens for each in plain]
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in plain], rel=1e-4
        )
