"""Runs an encoder over many texts: in batches of similar lengths, results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from headwise.data.ragged_batch import RaggedTokens
from headwise.data.token_budget import BATCH_TOKENS, split_by_tokens
from headwise.evaluation_mode import evaluation_mode
from headwise.model.sequence_model import SequenceModel
from headwise.text.vocabulary import END
from headwise.text.windows import windows


def mean_vectors(encoded: Tensor, is_real: Tensor) -> Tensor:
    """Return the mean [B D] of the vectors [B S D] of the real tokens of each text."""
    weights = is_real[:, :, None].to(encoded.dtype)
    return (encoded * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


@torch.inference_mode()
def encoder_batches(
    texts: Sequence[Sequence[int]],
    run: Callable[[RaggedTokens], Tensor],
    *,
    device: torch.device,
    alone: bool = False,
    check_stop: Callable[[], None] = lambda: None,
) -> Iterator[Tensor]:
    """Yield the row of each text of what ``run`` gives for a batch of them.

    END is put after each text. With ``alone`` each is a batch by itself.
    ``check_stop`` is called before each batch.
    """
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    starts = split_by_tokens(lengths[order], 1 if alone else BATCH_TOKENS)
    results: dict[int, Tensor] = {}
    for batch in np.split(order, starts[1:]) if starts else []:
        check_stop()
        tokens = [token for index in batch for token in (*texts[index], END)]
        ragged = RaggedTokens.from_lengths(
            torch.tensor(tokens, device=device),
            torch.from_numpy(lengths[batch]).to(device),
        )
        results.update(zip(batch.tolist(), run(ragged).cpu(), strict=True))
    for index in range(len(texts)):
        yield results[index]


def vectors_of_texts(
    texts: Sequence[Sequence[int]],
    run: Callable[[RaggedTokens], Tensor],
    model: SequenceModel,
    *,
    max_tokens: int | None = None,
    alone: bool = False,
    check_stop: Callable[[], None] = lambda: None,
) -> list[Tensor | None]:
    """Return the row of ``run`` of each text, None for an empty one.

    A text of more than ``max_tokens`` gets the mean over its :func:`windows`. The model
    is in evaluation mode meanwhile.
    """
    cut = [windows(text, max_tokens) for text in texts]
    flat = [window for each in cut for window in each]
    with evaluation_mode(model):
        rows = encoder_batches(
            flat, run, device=model.device, alone=alone, check_stop=check_stop
        )
        return [
            torch.stack([next(rows) for _ in each]).mean(dim=0) if each else None
            for each in cut
        ]
