"""Normalizations in the place of layer normalization.

Letters used for sizes: B batch rows, L positions, D model width, S any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.model.config import NormKind

EPSILON = 1e-5
"""Added to what is divided by, as torch's LayerNorm does."""


class RMSNorm(nn.Module):
    """x / √(mean of x²), times a trained gain (Zhang and Sennrich 2019)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*S D"]) -> Float[Tensor, "*S D"]:
        """Normalize each vector by its root mean square."""
        exact = x.float() if x.dtype.itemsize < 4 else x
        scale = (exact.square().mean(dim=-1, keepdim=True) + EPSILON).rsqrt()
        return (exact * scale).to(x.dtype) * self.weight


MOMENTUM = 0.1
"""Weight of a batch in the running statistics, as in torch."""


class BatchNorm(nn.Module):
    """Batch normalization (Ioffe and Szegedy 2015): each channel over all tokens.

    In training, mean and variance are those of the real tokens of the batch, so that a
    token's vector depends on the others, and in a decoder on later ones. In evaluation
    they are running means of what training saw.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))
        self.is_real: Tensor | None = None
        """[B L], False for padding; None if there is none (:func:`padding_known`)."""

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Normalize each channel."""
        mean, variance = self.running_mean, self.running_var
        if self.training:
            tokens = x.flatten(0, 1) if self.is_real is None else x[self.is_real]
            exact = tokens.float() if x.dtype.itemsize < 4 else tokens
            mean, variance = exact.mean(dim=0), exact.var(dim=0, correction=0)
            self._remember(mean.detach(), variance.detach(), len(exact))
        scale = self.weight * (variance + EPSILON).rsqrt()
        return ((x - mean) * scale + self.bias).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics; what is not finite leaves them as they are."""
        unbiased = variance * (count / max(1, count - 1))
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            step = (new.to(running.dtype) - running) * MOMENTUM
            running.add_(step.where(step.isfinite(), torch.zeros_like(step)))


NORMS: Mapping[NormKind, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": RMSNorm,
    "batch": BatchNorm,
}
"""``model.norm_kind`` -> what makes it, of d_model."""


@contextmanager
def padding_known(model: nn.Module, is_real: Bool[Tensor, "B L"]) -> Iterator[None]:
    """Leave padding out of the statistics of batch normalization for a while.

    It is in training mode only that they are computed, by one thread at a time.
    """
    norms = [each for each in model.modules() if isinstance(each, BatchNorm)]
    for norm in norms:
        norm.is_real = is_real
    try:
        yield
    finally:
        for norm in norms:
            norm.is_real = None
