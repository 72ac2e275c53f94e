"""The numbers and choices that define an architecture: the columns of Table 3.

Sizes of vocabularies are not here: the paper's table has no column for them either, and
they are known only once the text has been read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headwise.errors import SettingsError
from headwise.model.config_checks import (
    CONVOLUTIONAL,
    combination_problems,
    value_problems,
)

ModelKind = Literal["transformer", "elman", "gru", "lstm", "convolutional", "dilated"]
RecurrentAttentionName = Literal["additive", "cosine", "dot", "none"]
NormPlacement = Literal["post", "pre", "deep"]
NormKind = Literal["layer", "rms", "batch"]
ActivationName = Literal["relu", "gelu", "swish"]
FeedForwardName = Literal["plain", "glu", "bilinear", "reglu", "geglu", "swiglu"]
AttentionName = Literal["scaled", "unscaled", "cosine", "additive", "multiplicative"]
ResidualName = Literal["all", "positions", "none"]
_KnownPosition = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"]
PositionName = Literal[_KnownPosition, "alibi", "shaw", "t5", "number", "fraction"]
PositionJoin = Literal["add", "concatenate"]
Stack = Literal["encoder", "decoder"]
Tying = Literal["none", "output", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """A Transformer; the defaults are the paper's base model, an encoder-decoder.

    A model of another ``kind`` takes the place of one in its own terms.
    """

    kind: ModelKind = "transformer"
    """transformer; or what it replaced, in translation and parsing: recurrent (elman,
    gru, lstm), convolutional (ConvS2S, Gehring et al. 2017), or dilated, the same with
    the dilations of ByteNet. Of a Transformer's settings these have layers, d_model,
    dropout, tie_embeddings and output_bias, and convolutions positions: num_heads and
    d_ff are ignored, the others are refused."""

    recurrent_attention: RecurrentAttentionName = "additive"
    """What the decoder of a recurrent kind has of the source: attention by v · tanh(W q
    + U k) (Bahdanau et al. 2015), by the cosine or the dot product of its state and
    those of the encoder (Luong et al. 2015), or none: only the encoder's last state."""

    bidirectional: bool = True
    """Whether the encoder of a recurrent kind reads in both directions, each with half
    of d_model, or from the first token to the last with all of it."""

    kernel_size: int = 3
    """Positions that a kernel of a convolutional or dilated kind spans (k): odd."""

    encoder_layers: int = 6
    """Blocks in the encoder (N); 0 if a model has none (GPT)."""

    decoder_layers: int = 6
    """Blocks in the decoder (N; the paper keeps both equal); 0 if a model has none
    (BERT)."""

    d_model: int = 512
    """Width of the vectors between sublayers."""

    d_ff: int = 2048
    """Width inside the feed-forward sublayer."""

    num_heads: int = 8
    """Heads of each attention layer (h)."""

    d_k: int | None = None
    """Channels of a query or key in one head; unset: d_model / num_heads."""

    d_v: int | None = None
    """Channels of a value in one head; unset: d_model / num_heads."""

    dropout: float = 0.1
    """Dropout rate of sublayer outputs and of embeddings + positions (P_drop, Section
    5.4): 0 or more, less than 1."""

    attention_dropout: float = 0.0
    """Dropout rate of attention weights (Vaswani et al. 2018, Tensor2Tensor); the paper
    has none."""

    feed_forward_dropout: float = 0.0
    """Dropout rate after the activation of feed-forward (Tensor2Tensor, as above); the
    paper has none."""

    norm: NormPlacement = "post"
    """Layer normalization after each residual sum, as published; before each sublayer
    (pre-norm, Xiong et al. 2020); or deep: after it, with a larger residual connection
    and smaller initial weights, for stacks of many layers (DeepNorm, Wang et al. 2022).
    """

    norm_kind: NormKind = "layer"
    """Layer normalization; RMSNorm (Zhang and Sennrich 2019); or batch normalization,
    in which a token depends on its batch while training."""

    residual: ResidualName = "all"
    """What goes around each sublayer: all channels, none, or those of a concatenated
    positional encoding alone."""

    feed_forward: FeedForwardName = "plain"
    """Equation 2, or a gated layer (Shazeer 2020), named by the activation of its gate:
    sigmoid (glu), none (bilinear), relu, gelu or swish. It has a third matrix."""

    activation: ActivationName = "relu"
    """The activation of a plain feed-forward layer (Equation 2 has relu)."""

    attention: AttentionName = "scaled"
    """The score of a key for a query: q · k / √d_k as published, q · k, their cosine,
    v · tanh(q + k) (Bahdanau et al. 2015) or q W k (Luong et al. 2015)."""

    attention_window: int | None = None
    """Positions that each one attends to in self-attention, itself included: in a
    decoder the last ones, in an encoder as many on both sides, so that it must be odd
    there. Unset: all."""

    num_key_value_heads: int | None = None
    """Heads of keys and values, each shared by a group of query heads (grouped-query
    attention; 1 is multi-query attention); unset: num_heads."""

    attention_bias: bool = False
    """Add a bias in the four projections of attention; the paper's have none."""

    output_bias: bool = False
    """Add a bias to the logits; the paper has none."""

    embedding_norm: bool = False
    """Layer normalization of embeddings + positions; the paper has none."""

    tie_embeddings: Tying = "all"
    """Which matrices are tied: none, target embedding and output, or all three
    (Section 3.4, which needs a joint vocabulary). A model of one stack has one
    embedding, so that "output" and "all" are the same."""

    positions: PositionName = "sinusoidal"
    """Positional encoding: the paper's interleaved sines and cosines, the same in
    [sin | cos] halves, a learned table (Table 3, row E), rotations of queries and keys
    in self-attention (RoPE, Su et al. 2021), or none. Further, by distance in
    self-attention: alibi (Press et al. 2022), shaw (Shaw et al. 2018) and t5 (Raffel et
    al. 2020); and the bare number of a position, or that as a fraction of the length,
    of max_positions in a decoder."""

    position_join: PositionJoin = "add"
    """Add the encoding to the embedding, as published, or concatenate it."""

    d_position: int | None = None
    """Channels of a concatenated positional encoding; unset: half of d_model.
    Embeddings then have the other d_model - d_position."""

    max_positions: int = 1024
    """Rows of a learned table, and what fractions in a decoder divide by; other
    positions need none."""

    def __post_init__(self) -> None:
        problems = value_problems(self) or combination_problems(self)
        if problems:
            raise SettingsError(problems)

    def stack_problems(
        self, *stacks: Stack, kinds: Sequence[ModelKind] = ("transformer",)
    ) -> list[str]:
        """Return a problem for each of ``stacks`` that is missing, and each other.

        And one if the model is of another kind than ``kinds``.
        """
        problems = []
        if self.kind not in kinds:
            problems.append(
                f"kind must be {' or '.join(map(repr, kinds))} here, not {self.kind!r}"
            )
        for stack in get_args(Stack):
            layers = getattr(self, f"{stack}_layers")
            if stack in stacks and not layers:
                problems.append(f"{stack}_layers must be 1 or more, not 0")
            elif stack not in stacks and layers:
                problems.append(
                    f"{stack}_layers must be 0, not {layers}: this model has no {stack}"
                )
        return problems

    def check_stacks(self, *stacks: Stack, kind: ModelKind = "transformer") -> None:
        """Raise ``SettingsError`` unless the model has ``stacks``, and no other."""
        if problems := self.stack_problems(*stacks, kinds=(kind,)):
            raise SettingsError(problems)

    def check_vocabularies(self, source_size: int, target_size: int) -> None:
        """Raise ``SettingsError`` if embeddings of these sizes cannot be tied."""
        if self.tie_embeddings == "all" and source_size != target_size:
            raise SettingsError(
                [
                    f"tie_embeddings = 'all' needs one vocabulary, but the source has "
                    f"{source_size} entries and the target {target_size}; "
                    "use 'output', or a joint tokenizer"
                ]
            )

    @property
    def cross_attention_shape(self) -> tuple[int, int]:
        """Layers of cross-attention, and heads of each."""
        if self.kind == "transformer":
            return self.decoder_layers, self.num_heads
        if self.kind in CONVOLUTIONAL:
            return self.decoder_layers, 1
        return (0, 0) if self.recurrent_attention == "none" else (1, 1)

    @property
    def position_limit(self) -> int | None:
        """Longest text of an encoder or a decoder; None: there is no limit."""
        if self.positions == "learned":
            return self.max_positions
        if self.positions == "fraction" and self.decoder_layers:
            return self.max_positions
        return None

    @property
    def key_width(self) -> int:
        """Channels of a query or key in one head (d_k)."""
        return self.d_model // self.num_heads if self.d_k is None else self.d_k

    @property
    def value_width(self) -> int:
        """Channels of a value in one head (d_v)."""
        return self.d_model // self.num_heads if self.d_v is None else self.d_v

    @property
    def position_width(self) -> int:
        """Channels of the positional encoding."""
        if self.position_join == "add":
            return self.d_model
        return self.d_model // 2 if self.d_position is None else self.d_position

    @property
    def embedding_width(self) -> int:
        """Channels of a token's embedding: all of d_model unless concatenated."""
        if self.position_join == "add":
            return self.d_model
        return self.d_model - self.position_width
