"""What every encoder-decoder has: embeddings, which may be shared, and logits.

Letters used for sizes: B batch rows, S source positions, L target positions,
D model width, E embedding width, V target vocabulary, N positions in any shape; of a
source whose tokens are patches (``tasks/captioning``), P numbers of each.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, cast

from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import ModelKind, TransformerConfig
from headwise.model.embeddings import OutputProjection, TokenEmbedding
from headwise.model.sequence_model import SequenceModel


class EncoderDecoder(SequenceModel):
    """Base class of the models in ``kinds.py``, which make ``output`` of their own.

    ``target_vocab_size`` unset means one vocabulary for both sides.
    """

    kind: ClassVar[ModelKind]
    output: OutputProjection

    def __init__(
        self,
        config: TransformerConfig,
        source_vocab_size: int,
        target_vocab_size: int | None = None,
    ) -> None:
        super().__init__(config)
        config.check_stacks("encoder", "decoder", kind=self.kind)
        target_vocab_size = target_vocab_size or source_vocab_size
        config.check_vocabularies(source_vocab_size, target_vocab_size)
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        width = config.embedding_width
        boxes: dict[str, nn.Module] = {
            "target": TokenEmbedding(target_vocab_size, width)
        }
        if config.tie_embeddings != "all":
            boxes["source"] = self.make_source_embedding(source_vocab_size, width)
        self.embeddings = nn.ModuleDict(boxes)

    def make_source_embedding(self, vocab_size: int, width: int) -> nn.Module:
        """Return the "Input Embedding" box of a source that is not shared."""
        return TokenEmbedding(vocab_size, width)

    def forward(
        self,
        source: Integer[Tensor, "B S *P"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L V"]:
        """Return the logits of every next token of ``target``, as training needs them.

        ``target`` is shifted right (Section 3.1): it begins with the start token, and
        the logits at position i are of the token that follows ``target[:, i]``.
        ``source_is_real`` is False for padding.
        """
        return self.logits(self.decode(source, target, source_is_real))

    @abstractmethod
    def decode(
        self,
        source: Integer[Tensor, "B S *P"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L D"]:
        """Return the output of the decoder: ``forward`` up to the "Linear" box."""

    @abstractmethod
    def encode_source(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return the output of the encoder."""

    @abstractmethod
    def start(
        self, source: Integer[Tensor, "B S *P"], source_is_real: Bool[Tensor, "B S"]
    ) -> Any:
        """Encode the source, to decode the target token by token with :meth:`step`.

        The state has ``index_select(index)``, which selects and reorders its rows.
        """

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, " B"], state: Any
    ) -> tuple[Float[Tensor, "B V"], Any]:
        """Append one token to every row; return the logits of the next one."""

    def embed_source(self, source: Integer[Tensor, "B S *P"]) -> Float[Tensor, "B S E"]:
        """Apply the "Input Embedding" box."""
        embedded: Tensor = self.source_embedding(source)
        return embedded

    def logits(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Apply the "Linear" box: a logit for every entry of the target vocabulary."""
        return F.linear(x, self.output_vectors, self.output.bias)

    @property
    def source_embedding(self) -> TokenEmbedding:
        """The embedding of source tokens, which may be that of target tokens."""
        name = "target" if self.config.tie_embeddings == "all" else "source"
        return cast(TokenEmbedding, self.embeddings[name])

    @property
    def target_embedding(self) -> TokenEmbedding:
        """The embedding of target tokens."""
        return cast(TokenEmbedding, self.embeddings["target"])

    @property
    def output_vectors(self) -> Float[Tensor, "V D"]:
        """The matrix of the "Linear" box, which may be the target embedding."""
        own = self.output.vectors
        return self.target_embedding.vectors if own is None else own
