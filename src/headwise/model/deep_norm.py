"""DeepNorm: post-norm for deep stacks (Wang et al. 2022, "DeepNet").

    LayerNorm(α x + Sublayer(x))

α, more than 1, scales the residual connection, and β, less than 1, the initial weights
of feed-forward, values and output projections: so updates stay small at first, however
many layers there are. Both follow from the number of layers (Figure 2 of that paper).

Letters used for sizes: N encoder layers, M decoder layers, B batch rows, L positions,
D model width.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.config import Stack, TransformerConfig

OUTPUT_PROJECTIONS = ("to_output", "narrow")
"""Names of the last linear layer of each sublayer, whose output α x is added to."""

SCALED = ("to_values", "widen", *OUTPUT_PROJECTIONS)
"""Names of the linear layers whose initial weights are scaled by β."""


@dataclass(frozen=True, slots=True)
class DeepNorm:
    """The two constants of one stack."""

    residual_scale: float
    """α"""

    initial_gain: float
    """β"""


def deep_norm(config: TransformerConfig, stack: Stack) -> DeepNorm:
    """Return the constants of ``stack``, by the table in Figure 2 of the paper."""
    n, m = config.encoder_layers, config.decoder_layers
    if not n or not m:  # an encoder or a decoder alone
        layers = n or m
        return DeepNorm((2 * layers) ** 0.25, (8 * layers) ** -0.25)
    if stack == "encoder":
        depth = (n**4 * m) ** (1 / 16)
        return DeepNorm(0.81 * depth, 0.87 / depth)
    return DeepNorm((3 * m) ** 0.25, (12 * m) ** -0.25)


def residual_scale(config: TransformerConfig, stack: Stack) -> float:
    """Return what x is multiplied by in "Add & Norm": 1 unless norm is "deep"."""
    return deep_norm(config, stack).residual_scale if config.norm == "deep" else 1.0


def initial_gain(config: TransformerConfig | None, layer: str) -> float | None:
    """Return the gain of Xavier-normal initial weights of a layer, by its name.

    It is β, or 1 of queries and keys, and of layers outside of the stacks; None unless
    norm is "deep". A head has no ``config``.
    """
    if config is None or config.norm != "deep":
        return None
    stacks: tuple[Stack, ...] = ("encoder", "decoder")
    for stack in stacks:
        if stack in layer.split(".") and layer.endswith(SCALED):
            return deep_norm(config, stack).initial_gain
    return 1.0


class DeepAddAndNorm(AddAndNorm):
    """LayerNorm(α x + Sublayer(x)), where α is ``residual_scale``."""

    def __init__(self, d_model: int, dropout: float, residual_scale: float) -> None:
        super().__init__(d_model, dropout, "deep")
        self.residual_scale = residual_scale

    def add_residual(
        self, x: Float[Tensor, "B L D"], out: Float[Tensor, "B L D"]
    ) -> Float[Tensor, "B L D"]:
        """Return α times ``x`` plus the sublayer's output, normalized."""
        return super().add_residual(self.residual_scale * x, out)
