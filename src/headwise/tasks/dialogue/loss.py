"""The loss of a dialogue, on its answers alone.

Turns and answer are one row for the model, START before it. What the user says is read
and not learned, since a model that is to answer need not know what is asked next.

Letters used for sizes: B dialogues, N tokens of all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from headwise.backends.select_training import cross_entropy_of, two_pass_loss_of
from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model.decoder_only import DecoderOnly
from headwise.text.vocabulary import END


def answer_loss(model: DecoderOnly, batch: Batch, *, smoothing: float) -> Tensor:
    """Return the cross-entropy of the answers, in nats, summed over their tokens.

    A batch that :func:`join_turns` did not join, as in validation, counts the last
    answer of each dialogue.
    """
    if batch.counted is None:
        batch = join_turns(batch)
    return cross_entropy_of(model, batch, smoothing=smoothing)


def two_pass_answer_loss(
    model: DecoderOnly, batch: Batch, *, smoothing: float, consistency: Consistency
) -> TwoPassLoss:
    """Return the loss of both passes of the answers: see ``Task.two_pass_loss``."""
    if batch.counted is None:
        batch = join_turns(batch)
    return two_pass_loss_of(model, batch, smoothing=smoothing, consistency=consistency)


def join_turns(batch: Batch, *, assistant: int | None = None) -> Batch:
    """Return a batch whose targets are whole dialogues, and which tokens count.

    These are the last answers. With the token of the ``assistant``, which stands before
    each answer as END does after it, they are all answers, and the loss is weighted so
    that divided by the tokens of the last ones it is the mean over all of them.
    """
    source, target = batch.source, batch.target
    lengths = source.lengths + target.lengths
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    tokens = target.tokens.new_empty(len(source.tokens) + len(target.tokens))
    first = offsets[:-1]
    in_source = first[source.row_index] + source.positions
    in_target = (first + source.lengths)[target.row_index] + target.positions
    tokens[in_source], tokens[in_target] = source.tokens, target.tokens
    counted = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    counted[in_target] = True
    if assistant is not None:
        counted |= _in_answers(tokens, assistant)
    empty = RaggedTokens(tokens.new_empty(0), torch.zeros_like(offsets), max_length=0)
    joined = RaggedTokens(tokens, offsets, int(lengths.max()))
    return replace(
        batch,
        source=empty,
        target=joined,
        counted=counted,
        input_tokens=None,
        weight=len(target.tokens) / int(counted.sum()),
    )


def _in_answers(tokens: Tensor, assistant: int) -> Tensor:
    """Return which tokens come after the assistant's symbol, up to END [N]."""
    row = tokens.numpy()
    marks = np.where((row == assistant) | (row == END), np.arange(len(row)), -1)
    last = np.maximum.accumulate(marks)
    before = np.concatenate([[-1], last[:-1]])
    return torch.from_numpy((before >= 0) & (row[before] == assistant))
