"""The numbers and choices that define an architecture: the columns of Table 3.

Sizes of vocabularies are not here: the paper's table has no column for them either, and
they are known only once the text has been read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headwise.errors import SettingsError
from headwise.model.config_checks import combination_problems

ModelKind = Literal["transformer", "lstm"]
NormPlacement = Literal["post", "pre", "deep"]
ActivationName = Literal["relu", "gelu", "swish"]
PositionName = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"]
PositionJoin = Literal["add", "concatenate"]
Stack = Literal["encoder", "decoder"]
Tying = Literal["none", "output", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    """A Transformer; the defaults are the paper's base model, an encoder-decoder.

    A model of another ``kind`` takes the place of one in its own terms.
    """

    kind: ModelKind = "transformer"
    """transformer; or lstm, the recurrent encoder-decoder with attention that came
    before it (translation and parsing), which has layers, d_model, dropout,
    tie_embeddings and output_bias only: num_heads and d_ff are ignored, what else only
    a Transformer has is refused."""

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
    """Dropout rate of attention weights; the paper has none."""

    feed_forward_dropout: float = 0.0
    """Dropout rate after the activation of feed-forward; the paper has none."""

    norm: NormPlacement = "post"
    """Layer normalization after each residual sum, as published; before each sublayer;
    or deep: after it, with a larger residual connection and smaller initial weights,
    for stacks of many layers (DeepNorm, Wang et al. 2022)."""

    activation: ActivationName = "relu"
    """The activation of feed-forward (Equation 2 has relu)."""

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
    in self-attention (RoPE, Su et al. 2021), or none."""

    position_join: PositionJoin = "add"
    """Add the encoding to the embedding, as published, or concatenate it."""

    d_position: int | None = None
    """Channels of a concatenated positional encoding; unset: half of d_model.
    Embeddings then have the other d_model - d_position."""

    max_positions: int = 1024
    """Rows of a learned table; sinusoids need none."""

    def __post_init__(self) -> None:
        problems = [*self._sizes(), *self._dropout_rates(), *self._choices()]
        if not problems:
            problems = combination_problems(self)
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
        return 1, 1

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

    def _sizes(self) -> list[str]:
        least = {"encoder_layers": 0, "decoder_layers": 0}
        least |= dict.fromkeys(("d_model", "d_ff", "num_heads", "max_positions"), 1)
        for name in ("d_k", "d_v", "d_position"):
            if getattr(self, name) is not None:
                least[name] = 1
        return [
            f"{name} must be {minimum} or more, not {getattr(self, name)}"
            for name, minimum in least.items()
            if getattr(self, name) < minimum
        ]

    def _dropout_rates(self) -> list[str]:
        return [
            f"{name} must be 0 or more and less than 1, not {getattr(self, name)}"
            for name in ("dropout", "attention_dropout", "feed_forward_dropout")
            if not 0 <= getattr(self, name) < 1
        ]

    def _choices(self) -> list[str]:
        choices = {
            "kind": ModelKind,
            "norm": NormPlacement,
            "activation": ActivationName,
            "tie_embeddings": Tying,
            "positions": PositionName,
            "position_join": PositionJoin,
        }
        return [
            f"{name} must be one of {', '.join(get_args(kind))}, "
            f"not {getattr(self, name)!r}"
            for name, kind in choices.items()
            if getattr(self, name) not in get_args(kind)
        ]
