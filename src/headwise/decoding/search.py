"""One door to the searches, for callers that hold settings."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headwise.decoding.beam import beam_search
from headwise.decoding.greedy import greedy_search
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING


def search(
    model: NextToken[S],
    state: S,
    settings: DecodingSettings,
    *,
    source_lengths: Sequence[int],
    start: int,
    end: int,
    forbidden: tuple[int, ...] = (),
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Search as ``settings`` say; ``state`` holds one row for each source length.

    Source lengths count tokens without END.
    """
    max_lengths = [settings.max_length(length) for length in source_lengths]
    if settings.beam == 1:
        outputs = greedy_search(
            model,
            state,
            num_rows=len(max_lengths),
            start=start,
            end=end,
            max_lengths=max_lengths,
            forbidden=forbidden,
            penalty=settings.penalty,
            device=device,
        )
        return [[output] for output in outputs]
    return beam_search(
        model,
        state,
        num_sentences=len(max_lengths),
        start=start,
        end=end,
        beam=settings.beam,
        penalty=settings.penalty,
        stopping=STOPPING[settings.stopping],
        max_lengths=max_lengths,
        num_best=settings.num_best,
        forbidden=forbidden,
        device=device,
    )
