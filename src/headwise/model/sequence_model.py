"""What every model has: an architecture, a device, and a backend that computes it."""

from __future__ import annotations

import torch
from torch import nn

from headwise.model.config import TransformerConfig


class SequenceModel(nn.Module):
    """Base class of the models that are trained and saved."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.backend = "reference"
        """The backend that was installed; see headwise.backends.select_decoder."""
        self.interventions: tuple[str, ...] = ()
        """What is changed in it for a while (headwise.inspection.interventions). Hooks
        do that, which fast backends would bypass: they fall back while there is any."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device
