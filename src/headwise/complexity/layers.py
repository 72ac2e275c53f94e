"""The layers that Table 1 of the paper compares, and variants of them.

Letters used for sizes, as in Table 1: n positions (``length``), d channels (``width``),
k kernel width of a convolution, r positions of a window. Further B sequences in a batch
(``batch``). A layer takes and returns n vectors of d channels, B times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.complexity.sizes import Size, Sizes
from headwise.model.attention import scaled_dot_product_attention
from headwise.model.variants.attention import VariantAttention, Window
from headwise.model.variants.scores import SCORES


class Attention(nn.Module):
    """Attention of all positions to all, one head of d channels without projections.

    Queries, keys and values are the input itself. What is left is what Table 1 counts.
    """

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return the weighted mean of all positions for each position."""
        head = x[:, None]
        return self.attend(head, head, head, None, 0.0)[:, 0]


class Projections(nn.Module):
    """The four linear layers around attention: queries, keys, values, output."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.ModuleList(
            nn.Linear(width, width, bias=False) for _ in range(3)
        )
        self.to_output = nn.Linear(width, width, bias=False)

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return the projection of the values; attention itself is left out."""
        values = [layer(x) for layer in self.inputs][-1]
        return cast(Tensor, self.to_output(values))


class Recurrence(nn.Module):
    """A recurrent layer in one direction: torch's own, as fast as torch has it."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return the hidden state at each position."""
        return cast(Tensor, self.layer(x)[0])


class Unrolled(nn.Module):
    """The same recurrence as a loop over a cell, in which every product can be counted.

    torch's counter does not see into ``nn.LSTM`` and its like.
    """

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        cells = {"RNN_TANH": nn.RNNCell, "GRU": nn.GRUCell, "LSTM": nn.LSTMCell}
        self.cell = cells[layer.mode](layer.input_size, layer.hidden_size)
        own, theirs = self.cell.state_dict(), layer.state_dict()
        self.cell.load_state_dict({name: theirs[f"{name}_l0"] for name in own})

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return the hidden state at each position."""
        state, hidden = None, []
        for position in range(x.shape[1]):
            state = self.cell(x[:, position], state)
            hidden.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(hidden, dim=1)


class Convolution(nn.Module):
    """A convolution over positions, padded to as many positions as it reads."""

    def __init__(
        self, width: int, kernel: int, *, dilation: int = 1, depthwise: bool = False
    ) -> None:
        super().__init__()
        self.layer = nn.Conv1d(
            width,
            width,
            kernel,
            padding=dilation * (kernel - 1) // 2,
            dilation=dilation,
            groups=width if depthwise else 1,
        )

    def forward(self, x: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return the convolution centred on each position."""
        return cast(Tensor, self.layer(x.mT)).mT


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: None, dropout: float
) -> Tensor:
    """Compute Equation 1 by torch's kernel, which keeps no matrix of n² weights."""
    return F.scaled_dot_product_attention(queries, keys, values, mask, dropout)


def restricted_attention(sizes: Sizes) -> Attention:
    """Return attention to the window of r positions around each, r being odd."""
    side = (sizes.window - 1) // 2
    score = SCORES["scaled"](1, sizes.width)
    return Attention(VariantAttention(score, window=Window(side, side)))


def restricted_multiply_adds(sizes: Sizes) -> int:
    """Return 2 d for each pair of a query and a key whose score is computed.

    ``VariantAttention`` cuts the queries into blocks as wide as the window, the last
    one padded. A block of r queries reads 2r - 1 keys, its own positions and half a
    window on each side, of which each query needs r: less than twice the O(r n d) of
    Table 1.
    """
    side = (sizes.window - 1) // 2
    size = min(sizes.length, 2 * side + 1)
    rows = -(-sizes.length // size) * size
    return 2 * sizes.batch * rows * (size + 2 * side) * sizes.width


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """A kind of layer: what it costs on paper, and how one is made."""

    paper: str
    """Complexity per layer in Table 1, or of the paper that a variant is from."""

    formula: str
    """Multiply-adds of one sequence, as text."""

    multiply_adds: Callable[[Sizes], int]
    """The same as a number, for a batch."""

    make: Callable[[Sizes], nn.Module]

    sequential: str
    """Sequential operations in Table 1."""

    sizes: tuple[Size, ...] = ("length", "width")
    """What the cost depends on."""

    memory: Mapping[Size, float] | None = None
    """Expected exponents of memory, where one term dominates."""

    def make_countable(self, sizes: Sizes) -> nn.Module:
        """Return a layer of which every product can be counted."""
        layer = self.make(sizes)
        return Unrolled(layer.layer) if isinstance(layer, Recurrence) else layer


def _per_position(times: int) -> Callable[[Sizes], int]:
    return lambda s: times * s.batch * s.length * s.width**2


def _convolution_multiply_adds(s: Sizes) -> int:
    return s.kernel * s.batch * s.length * s.width**2


def _attention_multiply_adds(s: Sizes) -> int:
    return 2 * s.batch * s.length**2 * s.width


def _recurrence(
    layer: type[nn.RNNBase], times: int
) -> tuple[Callable[[Sizes], nn.Module], Callable[[Sizes], int]]:
    def make(sizes: Sizes) -> nn.Module:
        made: Callable[..., nn.RNNBase] = layer
        return Recurrence(made(sizes.width, sizes.width, batch_first=True))

    return make, _per_position(times)


_elman, _elman_multiply_adds = _recurrence(nn.RNN, 2)
_gru, _gru_multiply_adds = _recurrence(nn.GRU, 6)
_lstm, _lstm_multiply_adds = _recurrence(nn.LSTM, 8)

LINEAR: Mapping[Size, float] = {"length": 1, "width": 1}

LAYERS: Mapping[str, LayerKind] = {
    "self-attention": LayerKind(
        paper="O(n²·d)",
        formula="2 n² d",
        multiply_adds=_attention_multiply_adds,
        make=lambda s: Attention(scaled_dot_product_attention),
        sequential="O(1)",
        memory={"length": 2, "width": 0},
    ),
    "fused self-attention": LayerKind(
        paper="O(n²·d)",
        formula="2 n² d",
        multiply_adds=_attention_multiply_adds,
        make=lambda s: Attention(fused_attention),
        sequential="O(1)",
        memory=LINEAR,
    ),
    "restricted self-attention": LayerKind(
        paper="O(r·n·d)",
        formula="2 (2r − 1) n d",
        multiply_adds=restricted_multiply_adds,
        make=restricted_attention,
        sequential="O(1)",
        sizes=("length", "width", "window"),
    ),
    "Elman recurrence": LayerKind(
        paper="O(n·d²)",
        formula="2 n d²",
        multiply_adds=_elman_multiply_adds,
        make=_elman,
        sequential="O(n)",
        memory=LINEAR,
    ),
    "GRU": LayerKind(
        paper="O(n·d²)",
        formula="6 n d²",
        multiply_adds=_gru_multiply_adds,
        make=_gru,
        sequential="O(n)",
        memory=LINEAR,
    ),
    "LSTM": LayerKind(
        paper="O(n·d²)",
        formula="8 n d²",
        multiply_adds=_lstm_multiply_adds,
        make=_lstm,
        sequential="O(n)",
        memory=LINEAR,
    ),
    "convolution": LayerKind(
        paper="O(k·n·d²)",
        formula="k n d²",
        multiply_adds=_convolution_multiply_adds,
        make=lambda s: Convolution(s.width, s.kernel),
        sequential="O(1)",
        sizes=("length", "width", "kernel"),
        memory=LINEAR,
    ),
    "dilated convolution": LayerKind(
        paper="O(k·n·d²)",
        formula="k n d²",
        multiply_adds=_convolution_multiply_adds,
        make=lambda s: Convolution(s.width, s.kernel, dilation=s.kernel),
        sequential="O(1)",
        memory=LINEAR,
    ),
    "separable convolution": LayerKind(
        paper="O(k·n·d + n·d²)",
        formula="k n d + n d²",
        multiply_adds=lambda s: s.batch * s.length * s.width * (s.kernel + s.width),
        make=lambda s: nn.Sequential(
            Convolution(s.width, s.kernel, depthwise=True), Convolution(s.width, 1)
        ),
        sequential="O(1)",
        sizes=("length", "width", "kernel"),
        memory=LINEAR,
    ),
    "projections of attention": LayerKind(
        paper="O(n·d²)",
        formula="4 n d²",
        multiply_adds=_per_position(4),
        make=lambda s: Projections(s.width),
        sequential="O(1)",
        memory=LINEAR,
    ),
}
"""Name -> kind of layer. All but the last are a row of Table 1 or a variant of one."""
