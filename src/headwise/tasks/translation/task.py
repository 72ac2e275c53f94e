"""The translation task: model, loss, search, scores and metrics, bound together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from torch import Tensor

from headwise.backends.precision import Precision
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.select_training import cross_entropy_of, two_pass_loss_of
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.kinds import new_encoder_decoder
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_batches import mean_vectors, vectors_of_texts
from headwise.tasks.prediction import Prediction
from headwise.tasks.task_defaults import TaskDefaults
from headwise.tasks.translation.generator import Generator
from headwise.tasks.translation.pair_scorer import Pairs, PairScorer
from headwise.tasks.translation.text_codec import TextCodec
from headwise.text.vocabulary import END

Models = EncoderDecoder | Sequence[EncoderDecoder]
"""One model, or several as an ensemble."""


@dataclass(frozen=True)
class CrossAttention:
    """The cross-attention of one pair.

    N decoder blocks, H heads, T target pieces, S source pieces; END is both's last.
    Row t has the weights over the source with which target piece t is predicted.
    """

    source: list[str]
    target: list[str]
    weights: Tensor
    """[N H T S], each row a distribution over the source."""


@dataclass(frozen=True)
class Translation(TaskDefaults, TextCodec):
    """Trains and uses translation models; the models themselves are arguments.

    ``check_stop`` is called before each batch, and may raise to end a search. With
    ``deterministic``, each sentence is searched and scored alone and on one thread.
    """

    check_stop: Callable[[], None] = lambda: None
    deterministic: bool = False
    default_search: DecodingSettings = field(default_factory=greedy)
    """Where no settings are given, as in validation."""

    name = "translation"
    always_measured = ("bleu",)
    loss = staticmethod(cross_entropy_of)
    two_pass_loss = staticmethod(two_pass_loss_of)

    def with_length_limits(self, decoding: DecodingSettings) -> Self:
        """Return this task, whose default search has the limits of ``decoding``."""
        return replace(self, default_search=greedy(decoding))

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        return ModelDescription(
            task=self.name,
            config=config,
            source_vocab_size=self.tokenizers.source.size,
            target_vocab_size=self.tokenizers.target.size,
        )

    def new_model(self, config: TransformerConfig, *, seed: int) -> EncoderDecoder:
        """Make a model of this architecture for these vocabularies."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        return use_backend(new_encoder_decoder(config, *sizes, seed=seed), "auto")

    def generator(
        self,
        models: Models,
        *,
        cached: bool = True,
        precision: Precision = "float32",
        native: bool | None = None,
    ) -> Generator:
        """Return a generator, which keeps the decoders of ``models`` between searches.

        Without ``cached``, each step runs the whole model (the reference of
        ``backends.pytorch.uncached_decoder``). ``native`` chooses the C kernels or
        PyTorch; None: the faster of them (:mod:`headwise.backends.select_decoder`).
        """
        return Generator(
            self.tokenizers,
            _as_tuple(models),
            cached=cached,
            precision=precision,
            native=native,
            deterministic=self.deterministic,
            check_stop=self.check_stop,
        )

    def search(
        self,
        models: Models,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings | Sequence[DecodingSettings],
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search once, with a new generator: see :meth:`Generator.search`."""
        return self.generator(models).search(sources, settings, prefixes)

    def scorer(self, models: Models) -> PairScorer:
        """Return what scores and aligns given pairs with these models."""
        return PairScorer(_as_tuple(models), self.check_stop, self.deterministic)

    def score(
        self,
        models: Models,
        pairs: Pairs,
        settings: DecodingSettings | None = None,
    ) -> list[Hypothesis]:
        """Return each target as the hypothesis that it would be for its source."""
        return self.scorer(models).score(pairs, settings or DecodingSettings())

    def predict(
        self,
        model: EncoderDecoder,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
    ) -> list[str]:
        """Return the best output of each text, by default with greedy search."""
        return [each.output for each in self.predictions(model, texts, settings)]

    def predictions(
        self,
        model: EncoderDecoder,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the best output of each text with its log-probability.

        A blank text has a blank output.
        """
        given = [text for text in texts if text.strip()]
        decoding = decoding or self.default_search
        sources, copied = self.encode_masked(given, decoding)
        outputs = self.search(model, sources, decoding)
        found = (
            Prediction(
                output=self.decode(best, of_text), log_probability=best.log_probability
            )
            for (best, *_), of_text in zip(outputs, copied, strict=True)
        )
        blank = Prediction(output="", log_probability=0.0)
        return [next(found) if text.strip() else blank for text in texts]

    def vectors(
        self, model: EncoderDecoder, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the mean of the encoder's output [D] for each text; None for none."""

        def run(batch: RaggedTokens) -> Tensor:
            is_real = batch.is_real
            return mean_vectors(model.encode_source(batch.padded(), is_real), is_real)

        return vectors_of_texts(
            self.encode(texts),
            run,
            model,
            alone=self.deterministic,
            check_stop=self.check_stop,
        )

    def attention(
        self, model: EncoderDecoder, source: str, target: str
    ) -> CrossAttention | None:
        """Return the cross-attention of ``model`` as it predicts ``target``, if any."""
        if not model.config.cross_attention_shape[0]:
            return None
        (source_ids,) = self.encode([source])
        target_ids = self.tokenizers.target.encode(target)
        weights = self.scorer(model).cross_attention([source_ids], [target_ids])
        return CrossAttention(
            source=self.tokenizers.source.pieces([*source_ids, END]),
            target=self.tokenizers.target.pieces([*target_ids, END]),
            weights=weights[0],
        )

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Score outputs by their references, which are taken as they are."""
        return measure(metric, outputs, references, resamples=resamples)


def _as_tuple(models: Models) -> tuple[EncoderDecoder, ...]:
    return (models,) if isinstance(models, EncoderDecoder) else tuple(models)
