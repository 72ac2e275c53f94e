"""Recurrent encoder-decoders: ``kind = "elman"``, ``"gru"`` and ``"lstm"``.

An encoder of one or two directions, and attention or none. With two directions and
additive attention it is that of Bahdanau et al. (2015), by which Vinyals et al. (2015,
Grammar as a Foreign Language) parse. Attention follows the recurrence, as in Luong et
al. (2015): so with the target given, a recurrence runs through all of it in one call,
and attention is computed for all positions at once. Without attention the decoder has
the encoder's last state alone, as in Sutskever et al. (2014).

Letters used for sizes: B batch rows, S source positions, L target positions, D model
width, V target vocabulary, N layers of the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headwise.model.config import ModelKind, TransformerConfig
from headwise.model.dropout import Dropout
from headwise.model.embeddings import OutputProjection
from headwise.model.initialization import initialize
from headwise.model.source_attention import SOURCE_ATTENTIONS, SourceMemory
from headwise.model.stateful_decoding import StatefulEncoderDecoder

RECURRENCES: Mapping[ModelKind, Callable[..., nn.RNNBase]] = {
    "elman": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}
"""Kind of model -> its recurrence: h = tanh(W x + U h) (Elman 1990), gated recurrent
units (Cho et al. 2014), and long short-term memory (Hochreiter and Schmidhuber 1997)
with forget gates."""


@dataclass(frozen=True)
class RecurrentState:
    """What the decoder keeps from one token to the next, and what it attends to."""

    hidden: Float[Tensor, "N B D"]

    cell: Float[Tensor, "N B D"] | None
    """Of an LSTM."""

    memory: SourceMemory | None
    """None without attention."""

    def index_select(self, index: Int[Tensor, " rows"]) -> RecurrentState:
        """Select batch rows in this order, repeats allowed."""
        return RecurrentState(
            self.hidden[:, index],
            None if self.cell is None else self.cell[:, index],
            None if self.memory is None else self.memory.index_select(index),
        )


class RecurrentEncoder(nn.Module):
    """Layers of one direction, or of two with half the model's width each."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.num_directions = 2 if config.bidirectional else 1
        self.layers = _make_layers(
            config,
            config.d_model // self.num_directions,
            config.encoder_layers,
            bidirectional=config.bidirectional,
        )

    def forward(
        self, x: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
        """Return a vector for each token, and the last state of each direction.

        Padding, which follows a sentence, is left out and gets zeros.
        """
        packed = pack_padded_sequence(
            x, is_real.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        with _no_autocast(x):
            out, state = self.layers(packed)
        hidden = state[0] if isinstance(state, tuple) else state
        encoded, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return encoded, torch.cat([*hidden[-self.num_directions :]], dim=1)


class RecurrentDecoder(nn.Module):
    """Layers that read the target, then attention to the source, if any."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, self.num_layers = config.d_model, config.decoder_layers
        make_attention = SOURCE_ATTENTIONS[config.recurrent_attention]
        self.to_first_hidden = nn.Linear(width, self.num_layers * width)
        self.layers = _make_layers(config, width, self.num_layers)
        self.cross_attention = make_attention(width) if make_attention else None
        self.combine = nn.Linear(2 * width, width) if make_attention else None
        self.dropout = Dropout(config.dropout)

    def initial_state(
        self,
        encoded: Float[Tensor, "B S D"],
        last: Float[Tensor, "B D"],
        is_real: Bool[Tensor, "B S"],
    ) -> RecurrentState:
        """Return the state before the first token, from what the encoder returned."""
        hidden = self.to_first_hidden(last).tanh()
        hidden = hidden.unflatten(1, (self.num_layers, -1)).transpose(0, 1)
        hidden = hidden.to(encoded.dtype).contiguous()  # B N D -> N B D
        cell = torch.zeros_like(hidden) if isinstance(self.layers, nn.LSTM) else None
        memory = None
        if self.cross_attention is not None:
            keys = self.cross_attention.project_keys(encoded)
            memory = SourceMemory(keys, encoded, is_real)
        return RecurrentState(hidden, cell, memory)

    def forward(
        self, x: Float[Tensor, "B L D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B L D"], RecurrentState]:
        """Read ``x``, which continues the target of ``state``; return its outputs."""
        x, state = self._recur(x, state)
        if self.cross_attention is not None and self.combine is not None:
            context = self.cross_attention(x, state.memory)
            x = self.combine(torch.cat([context, x], dim=-1)).tanh()
        out: Tensor = self.dropout(x)
        return out, state

    def _recur(
        self, x: Float[Tensor, "B L D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B L D"], RecurrentState]:
        with _no_autocast(x):
            if state.cell is None:
                x, hidden = self.layers(x, state.hidden)
                return x, replace(state, hidden=hidden)
            x, (hidden, cell) = self.layers(x, (state.hidden, state.cell))
            return x, replace(state, hidden=hidden, cell=cell)


class RecurrentModel(StatefulEncoderDecoder):
    """Base class: recurrent encoder and decoder, and the embeddings they may share.

    Embeddings, logits and their tying are the Transformer's; there are no positions.
    Weights are drawn from ``seed``.
    """

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
        self.encoder = RecurrentEncoder(config)
        self.decoder = RecurrentDecoder(config)
        self.output = OutputProjection(config, self.target_vocab_size)
        initialize(self, seed)
        _open_forget_gates(self)

    def encode_source(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return the output of the encoder."""
        encoded, _ = self._encode(source, source_is_real)
        return encoded

    def start(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> RecurrentState:
        """Encode the source, to decode the target token by token with :meth:`step`."""
        encoded, last = self._encode(source, source_is_real)
        return self.decoder.initial_state(encoded, last, source_is_real)

    def _encode(
        self, source: Int[Tensor, "B S"], source_is_real: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
        x = self.dropout(self.embed_source(source))
        found: tuple[Tensor, Tensor] = self.encoder(x, source_is_real)
        return found

    def continue_target(
        self, tokens: Int[Tensor, "B L"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B L D"], RecurrentState]:
        """Append tokens to every row; return the decoder's outputs and the state."""
        x = self.dropout(self.target_embedding(tokens))
        out: tuple[Tensor, RecurrentState] = self.decoder(x, state)
        return out


class ElmanModel(RecurrentModel):
    """Simple recurrent networks: the next state is tanh of input and state."""

    kind = "elman"


class GruModel(RecurrentModel):
    """Gated recurrent units."""

    kind = "gru"


class LstmModel(RecurrentModel):
    """Long short-term memory."""

    kind = "lstm"


def _make_layers(
    config: TransformerConfig, width: int, count: int, *, bidirectional: bool = False
) -> nn.RNNBase:
    return RECURRENCES[config.kind](
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
    layers = [each for each in model.modules() if isinstance(each, nn.LSTM)]
    for name, parameter in (each for one in layers for each in one.named_parameters()):
        if name.startswith("bias_ih_l") and not parameter.is_meta:
            gate = parameter.detach().chunk(4)[1]
            gate.fill_(1)
