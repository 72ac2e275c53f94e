"""The loss of a language model, in training and over a text of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from headwise.backends.select_training import cross_entropy_of, two_pass_loss_of
from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import Batch
from headwise.data.token_budget import BATCH_TOKENS
from headwise.model.decoder_only import DecoderOnly
from headwise.text.vocabulary import START


def language_model_loss(
    model: DecoderOnly, batch: Batch, *, smoothing: float
) -> Tensor:
    """Return the cross-entropy of each window's tokens, summed, in nats.

    A window begins with START, as a generated text does.
    """
    return cross_entropy_of(model, batch, smoothing=smoothing)


def two_pass_language_model_loss(
    model: DecoderOnly, batch: Batch, *, smoothing: float, consistency: Consistency
) -> TwoPassLoss:
    """Return the loss of both passes of each window: see ``Task.two_pass_loss``."""
    return two_pass_loss_of(model, batch, smoothing=smoothing, consistency=consistency)


@torch.inference_mode()
def sliding_log_probabilities(
    model: DecoderOnly,
    tokens: Sequence[int],
    *,
    context: int,
    stride: int,
    check_stop: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return ln p of every token of a text [N], each from the tokens before it.

    Windows of ``context`` tokens, START first, move on by ``stride``, and only the last
    ``stride`` tokens of each count (all of the first). So from the second window on
    each token is predicted from at least ``context - stride`` tokens, or all there are;
    with a stride of 1 from exactly ``context - 1`` and START.
    """
    text = np.asarray(tokens, dtype=np.int64)
    found = []
    rows = max(1, BATCH_TOKENS // context)
    for spans in _batches(_windows(len(text), context, stride), rows):
        check_stop()
        length = max(stop - start for start, _, stop in spans)
        batch = np.full((len(spans), length + 1), START, dtype=np.int64)
        for row, (start, _, stop) in enumerate(spans):
            batch[row, 1 : 1 + stop - start] = text[start:stop]
        given = torch.from_numpy(batch).to(model.device)
        logits = model(given[:, :-1]).float()
        chosen = logits.gather(2, given[:, 1:, None])[:, :, 0]
        log_p = (chosen - logits.logsumexp(dim=2)).cpu()
        for row, (start, first, stop) in enumerate(spans):
            found.append(log_p[row, first - start : stop - start])
    return torch.cat(found) if found else torch.empty(0)


def _windows(length: int, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, first token that counts, stop) of each window."""
    first = 0
    while first < length:
        stop = min(length, context if first == 0 else first + stride)
        yield max(0, stop - context), first, stop
        first = stop


def _batches(
    spans: Iterator[tuple[int, int, int]], rows: int
) -> Iterator[list[tuple[int, int, int]]]:
    batch: list[tuple[int, int, int]] = []
    for span in spans:
        batch.append(span)
        if len(batch) == rows:
            yield batch
            batch = []
    if batch:
        yield batch
