"""Sequence to sequence: one line of text becomes another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.data.batches import Batch, cut_by_tokens
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.search import search
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.losses import cross_entropy, projected_cross_entropy
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.model.looking import attention_seen
from headwise.model.refill import RefillingDecoder
from headwise.model.transformer import Transformer
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, PAD, START

NEVER_WRITTEN = (PAD, START)

SEARCH_TOKENS = 4096
"""Source positions searched at a time, padding and beams counted."""


@dataclass(frozen=True)
class CrossAttention:
    """What each word of a target takes from each word of its source.

    N decoder blocks, H heads, T pieces of the target, S of the source; END is both's
    last. Row t weighs the source where piece t is to be written.
    """

    source: list[str]
    target: list[str]
    weights: Tensor
    """[N H T S], each row a distribution over the source."""


@dataclass(frozen=True)
class Translation:
    """What is needed, besides a model, to learn from pairs and to use what was learned.

    ``stop`` is asked before each batch of a search, and may raise to end it.
    """

    tokenizers: TokenizerPair
    stop: Callable[[], None] = lambda: None

    def new_model(self, config: TransformerConfig, *, seed: int) -> Transformer:
        """Make a model of this architecture for these vocabularies."""
        return Transformer(
            config,
            self.tokenizers.source.size,
            self.tokenizers.target.size,
            seed=seed,
        )

    def loss(self, model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
        """Sum the cross-entropy over the real target tokens of ``batch``, in nats."""
        hidden = model.decode(batch.source, batch.target_in, batch.source != PAD)
        real = batch.target_out != PAD
        hidden, targets = hidden[real], batch.target_out[real]
        if model.kernels == "readable":
            return cross_entropy(model.logits(hidden), targets, smoothing)
        return projected_cross_entropy(
            hidden, model.output_vectors, model.output.bias, targets, smoothing
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn source texts into tokens, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def decode(self, hypothesis: Hypothesis) -> str:
        """Turn an output into text."""
        return self.tokenizers.target.decode(hypothesis.tokens)

    def search(
        self,
        model: Transformer,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        *,
        cached: bool = True,
    ) -> list[list[Hypothesis]]:
        """Find the outputs of each source, best first; similar lengths go together.

        Without ``cached`` each step runs the whole stack again on a refilled row: the
        same words by the readable way (:mod:`headwise.model.refill`).
        """
        found: list[list[Hypothesis]] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        longest = _lengths(sources, order) * settings.beam
        starts = [*cut_by_tokens(longest, SEARCH_TOKENS), len(order)]
        for start, stop in pairwise(starts):
            self.stop()
            chosen = order[start:stop]
            outputs = self._search_batch(
                model, [sources[index] for index in chosen], settings, cached=cached
            )
            for index, output in zip(chosen, outputs, strict=True):
                found[index] = output
        return found

    def translate(
        self,
        model: Transformer,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
    ) -> list[str]:
        """Return the best output of each text; a search is greedy unless it is said."""
        outputs = self.search(model, self.encode(texts), settings or greedy())
        return [self.decode(best[0]) for best in outputs]

    @torch.inference_mode()
    def cross_attention(
        self, model: Transformer, source: str, target: str
    ) -> CrossAttention:
        """Let ``model`` write ``target``, word for word, and note what it looks at."""
        asked = [*self.tokenizers.source.encode(source), END]
        written = self.tokenizers.target.encode(target)
        tokens = torch.tensor([asked], device=model.device)
        target_in = torch.tensor([[START, *written]], device=model.device)
        with attention_seen(model) as seen:
            model.decode(tokens, target_in, tokens != PAD)
        blocks = range(model.config.decoder_layers)
        names = [f"decoder.blocks.{block}.cross_attention" for block in blocks]
        return CrossAttention(
            source=self.tokenizers.source.pieces(asked),
            target=self.tokenizers.target.pieces([*written, END]),
            weights=torch.stack([seen[name][0][0] for name in names]),
        )

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Compare outputs with references, which stay as they are."""
        return measure(metric, outputs, references, resamples=resamples)

    def _search_batch(
        self,
        model: Transformer,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        *,
        cached: bool,
    ) -> list[list[Hypothesis]]:
        lengths = [len(source) for source in sources]
        padded = torch.full((len(sources), max(lengths) + 1), PAD)
        for row, source in zip(padded, sources, strict=True):
            row[: len(source) + 1] = torch.tensor([*source, END])
        padded = padded.to(model.device)
        longest = max(map(settings.max_length, lengths))
        decoder: Any = model
        if not cached:
            decoder = RefillingDecoder(model, length=longest, empty=PAD)
        with torch.inference_mode():
            state = decoder.start(padded, padded != PAD)
            return search(
                decoder,
                state,
                settings,
                source_lengths=lengths,
                start=START,
                end=END,
                forbidden=NEVER_WRITTEN,
                device=model.device,
            )


def _lengths(sources: Sequence[Sequence[int]], order: Sequence[int]) -> Any:
    return np.array([len(sources[index]) + 1 for index in order], dtype=np.int64)
