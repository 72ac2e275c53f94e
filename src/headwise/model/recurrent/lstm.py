"""Encoder and decoder of LSTMs with attention: ``kind = "lstm"``.

A bidirectional encoder and additive attention as in Bahdanau et al. (2015), by which
Vinyals et al. (2015, Grammar as a Foreign Language) parse. Attention follows the
recurrence, as in Luong et al. (2015): so with the target given, the LSTM runs through
all of it in one call, and attention is computed for all positions at once.

Letters used for sizes: B batch rows, S source positions, L target positions, D model
width, V target vocabulary, N layers of the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headwise.model.config import TransformerConfig
from headwise.model.dropout import Dropout
from headwise.model.embeddings import OutputProjection
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.initialization import initialize
from headwise.model.recurrent.additive_attention import AdditiveAttention


@dataclass(frozen=True)
class LstmState:
    """What the decoder keeps from one token to the next, and what it attends to."""

    hidden: Float[Tensor, "N B D"]
    cell: Float[Tensor, "N B D"]
    keys: Float[Tensor, "B S D"]
    values: Float[Tensor, "B S D"]
    is_real: Bool[Tensor, "B S"]

    def index_select(self, index: Int[Tensor, " rows"]) -> LstmState:
        """Select batch rows in this order, repeats allowed."""
        return LstmState(
            self.hidden[:, index],
            self.cell[:, index],
            self.keys[index],
            self.values[index],
            self.is_real[index],
        )


class LstmEncoder(nn.Module):
    """Bidirectional layers, each direction of half the model's width."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = _make_layers(
            config, config.d_model // 2, config.encoder_layers, bidirectional=True
        )

    def forward(
        self, x: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
        """Return a vector for each token, and the last state of both directions.

        Padding, which follows a sentence, is left out and gets zeros.
        """
        packed = pack_padded_sequence(
            x, is_real.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        with _no_autocast(x):
            out, (hidden, _) = self.layers(packed)
        encoded, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return encoded, torch.cat([hidden[-2], hidden[-1]], dim=1)


class LstmDecoder(nn.Module):
    """Layers that read the target, then attention to the source."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, self.num_layers = config.d_model, config.decoder_layers
        self.to_first_hidden = nn.Linear(width, self.num_layers * width)
        self.layers = _make_layers(config, width, self.num_layers)
        self.cross_attention = AdditiveAttention(width)
        self.combine = nn.Linear(2 * width, width)
        self.dropout = Dropout(config.dropout)

    def initial_state(
        self,
        encoded: Float[Tensor, "B S D"],
        last: Float[Tensor, "B D"],
        is_real: Bool[Tensor, "B S"],
    ) -> LstmState:
        """Return the state before the first token, from what the encoder returned."""
        hidden = self.to_first_hidden(last).tanh()
        hidden = hidden.unflatten(1, (self.num_layers, -1)).transpose(0, 1)
        hidden = hidden.to(encoded.dtype).contiguous()  # B N D -> N B D
        keys = self.cross_attention.to_keys(encoded)
        return LstmState(hidden, torch.zeros_like(hidden), keys, encoded, is_real)

    def forward(
        self, x: Float[Tensor, "B L D"], state: LstmState
    ) -> tuple[Float[Tensor, "B L D"], LstmState]:
        """Read ``x``, which continues the target of ``state``; return its outputs."""
        with _no_autocast(x):
            x, (hidden, cell) = self.layers(x, (state.hidden, state.cell))
        context = self.cross_attention(x, state.keys, state.values, state.is_real)
        combined = self.combine(torch.cat([context, x], dim=-1)).tanh()
        out: Tensor = self.dropout(combined)
        return out, replace(state, hidden=hidden, cell=cell)


class LstmModel(EncoderDecoder):
    """LSTM encoder and decoder, and the embeddings they may share.

    Embeddings, logits and their tying are the Transformer's; there are no positions.
    Weights are drawn from ``seed``.
    """

    kind = "lstm"

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config, source_vocab_size, target_vocab_size)
        self.dropout = Dropout(config.dropout)
        self.encoder = LstmEncoder(config)
        self.decoder = LstmDecoder(config)
        self.output = OutputProjection(config, self.target_vocab_size)
        initialize(self, seed)
        _open_forget_gates(self)

    def decode(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L D"]:
        """Return the output of the decoder: ``forward`` up to the "Linear" box."""
        out, _ = self._continue(target, self.start(source, source_is_real))
        return out

    def encode_source(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return the output of the encoder."""
        return self.start(source, source_is_real).values

    def start(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> LstmState:
        """Encode the source, to decode the target token by token with :meth:`step`."""
        x = self.dropout(self.embed_source(source))
        encoded, last = self.encoder(x, source_is_real)
        return self.decoder.initial_state(encoded, last, source_is_real)

    def step(
        self, tokens: Int[Tensor, " B"], state: LstmState
    ) -> tuple[Float[Tensor, "B V"], LstmState]:
        """Append one token to every row; return the logits of the next one."""
        out, state = self._continue(tokens[:, None], state)
        return self.logits(out[:, 0]), state

    def _continue(
        self, tokens: Int[Tensor, "B L"], state: LstmState
    ) -> tuple[Float[Tensor, "B L D"], LstmState]:
        x = self.dropout(self.target_embedding(tokens))
        out: tuple[Tensor, LstmState] = self.decoder(x, state)
        return out


def _make_layers(
    config: TransformerConfig, width: int, count: int, *, bidirectional: bool = False
) -> nn.LSTM:
    return nn.LSTM(
        config.d_model,
        width,
        count,
        dropout=config.dropout if count > 1 else 0.0,  # torch has it between layers
        bidirectional=bidirectional,
        batch_first=True,
    )


def _no_autocast(x: Tensor) -> torch.autocast:
    """Keep a recurrence in the format of its weights: a cell sums over all steps."""
    return torch.autocast(x.device.type, enabled=False)


def _open_forget_gates(model: nn.Module) -> None:
    """Set their biases to 1, so that cells keep what they hold from the first update.

    Gers et al. (2000). Torch has two biases, which are added, and the forget gate in
    the second quarter of each.
    """
    for name, parameter in model.named_parameters():
        if ".bias_ih_l" in name and not parameter.is_meta:
            gate = parameter.detach().chunk(4)[1]
            gate.fill_(1)
