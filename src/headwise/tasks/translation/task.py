"""Sequence to sequence: one line of text becomes another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.backends.api import DecoderBackend, Precision
from headwise.backends.pytorch.install import use_backend
from headwise.backends.training_loss import cross_entropy_of
from headwise.data.batches import Batch
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.attention_hooks import attention_seen
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.tasks.translation.cross_attention import cross_weights
from headwise.tasks.translation.generator import Models, Searcher, models_of
from headwise.tasks.translation.text_codec import NEVER_WRITTEN, TextTask
from headwise.text.vocabulary import END, PAD, START

__all__ = ["NEVER_WRITTEN", "CrossAttention", "Translation"]


@dataclass(frozen=True)
class CrossAttention:
    """What each word of a target takes from each word of its source.

    N decoder blocks, H heads, T pieces of the target, S of the source; END is both's
    last. Row t weighs the source where piece t is to be written.
    """

    source: list[str]
    target: list[str]
    weights: Tensor
    """[N H T S], each row a distribution over the source."""


@dataclass(frozen=True)
class Translation(TextTask):
    """What is needed, besides a model, to learn from pairs and to use what was learned.

    ``stop`` is asked before each batch of a search, and may raise to end it. With
    ``deterministic``, each sentence is searched and scored alone and on one thread.
    """

    stop: Callable[[], None] = lambda: None
    deterministic: bool = False

    def stopping(self, stop: Callable[[], None]) -> Translation:
        """Return this task with another ``stop``."""
        return replace(self, stop=stop)

    def new_model(self, config: TransformerConfig, *, seed: int) -> Transformer:
        """Make a model of this architecture for these vocabularies."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        return use_backend(Transformer(config, *sizes, seed=seed), "auto")

    def loss(self, model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
        """Sum the cross-entropy over the real target tokens of ``batch``, in nats."""
        return cross_entropy_of(model, batch, smoothing=smoothing)

    def search(
        self,
        model: Models,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings | Sequence[DecodingSettings],
        *,
        prefixes: Sequence[Prefix] | None = None,
        cached: bool = True,
        laid_out: dict[Transformer, DecoderBackend] | None = None,
        precision: Precision = "float32",
        compiled: bool | None = None,
        stop: Callable[[], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Find the outputs of each source, best first; similar lengths go together.

        Several models search together. Each source may have settings of its own, and a
        prefix that its outputs begin with. Without ``cached`` each step runs the whole
        stack again on a refilled row: the same words by the readable way
        (``backends.pytorch.uncached_decoder``). ``laid_out`` is kept by who searches
        often; ``compiled`` says whether the model runs in kernels in C or in PyTorch,
        None: in the faster of them (:mod:`headwise.backends.select`).
        """
        return Searcher(
            self.tokenizers,
            models_of(model),
            cached,
            stop or self.stop,
            {} if laid_out is None else laid_out,
            precision,
            compiled,
            self.deterministic,
        ).search(sources, settings, prefixes)

    def score(
        self,
        model: Models,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        settings: DecodingSettings | None = None,
    ) -> list[Hypothesis]:
        """Return each target as the hypothesis that it would be for its source."""
        searcher = self._searcher(model)
        return searcher.score(pairs, settings or DecodingSettings())

    def _searcher(self, model: Models) -> Searcher:
        return Searcher(
            self.tokenizers,
            models_of(model),
            True,
            self.stop,
            deterministic=self.deterministic,
        )

    def alternatives(
        self,
        model: Models,
        source: Sequence[int],
        prefix: Prefix,
        count: int,
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Return the best output for each of ``count`` likely tokens behind a prefix.

        The most probable token's comes first.
        """
        searcher = self._searcher(model)
        return searcher.alternatives(source, prefix, count, settings)

    def best_head(
        self,
        model: Models,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    ) -> tuple[str, dict[str, float]]:
        """Return the ``alignment_head`` that aligns these pairs best; what each says.

        That is the mutual information of what it links, in nats.
        """
        searcher = self._searcher(model)
        return searcher.best_head(pairs)

    def predict(
        self,
        model: Transformer,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
    ) -> list[str]:
        """Return the best output of each text; a search is greedy unless it is said."""
        outputs = self.search(model, self.encode(texts), settings or greedy())
        return [self.decode(best[0]) for best in outputs]

    @torch.inference_mode()
    def attention(self, model: Transformer, source: str, target: str) -> CrossAttention:
        """Let ``model`` write ``target``, word for word, and note what it looks at."""
        asked = [*self.tokenizers.source.encode(source), END]
        written = self.tokenizers.target.encode(target)
        tokens = torch.tensor([asked], device=model.device)
        target_in = torch.tensor([[START, *written]], device=model.device)
        with attention_seen(model) as seen:
            model.decode(tokens, target_in, tokens != PAD)
        return CrossAttention(
            source=self.tokenizers.source.pieces(asked),
            target=self.tokenizers.target.pieces([*written, END]),
            weights=cross_weights(model, seen)[0],
        )

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Compare outputs with references, which stay as they are."""
        return measure(metric, outputs, references, resamples=resamples)
