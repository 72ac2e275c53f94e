"""How much each head matters, by what references lose without it; and pruning.

Michel et al. (2019), Are Sixteen Heads Really Better than One?, measure BLEU without
each head; ln p of references moves with every head, and needs no search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.decoding.settings import DecodingSettings
from headwise.errors import DataError, UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.places import Head, all_heads, find_head
from headwise.inspection.token_pair import require_transformer
from headwise.metrics.paired_difference import paired_difference
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.translation.pair_scorer import Pairs, PairScorer


@dataclass(frozen=True, slots=True)
class HeadsLoss:
    """What references lose without some heads, in nats for each input."""

    heads: tuple[Head, ...]

    loss: float
    """Mean over the inputs of ln p with the heads less ln p without them; below 0 if
    references are more probable without."""

    low: float | None
    """Lower end of the 95% interval of the mean, by Student's t over inputs; None of
    one sentence."""

    high: float | None

    sentences: int

    tokens: int
    """Of the references: of texts END counted, of labels one each."""


@dataclass(frozen=True, slots=True)
class HeadRanking:
    """Every head of a model, the one that references lose most without first."""

    heads: tuple[HeadsLoss, ...]
    log_probability: float
    """Mean ln p of a reference, with all heads."""

    def least(self, count: int) -> list[Head]:
        """Return the ``count`` heads without which references lose least.

        Raises ``UsageError`` unless one is left.
        """
        if not 0 < count < len(self.heads):
            raise UsageError(
                f"{count} heads cannot be removed: there are {len(self.heads)}, and at "
                f"least one stays; give 1 to {len(self.heads) - 1}"
            )
        return [head for each in self.heads[-count:] for head in each.heads]


@contextmanager
def heads_zeroed(model: SequenceModel, heads: Sequence[Head]) -> Iterator[None]:
    """Zero the slices of W^O of ``heads`` for a while: the heads add nothing.

    Weights are changed and not hooked, so every backend can run the model.
    """
    before: list[tuple[Tensor, Tensor]] = []
    with torch.no_grad():
        try:
            for part in _slices(model, heads):
                before.append((part, part.clone()))
                part.zero_()
            yield
        finally:
            for part, weights in reversed(before):
                part.copy_(weights)


def zero_heads(model: SequenceModel, heads: Sequence[Head]) -> None:
    """Zero the slices of W^O of ``heads`` for good."""
    with torch.no_grad():
        for part in _slices(model, heads):
            part.zero_()


@dataclass(frozen=True, slots=True)
class References:
    """Outputs that a model should give, and how probable they are to it."""

    log_probabilities: Callable[[], list[float]]
    """ln p of each, as the model is when it is called."""

    tokens: int
    """Tokens of all of them: of texts END counted, of labels one each."""


def references_of_pairs(model: EncoderDecoder, pairs: Pairs) -> References:
    """Return the targets of ``pairs``, tokens without END, as references.

    Raises ``DataError`` for no pairs, ``UsageError`` for a recurrent model.
    """
    require_transformer(model, "a ranking of heads")
    if not pairs:
        raise DataError("there are no pairs to rank heads by; give some lines")

    def log_probabilities() -> list[float]:
        with evaluation_mode(model):
            scored = PairScorer((model,)).score(pairs, DecodingSettings())
        return [each.log_probability for each in scored]

    return References(log_probabilities, sum(len(target) + 1 for _, target in pairs))


def rank_heads(
    model: SequenceModel,
    references: References,
    *,
    on_head: Callable[[Head], None] = lambda head: None,
) -> HeadRanking:
    """Rank all heads by what the references lose without each of them.

    There is one forward pass over all of them for each head, before which ``on_head``
    is called.
    """
    whole = references.log_probabilities()
    losses = []
    for head in all_heads(model):
        on_head(head)
        losses.append(_loss_without(model, references, [head], whole))
    losses.sort(key=lambda each: each.loss, reverse=True)
    return HeadRanking(tuple(losses), sum(whole) / len(whole))


def loss_without(
    model: SequenceModel, references: References, heads: Sequence[Head]
) -> HeadsLoss:
    """Return what the references lose without all of ``heads`` together."""
    whole = references.log_probabilities()
    return _loss_without(model, references, heads, whole)


def _loss_without(
    model: SequenceModel,
    references: References,
    heads: Sequence[Head],
    whole: Sequence[float],
) -> HeadsLoss:
    with heads_zeroed(model, heads):
        without = references.log_probabilities()
    difference = paired_difference(whole, without)
    return HeadsLoss(
        tuple(heads),
        difference.mean,
        difference.low,
        difference.high,
        len(whole),
        references.tokens,
    )


def _slices(model: SequenceModel, heads: Sequence[Head]) -> list[Tensor]:
    """Return the columns of W^O of each head, which share memory with it."""
    slices = []
    for head in heads:
        layer = find_head(model, head)
        width = layer.to_output.in_features // layer.num_heads
        first = head.head * width
        slices.append(layer.to_output.weight[:, first : first + width])
    return slices
