"""Forced decoding of given pairs: scores, cross-attention and alignments.

Letters used for sizes in this file:

    R  rows, one a pair      T  target positions, END's last     N  decoder blocks
    H  heads                 S  source positions, END's last     V  vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from headwise.decoding.ensemble import AVERAGES
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.sequence_scoring import score_sequences
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.model.attention_hooks import record_attention_weights
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.tasks.translation.alignment import (
    align_tokens,
    mutual_information,
    select_head,
)
from headwise.tasks.translation.cross_attention import stack_cross_attention
from headwise.tasks.translation.thread_pool import cut_batches
from headwise.tasks.translation.torch_threads import single_threaded
from headwise.text.vocabulary import END, PAD, START, UNKNOWN
from headwise.wording import count_of

BATCH_TOKENS = 2048
"""Most positions of a batch, each of which has logits for the whole vocabulary."""

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Source and target tokens, both without END."""


@dataclass(frozen=True)
class PairScorer:
    """Runs models, several as an ensemble, on pairs of source and target tokens.

    ``check_stop`` is called before each batch. With ``deterministic``, each pair is
    computed alone and on one thread.
    """

    models: tuple[EncoderDecoder, ...]
    check_stop: Callable[[], None] = lambda: None
    deterministic: bool = False

    def score(self, pairs: Pairs, settings: DecodingSettings) -> list[Hypothesis]:
        """Return each target as the hypothesis it would be for its source."""
        scored: dict[int, Hypothesis] = {}
        for batch in self._batches([_pair_length(*pair) for pair in pairs]):
            sources = [pairs[index][0] for index in batch]
            targets = [pairs[index][1] for index in batch]
            logits = self.logits(sources, targets, settings)
            hypotheses = score_sequences(logits, targets, end=END, score=settings.score)
            scored |= dict(zip(batch, hypotheses, strict=True))
        ordered = [scored[index] for index in range(len(pairs))]
        return self.align([source for source, _ in pairs], ordered, settings)

    def align(
        self,
        sources: Sequence[Sequence[int]],
        hypotheses: Sequence[Hypothesis],
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Add alignments to the hypotheses of these sources, if they are needed.

        Raises ``UsageError`` unless there is one hypothesis for each source.
        """
        if len(sources) != len(hypotheses):
            raise UsageError(
                "each source needs its hypothesis: there are "
                f"{count_of(len(sources), 'source')} and "
                f"{count_of(len(hypotheses), 'hypothesis', 'hypotheses')}"
            )
        aligned = list(hypotheses)
        needed: Sequence[int] = range(len(hypotheses))
        if not settings.alignments:
            if not settings.replace_unknown:
                return aligned
            needed = [n for n in needed if UNKNOWN in hypotheses[n].tokens]
        sizes = [_pair_length(sources[n], hypotheses[n].tokens) for n in needed]
        for batch in self._batches(sizes):
            indices = [needed[index] for index in batch]
            targets = [hypotheses[index].tokens for index in indices]
            weights = self.cross_attention([sources[n] for n in indices], targets)
            of_head = select_head(weights, settings.alignment_head)
            for index, row, target in zip(indices, of_head, targets, strict=True):
                links = align_tokens(row, sources[index], target)
                aligned[index] = replace(aligned[index], alignment=links)
        return aligned

    def best_head(self, pairs: Pairs) -> tuple[str, dict[str, float]]:
        """Return the ``alignment_head`` with the highest mutual information, and all.

        The mutual information is in nats; no pair must have been aligned by hand.
        """
        num_blocks, num_heads = self.models[0].config.cross_attention_shape
        heads = [
            f"{block}:{head}{later}"
            for block in range(num_blocks)
            for head in range(num_heads)
            for later in ("", "+1")
        ]
        heads.append("average")
        token_pairs: dict[str, list[tuple[int, int]]] = {name: [] for name in heads}
        for batch in self._batches([_pair_length(*pair) for pair in pairs]):
            sources = [pairs[index][0] for index in batch]
            targets = [pairs[index][1] for index in batch]
            weights = self.cross_attention(sources, targets)
            for name in heads:
                of_head = select_head(weights, name)
                for row, source, target in zip(of_head, sources, targets, strict=True):
                    token_pairs[name] += [
                        (source[i], target[j])
                        for i, j in align_tokens(row, source, target)
                    ]
        nats = {name: mutual_information(token_pairs[name]) for name in heads}
        return max(heads, key=lambda name: nats[name]), nats

    @torch.inference_mode()
    def cross_attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Tensor:
        """Return the cross-attention [R, N, H, T, S] of the first model."""
        model = self.models[0]
        source, source_is_real = pad_sources(sources, model.device)
        with record_attention_weights(model) as record:
            model.decode(source, self._target_in(targets), source_is_real)
        return stack_cross_attention(record)

    @torch.inference_mode()
    def logits(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        settings: DecodingSettings,
    ) -> Tensor:
        """Return the logits [R T V] after START and each token of the targets."""
        source, source_is_real = pad_sources(sources, self.models[0].device)
        target_in = self._target_in(targets)
        if len(self.models) == 1:
            logits: Tensor = self.models[0](source, target_in, source_is_real)
            return logits
        each = [
            model(source, target_in, source_is_real).float().log_softmax(-1)
            for model in self.models
        ]
        return AVERAGES[settings.ensemble](torch.stack(each))

    def _target_in(self, targets: Sequence[Sequence[int]]) -> Tensor:
        return pad_tokens([[START, *target] for target in targets]).to(
            self.models[0].device
        )

    def _batches(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        with single_threaded(self.deterministic):
            for batch in cut_batches(sizes, BATCH_TOKENS, alone=self.deterministic):
                self.check_stop()
                yield batch


def pad_sources(
    sources: Sequence[Sequence[int]], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return sources with END, padded [R S], and the mask of real tokens.

    Arrays of patches [S P] become [R S P], without END.
    """
    if isinstance(sources[0], np.ndarray):
        stacked = np.stack([np.asarray(each) for each in sources])
        patches = torch.from_numpy(stacked).to(device)
        return patches, patches.new_ones(patches.shape[:2], dtype=torch.bool)
    padded = pad_tokens([[*source, END] for source in sources]).to(device)
    return padded, padded != PAD


def _pair_length(source: Sequence[int], target: Sequence[int]) -> int:
    return max(len(source), len(target)) + 1


def pad_tokens(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return rows of tokens as a matrix [R T], shorter ones padded."""
    padded = torch.full((len(rows), max(map(len, rows), default=0)), PAD)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    return padded
