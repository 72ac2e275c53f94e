"""A decoder alone, as in GPT: it predicts each token of a text from the earlier ones.

Its layers are those of Figure 1, without the encoder and without cross-attention.

Letters used for sizes: B batch rows, L positions, Q query positions, K key positions,
P tokens of a prompt, D model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model.attention import KeyValues
from headwise.model.boxes import (
    make_add_and_norm,
    make_feed_forward,
    make_last_norm,
    make_self_attention,
)
from headwise.model.config import TransformerConfig
from headwise.model.embeddings import OutputProjection, StackInput, TokenEmbedding
from headwise.model.initialization import initialize
from headwise.model.kv_cache import KVCache
from headwise.model.masks import PADDING, AttentionMask
from headwise.model.positions import PositionIds
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import INITIAL_CAPACITY
from headwise.model.variants.relative_positions import share_positions


def make_window_mask(
    queries: Int[Tensor, "#B Q"], keys: Int[Tensor, "#B K"], window: int | None
) -> Bool[Tensor, "#B 1 Q K"]:
    """Let each position attend to itself and to earlier ones, ``window`` in all.

    ``queries`` and ``keys`` are positions; keys below 0 are padding, to which nothing
    attends. A ``window`` of None has no limit: the causal mask of Section 3.2.3.
    """
    distance = queries[:, :, None] - keys[:, None, :]
    mask = (distance >= 0) & (keys >= 0)[:, None, :]
    if window is not None:
        mask = mask & (distance < window)
    return mask[:, None]


class DecoderOnlyBlock(nn.Module):
    """Masked self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = make_self_attention(config, causal=True)
        self.feed_forward = make_feed_forward(config)
        self.around_self = make_add_and_norm(config)
        self.around_feed_forward = make_add_and_norm(config)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        mask: AttentionMask,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Apply both sublayers; append new keys and values to ``cache``."""
        y = self.around_self.sublayer_input(x)
        self_kv = self.self_attention.project_keys_values(y)
        if cache is not None:
            self_kv = cache.append(self_kv)
        x = self.around_self.add_residual(x, self.self_attention(y, self_kv, mask))

        y = self.around_feed_forward.sublayer_input(x)
        x = self.around_feed_forward.add_residual(x, self.feed_forward(y))
        return x


class DecoderOnlyStack(nn.Module):
    """A stack of N blocks."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        blocks = (DecoderOnlyBlock(config) for _ in range(config.decoder_layers))
        self.blocks = nn.ModuleList(blocks)
        share_positions(self.blocks)
        self.last_norm = make_last_norm(config)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        mask: AttentionMask,
        caches: tuple[KVCache, ...] = (),
    ) -> Float[Tensor, "B L D"]:
        """Apply all blocks, each with its cache if there are any."""
        for block, cache in zip(
            self.blocks, caches or (None,) * len(self.blocks), strict=True
        ):
            x = block(x, mask, cache)
        out: Tensor = self.last_norm(x)
        return out


@dataclass(frozen=True)
class DecoderOnlyState:
    """The text so far of each row, as keys and values.

    Rows end together: the padding of a shorter one comes before its first token. Only
    the newest state may be stepped on; see :class:`KVCache`.
    """

    position: int
    """Number of tokens so far, padding included."""

    padding: Int[Tensor, " B"]
    """Padding before the first token of each row."""

    self_kv: tuple[KVCache, ...]
    """One for each block; with a window, the last positions only."""

    prompt: Int[Tensor, "B P"]
    """What will follow the first token that is stepped, padding first."""

    def index_select(self, index: Int[Tensor, " rows"]) -> DecoderOnlyState:
        """Select batch rows in this order, repeats allowed."""
        return replace(
            self,
            padding=self.padding[index],
            self_kv=tuple(cache.index_select(index) for cache in self.self_kv),
            prompt=self.prompt[index],
        )


class DecoderOnly(SequenceModel):
    """Embedding, decoder blocks without cross-attention, and the "Linear" box (GPT).

    ``config`` has no encoder: its ``encoder_layers`` is 0. The output matrix is the
    embedding unless ``tie_embeddings`` is "none". With a ``window`` each position
    attends to that many at most, itself included. Weights are drawn from ``seed``.

    Raises ``SettingsError`` if ``config`` has an encoder, or no decoder.
    """

    def __init__(
        self,
        config: TransformerConfig,
        vocab_size: int,
        *,
        window: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(config)
        config.check_stacks("decoder")
        if window is not None and window < 1:
            raise SettingsError([f"window must be 1 or more, not {window}"])
        if window is not None and config.attention_window is not None:
            windows = f"{window} and attention_window = {config.attention_window}"
            raise SettingsError(
                [f"window = {windows} are two windows of one attention; set one"]
            )
        self.window = window
        self.vocab_size = vocab_size
        self.embedding = TokenEmbedding(vocab_size, config.embedding_width)
        self.enter_decoder = StackInput(config)
        self.decoder = DecoderOnlyStack(config)
        self.output = OutputProjection(config, vocab_size)
        initialize(self, seed)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        """Return the logits of every next token, as training needs them.

        Each row begins with the start token; the logits at position i are of the token
        that follows ``tokens[:, i]``. Padding follows a text, so it needs no mask.
        """
        return self.logits(self.decode(tokens))

    def decode(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        """Return the output of the decoder: ``forward`` up to the "Linear" box."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        mask = self._mask(positions, positions)
        with self.knowing_padding(self.enter_decoder, self.decoder, tokens != PADDING):
            x = self.enter_decoder(self.embedding(tokens), 0)
            out: Tensor = self.decoder(x, mask)
        return out

    def start(
        self, prompt: Int[Tensor, "B P"], prompt_is_real: Bool[Tensor, "B P"]
    ) -> DecoderOnlyState:
        """Begin texts, to continue them token by token with :meth:`step`.

        A text is the first token that is stepped, which is the start token of a search,
        then its prompt, then what the search generates. Prompts are without start token
        and may be empty (P = 0); ``prompt_is_real`` is False for their padding.
        """
        config, vectors = self.config, self.embedding.vectors
        shape = len(prompt), config.num_key_value_heads or config.num_heads, 0
        no_kv = KeyValues(
            vectors.new_empty(*shape, config.key_width),
            vectors.new_empty(*shape, config.value_width),
        )
        blocks = self.decoder.blocks
        padding_first = prompt_is_real.int().argsort(dim=1, stable=True)
        return DecoderOnlyState(
            0,
            (~prompt_is_real).sum(dim=1),
            tuple(KVCache.allocate(no_kv, INITIAL_CAPACITY) for _ in blocks),
            prompt.gather(1, padding_first),
        )

    def step(
        self, tokens: Int[Tensor, " B"], state: DecoderOnlyState
    ) -> tuple[Float[Tensor, "B V"], DecoderOnlyState]:
        """Append one token to every row; return the logits of the next one.

        After the first token it appends the prompts, all their tokens at once.
        """
        appended = tokens[:, None]
        if state.position == 0:
            where = state.padding[:, None]
            appended = F.pad(state.prompt, (1, 0)).scatter(1, where, appended)
        start, end = state.position, state.position + appended.shape[1]
        for cache in state.self_kv:
            if self.window is not None and cache.length >= 2 * self.window:
                cache.keep_last(self.window)

        positions = torch.arange(end, device=tokens.device) - state.padding[:, None]
        queries = positions[:, start:]
        keys = positions[:, start - state.self_kv[0].length :]
        mask = self._mask(queries, keys)
        ids = PositionIds(queries.clamp(min=0), int(queries.max()) + 1)
        x = self.enter_decoder(self.embedding(appended), ids)
        x = self.decoder(x, mask, state.self_kv)
        done = state.prompt[:, :0]
        return self.logits(x[:, -1]), replace(state, position=end, prompt=done)

    def _mask(self, queries: Tensor, keys: Tensor) -> Bool[Tensor, "#B 1 #Q K"]:
        if self.config.attention_window is not None:  # which is causal by itself
            return (keys >= 0)[:, None, None]
        return make_window_mask(queries, keys, self.window)

    def logits(self, x: Float[Tensor, "*P D"]) -> Float[Tensor, "*P V"]:
        """Apply the "Linear" box: a logit for every entry of the vocabulary."""
        return F.linear(x, self.output_vectors, self.output.bias)

    @property
    def output_vectors(self) -> Float[Tensor, "V D"]:
        """The matrix of the "Linear" box, which may be the embedding."""
        own = self.output.vectors
        return self.embedding.vectors if own is None else own
