"""The dialogue task: model, loss and answers, bound together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from headwise.data.pair_formats import prompt_tokens, role_token
from headwise.data.ragged_batch import Batch
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import DataError
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.decoder_only import DecoderOnly
from headwise.tasks.dialogue.loss import answer_loss, join_turns, two_pass_answer_loss
from headwise.tasks.language_model.task import LanguageModelling
from headwise.tasks.prediction import InputError, Prediction
from headwise.text.dialogue import ASSISTANT, ROLES, read_input


@dataclass(frozen=True)
class Answering(LanguageModelling):
    """Trains and uses language models that answer.

    A text is a turn of the user, or a dialogue as JSON: see
    :mod:`headwise.text.dialogue`.
    """

    default_search: DecodingSettings = field(default_factory=greedy)
    """Where no settings are given, as in validation."""

    name = "dialogue"
    loss = staticmethod(answer_loss)
    two_pass_loss = staticmethod(two_pass_answer_loss)

    def with_length_limits(self, decoding: DecodingSettings) -> Self:
        """Return this task, whose default search has the limits of ``decoding``."""
        return replace(self, default_search=greedy(decoding))

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Tokens that are never generated: no turn of anybody begins in an answer."""
        roles = (role_token(self.tokenizers, role) for role in ROLES)
        return *super().forbidden, *roles

    def training_batch(self, batch: Batch, random: np.random.PCG64) -> Batch:
        """Return whole dialogues, of which all answers count."""
        return join_turns(batch, assistant=role_token(self.tokenizers, ASSISTANT))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn dialogues into prompts, which end where the answer begins.

        Raises ``InputError`` for JSON that is no dialogue.
        """
        found = []
        for index, text in enumerate(texts):
            try:
                found.append(prompt_tokens(self.tokenizers, read_input(text)))
            except DataError as error:
                raise InputError(index, str(error)) from None
        return found

    def predict(self, model: DecoderOnly, texts: Sequence[str]) -> list[str]:
        """Return the answer to each dialogue."""
        return [each.output for each in self.predictions(model, texts)]

    def predictions(
        self,
        model: DecoderOnly,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the answer to each dialogue with its log-probability.

        A blank text has a blank answer.
        """
        self.encode(texts)  # an error has the index of the input, blank ones counted
        given = [text for text in texts if text.strip()]
        search = decoding or self.default_search
        found = iter(self.generate(model, given, search) if given else [])
        results = []
        for text in texts:
            if not text.strip():
                results.append(Prediction(output="", log_probability=0.0))
                continue
            best, *_ = next(found)
            results.append(
                Prediction(
                    output=self.tokenizers.target.decode(best.tokens).strip(),
                    log_probability=best.log_probability,
                )
            )
        return results

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Score answers by their references, which are taken as they are."""
        return measure(metric, outputs, references, resamples=resamples)
