"""Searches on arrays have the outputs of the searches in PyTorch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.backends.native.decoder import NativeDecoder
from headwise.decoding import native_search as module
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.logits_processors import exact_count
from headwise.decoding.native_search import (
    NativeRequest,
    native_search,
    why_not_searched,
)
from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.errors import Cancelled, NumericsError
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer

pytestmark = pytest.mark.usefixtures("needs_native_library")

PAD, START, END, PLACEHOLDER = 0, 1, 2, 4
FORBIDDEN = PAD, START
VOCABULARY = 23


@pytest.fixture(scope="module")
def decoder() -> NativeDecoder:
    """Return that of random weights, large enough that outputs differ and end."""
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=2, d_model=16, d_ff=32, num_heads=2
    )
    model = Transformer(config, VOCABULARY, seed=3).eval()
    chance = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() > 1:
                each.copy_(torch.randn(each.shape, generator=chance))
    return NativeDecoder(model)


def sources_of(lengths: list[int]) -> torch.Tensor:
    chance = torch.Generator().manual_seed(sum(lengths))
    rows = torch.randint(5, VOCABULARY, (len(lengths), max(lengths)), generator=chance)
    return rows.masked_fill(
        torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], PAD
    )


def both(
    decoder: NativeDecoder,
    lengths: list[int],
    settings: DecodingSettings,
    copies: list[int] | None = None,
    **changes: Any,
) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    """Search on arrays, and in PyTorch."""
    source = sources_of(lengths)
    shared = {"source_lengths": lengths, "start": START, "end": END, **changes}
    forbidden = FORBIDDEN if copies else (*FORBIDDEN, PLACEHOLDER)
    rules = [exact_count(PLACEHOLDER, copies, END)] if copies else []
    state = decoder.start(source, source != PAD)
    ours = native_search(
        decoder.steps,
        state,
        settings,
        NativeRequest(
            **shared,
            forbidden=forbidden,
            copied=PLACEHOLDER if copies else None,
            copies=copies or (),
        ),
    )
    theirs = search(
        decoder,
        decoder.start(source, source != PAD),
        settings,
        SearchRequest(**shared, forbidden=forbidden, rules=rules),
    )
    return ours, theirs


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    beam=st.integers(1, 5),
    stopping=st.sampled_from(["first-k", "exact", "never"]),
    penalty=st.sampled_from(["n^alpha", "gnmt", "none"]),
    patience=st.sampled_from([1.0, 2.0]),
)
def test_outputs_are_those_in_pytorch_to_the_last_bit(
    decoder, lengths, beam, stopping, penalty, patience
):
    settings = DecodingSettings(
        beam=beam,
        num_best=beam,
        stopping=stopping,
        length_penalty=penalty,
        patience=patience,
    )
    ours, theirs = both(decoder, lengths, settings)

    assert ours == theirs


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=9))
def test_greedy_search_without_scores_has_the_same_tokens(decoder, lengths):
    scored, _ = both(decoder, lengths, greedy())
    unscored, _ = both(decoder, lengths, replace(greedy(), scores=False))

    for (one,), (other,) in zip(scored, unscored, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert math.isnan(other.score)
        assert math.isnan(other.log_probability)


@given(
    pairs=st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=6
    ),
    beam=st.integers(1, 5),
    stopping=st.sampled_from(["first-k", "exact"]),
)
def test_placeholders_are_copied_as_by_the_rule(decoder, pairs, beam, stopping):
    lengths, copies = [each for each, _ in pairs], [each for _, each in pairs]
    if not any(copies):
        copies[0] = 1
    settings = DecodingSettings(beam=beam, stopping=stopping)
    ours, theirs = both(decoder, lengths, settings, copies)

    assert_equal_but_for_rounding(ours, theirs)
    for (mine,), wanted in zip(ours, copies, strict=True):
        if mine.finished:
            assert mine.tokens.count(PLACEHOLDER) == wanted


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    beam=st.integers(1, 5),
    size=st.integers(0, 3),
    min_length=st.integers(0, 8),
    copied=st.booleans(),
)
def test_other_rules_are_those_in_pytorch(
    decoder, lengths, beam, size, min_length, copied
):
    settings = DecodingSettings(
        beam=beam,
        num_best=beam,
        no_repeat_ngram=size,
        min_length_offset=min_length,
        max_length_factor=1,
        max_length_offset=12,
    )
    copies = [1] * len(lengths) if copied else None
    ours, theirs = both(decoder, lengths, settings, copies)

    assert_equal_but_for_rounding(ours, theirs)
    for hypotheses in ours:
        for each in hypotheses:
            tokens = each.tokens
            ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
            assert not size or len(set(ngrams)) == len(ngrams)
            assert len(tokens) >= min_length or not each.finished


@pytest.mark.parametrize("beam", [1, 3])
def test_an_output_that_can_neither_go_on_nor_end_is_an_error(decoder, beam):
    """After all tokens of the vocabulary, ``no_repeat_ngram = 1`` leaves none."""
    settings = DecodingSettings(
        beam=beam, no_repeat_ngram=1, min_length_offset=40, max_length_offset=60
    )
    with pytest.raises(NumericsError, match="too much is forbidden"):
        both(decoder, [3], settings)


def assert_equal_but_for_rounding(
    ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]
) -> None:
    """Compare searches with rules: PyTorch has ln p of all tokens by another way."""
    for mine, others in zip(ours, theirs, strict=True):
        for one, other in zip(mine, others, strict=True):
            assert (one.tokens, one.finished) == (other.tokens, other.finished)
            assert one.score == pytest.approx(other.score, rel=1e-5)
            assert one.log_probability == pytest.approx(other.log_probability, rel=1e-5)


@pytest.mark.parametrize("settings", [greedy(), DecodingSettings(beam=3)])
def test_a_search_can_be_cancelled_at_any_step(decoder, settings):
    steps = []

    def stop():
        steps.append(1)
        if len(steps) == 2:
            raise Cancelled("enough")

    long = DecodingSettings(beam=settings.beam, max_length_offset=60)
    with pytest.raises(Cancelled):
        both(decoder, [3, 4], long, check_stop=stop)

    assert len(steps) == 2


@pytest.mark.parametrize(
    "settings",
    [greedy(), replace(greedy(), scores=False), DecodingSettings(beam=3)],
)
def test_scores_that_are_not_finite_are_an_error(settings):
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, num_heads=2
    )
    model = Transformer(config, VOCABULARY).eval()
    with torch.no_grad():
        model.target_embedding.vectors[5] = torch.nan

    with pytest.raises(NumericsError):
        both(NativeDecoder(model), [3], settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (greedy(), None),
        (paper(), None),
        (DecodingSettings(num_best=4, stopping="exact"), None),
        (DecodingSettings(search="sampling"), "search is 'sampling'"),
        (DecodingSettings(coverage=0.2), "coverage is 0.2"),
        (DecodingSettings(min_length_offset=2, no_repeat_ngram=2), None),
        (DecodingSettings(repetition_penalty=2.0), "repetition_penalty is 2.0"),
        (DecodingSettings(banned=("x",)), "banned is ('x',)"),
        (DecodingSettings(alignments=True), "alignments is True"),
        (DecodingSettings(token_scores=True), "token_scores is True"),
    ],
)
def test_settings_that_need_torch_are_named(settings, reason):
    assert why_not_searched(settings) == reason


NO_EFFECT = {
    *("search", "beam", "num_best", "length_penalty", "alpha", "stopping", "patience"),
    *("max_length_factor", "max_length_offset", "min_length_factor"),
    *("min_length_offset", "scores", "warnings", "alignment_head", "ensemble"),
    *("split_sentences", "recase", "copy_numbers", "copy_names"),
    *("no_repeat_ngram", "groups", "diversity"),
    *("samples", "temperature", "top_k", "top_p", "epsilon", "seed"),
}
"""Settings that these searches follow, or that concern text or other searches."""


def test_every_setting_is_followed_or_needs_torch():
    """A new one must be put on either side."""
    known = {*NO_EFFECT, *module.NEED_TORCH}

    assert known == set(DecodingSettings.__dataclass_fields__)
