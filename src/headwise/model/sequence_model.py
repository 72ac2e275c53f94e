"""What every model has: an architecture, a device, and a backend that computes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from headwise.model.config import TransformerConfig
from headwise.model.variants.norms import padding_known


class SequenceModel(nn.Module):
    """Base class of the models that are trained and saved."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.backend = "reference"
        """The backend that trains it; see headwise.backends.pytorch.install_fused."""
        self.interventions: tuple[str, ...] = ()
        """What is changed in it for a while (headwise.inspection.interventions). Hooks
        do that, which fast backends would bypass: they fall back while there is any."""

    def knowing_padding(
        self, stack_input: nn.Module, stack: nn.Module, is_real: Tensor
    ) -> AbstractContextManager[None]:
        """Let batch normalization in a stack know its padding, while it trains.

        ``is_real`` is [B L], False for padding. Other norms need not know.
        """
        if self.config.norm_kind != "batch" or not self.training:
            return nullcontext()
        return padding_known(nn.ModuleList([stack_input, stack]), is_real)

    @contextmanager
    def statistics_restored(self, *, if_raised: bool = False) -> Iterator[None]:
        """Put the running statistics of batch normalization back afterwards.

        With ``if_raised`` only if an exception ends it: of an update that is not made.
        """
        has_statistics = self.config.norm_kind == "batch"
        before = [each.clone() for each in self.buffers()] if has_statistics else []
        made = False
        try:
            yield
            made = True
        finally:
            if not (made and if_raised):
                with torch.no_grad():
                    for each, kept in zip(self.buffers(), before, strict=False):
                        each.copy_(kept)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device
