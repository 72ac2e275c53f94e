"""The classification task: model, loss, labels and metrics, bound together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.tasks.classification.model import TextClassifier, classification_loss
from headwise.tasks.classification.settings import ClassificationSettings
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_batches import vectors_of_texts
from headwise.tasks.prediction import Prediction
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import SPECIALS


@dataclass(frozen=True)
class Classification:
    """Trains and uses classifiers of text; the models themselves are arguments.

    A text of more than ``max_tokens`` is read in windows of about equal length, whose
    log-probabilities are averaged; None reads any text whole.
    """

    tokenizers: TokenizerPair
    settings: ClassificationSettings
    check_stop: Callable[[], None] = lambda: None
    deterministic: bool = False
    max_tokens: int | None = None

    name = "classification"
    always_measured = ("accuracy",)
    loss = staticmethod(classification_loss)

    def with_check_stop(self, check_stop: Callable[[], None]) -> Classification:
        """Return this task with another ``check_stop``."""
        return replace(self, check_stop=check_stop)

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        return ModelDescription(
            task=self.name,
            config=config,
            source_vocab_size=self.tokenizers.source.size,
            target_vocab_size=self.tokenizers.target.size,
            options=self.settings,
        )

    def new_model(self, config: TransformerConfig, *, seed: int) -> TextClassifier:
        """Make a model of this architecture for these texts and labels."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        model = TextClassifier(config, *sizes, self.settings, seed=seed)
        return use_backend(model, "auto")

    @property
    def labels(self) -> list[str]:
        """All labels, in the order of the logits."""
        target = self.tokenizers.target
        return target.pieces(range(len(SPECIALS), target.size))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def predict(self, model: TextClassifier, texts: Sequence[str]) -> list[str]:
        """Return the most probable label of each text; none for a blank one."""
        return [each.output for each in self.predictions(model, texts)]

    def predictions(
        self,
        model: TextClassifier,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the labels of each text with their probabilities, best first."""
        labels = self.labels
        results = []
        for row in self.log_probabilities(model, self.encode(texts)):
            if row is None:
                results.append(Prediction(output="", log_probability=0.0))
                continue
            order = row.argsort(descending=True, stable=True).tolist()
            ranked = [(labels[index], math.exp(row[index])) for index in order]
            best = row[order[0]].item()
            results.append(
                Prediction(output=ranked[0][0], log_probability=best, ranked=ranked)
            )
        return results

    def log_probabilities(
        self, model: TextClassifier, sources: Sequence[Sequence[int]]
    ) -> list[Tensor | None]:
        """Return the log-probabilities [K] of each text; None for an empty one."""

        def run(texts: RaggedTokens) -> Tensor:
            logits: Tensor = model(texts)
            return logits.float().log_softmax(dim=1)

        return self._by_window(model, sources, run)

    def vectors(
        self, model: TextClassifier, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the pooled vector [D] of each text; None for an empty one."""
        return self._by_window(model, self.encode(texts), model.pool)

    def _by_window(
        self,
        model: TextClassifier,
        sources: Sequence[Sequence[int]],
        run: Callable[[RaggedTokens], Tensor],
    ) -> list[Tensor | None]:
        """Return the mean of what ``run`` gives for the windows of each text."""
        return vectors_of_texts(
            sources,
            run,
            model,
            max_tokens=self.max_tokens,
            alone=self.deterministic,
            check_stop=self.check_stop,
        )

    def attention(self, model: TextClassifier, source: str, target: str) -> None:
        """Return None: there is no cross-attention to show."""

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Compare predicted labels with the right ones."""
        return measure(metric, outputs, references, resamples=resamples)
