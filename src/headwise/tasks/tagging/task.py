"""The tagging task: model, loss, tags and metrics, bound together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.select_encoder import encode_padded
from headwise.data.pair_formats import word_tokens
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.evaluation_mode import evaluation_mode
from headwise.model.config import TransformerConfig
from headwise.tasks.encoder_batches import (
    encoder_batches,
    mean_vectors,
)
from headwise.tasks.encoder_task import EncoderTask
from headwise.tasks.prediction import Prediction
from headwise.tasks.tagging.model import Tagger, tagging_loss, two_pass_tagging_loss
from headwise.text.vocabulary import SPECIALS


@dataclass(frozen=True, kw_only=True)
class Tagging(EncoderTask):
    """Trains and uses taggers of words.

    The parts of a long text are of whole words, as many as fit.
    """

    name = "tagging"
    always_measured = ("tag-accuracy",)
    loss = staticmethod(tagging_loss)
    two_pass_loss = staticmethod(two_pass_tagging_loss)

    def new_model(self, config: TransformerConfig, *, seed: int) -> Tagger:
        """Make a model of this architecture for these words and tags."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        return use_backend(Tagger(config, *sizes, seed=seed), "auto")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts word by word, without END."""
        return [_flat(self.words(text)) for text in texts]

    def predictions(
        self,
        model: Tagger,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the tags of each text, and the log-probability of all of them."""
        parts = [self._parts(self.words(text)) for text in texts]
        flat = [part for each in parts for part in each]
        found = iter(self._best_tags(model, flat))
        results = []
        for each in parts:
            tagged = [next(found) for _ in each]
            tags = [tag for tags, _ in tagged for tag in tags]
            results.append(
                Prediction(
                    output=" ".join(self.tokenizers.target.pieces(tags)),
                    log_probability=sum(total for _, total in tagged),
                )
            )
        return results

    def vectors(self, model: Tagger, texts: Sequence[str]) -> list[Tensor | None]:
        """Return the mean of the encoder's output [D] for each text; None for none."""

        def run(batch: RaggedTokens) -> Tensor:
            return mean_vectors(encode_padded(model.encoder_only, batch), batch.is_real)

        return self.rows_of_texts(model, texts, run)

    def words(self, text: str) -> list[list[int]]:
        """Return the tokens of each word."""
        return word_tokens(self.tokenizers, text.split())

    def _parts(self, words: list[list[int]]) -> list[list[list[int]]]:
        """Cut the words of a text into parts of at most ``max_tokens``."""
        if self.max_tokens is None:
            return [words] if words else []
        parts: list[list[list[int]]] = []
        room = 0
        for word in words:
            if len(word) > room or not parts:
                parts.append([])
                room = self.max_tokens
            parts[-1].append(word)
            room -= len(word)
        return parts

    def _best_tags(
        self, model: Tagger, parts: Sequence[list[list[int]]]
    ) -> list[tuple[list[int], float]]:
        """Return the tokens of the best tags of each part, and their ln p summed."""

        def run(texts: RaggedTokens) -> Tensor:
            logits: Tensor = model(texts)
            return logits.float().log_softmax(dim=2)

        with evaluation_mode(model):
            rows = list(
                encoder_batches(
                    [_flat(part) for part in parts],
                    run,
                    device=model.device,
                    alone=self.deterministic,
                    check_stop=self.check_stop,
                )
            )
        found = []
        for part, row in zip(parts, rows, strict=True):
            first = torch.tensor([0, *accumulate(map(len, part))][:-1])
            best, tags = row[first, 1:].max(dim=1)  # never the unknown tag
            found.append(((tags + len(SPECIALS)).tolist(), best.sum().item()))
        return found


def _flat(words: Sequence[Sequence[int]]) -> list[int]:
    return [token for word in words for token in word]
