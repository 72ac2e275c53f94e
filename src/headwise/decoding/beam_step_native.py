"""A step of beam search by one native call: :class:`BeamGroup` on a CPU, without rules.

:class:`NativeBeam` takes the step; this hands tensors to it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.decoding.beam_progress import BeamOptions
from headwise.decoding.incremental_decoder import TopK
from headwise.decoding.native_beam import NativeBeam


class NativeBeamGroup:
    """The hypotheses of a search, as those of a ``BeamGroup``."""

    def __init__(
        self, options: BeamOptions, num_sentences: int, device: torch.device | str
    ) -> None:
        self._beam = NativeBeam(options, num_sentences)
        self.completed = self._beam.completed
        self.num_rows = num_sentences
        self.tokens = torch.empty(0, dtype=torch.long)

    @property
    def sentences(self) -> list[int]:
        """The sentences still searched."""
        return self._beam.sentences

    def advance(self, next_tokens: Tensor | TopK) -> Tensor:
        """Take one step; return the parent row of each new row, as in ``tokens``."""
        assert isinstance(next_tokens, TopK)
        scores, tokens = (each.numpy() for each in next_tokens)
        parents = self._beam.advance(scores, tokens)
        self.tokens = torch.from_numpy(self._beam.newest)
        self.num_rows = len(self.tokens)
        return torch.from_numpy(parents)
