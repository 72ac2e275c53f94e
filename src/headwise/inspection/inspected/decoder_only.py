"""Language models, and those that answer: a text, token by token.

Letters used for sizes: T tokens of a text, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, ClassVar

import torch

from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import DataError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.arguments import check_length, require_text
from headwise.inspection.attribution import AttributedOutput, text_of_decoder
from headwise.inspection.beam_tree import BeamTree, beam_tree
from headwise.inspection.comparison import Answer, FoundOutput
from headwise.inspection.inspected.base import InspectedModel
from headwise.inspection.logit_lens import LogitLens, logit_lens
from headwise.inspection.output import Output, output_of
from headwise.inspection.token_pair import TokenPair, run_model
from headwise.settings import changed_by
from headwise.tasks.language_model.task import LINE_TOKENS
from headwise.tasks.prediction import InputError
from headwise.text.vocabulary import END, START


class InspectedLanguageModel(InspectedModel):
    """A language model: a text, or how it continues a text."""

    refusals: ClassVar = {
        "patch": "it is about two sources of equal length, and there is no source"
    }

    def prompt(self, text: str, continuation: str = "") -> list[int]:
        """Return the tokens of a text, and of what is given to follow it."""
        tokens: list[int]
        (tokens,) = self.task.encode([text + continuation])
        check_length(tokens, "the text")
        return tokens

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return a text and the token that the model writes next.

        With ``target`` the output is what follows the text, and else the whole text.
        """
        if target is not None:
            require_text(target, "the target")
            tokens, given = self._split(text, target)
            return self._of_tokens([*tokens, END], given)
        tokens = self.prompt(text, prefix)
        return self._of_tokens([*tokens, self._next_token(tokens)], 0)

    def output(self, pair: TokenPair, count: int) -> Output:
        """Return the probability of each token."""
        return output_of(self.model, pair, self.task.tokenizers.target, count=count)

    def attributed(self, pair: TokenPair) -> AttributedOutput:
        """Return ln p of each token as a function of those before it."""
        return text_of_decoder(self.model, pair)

    def lens(self, pair: TokenPair, count: int) -> LogitLens:
        """Return what each layer would say."""
        return logit_lens(self.model, pair, self.task.tokenizers.target, count=count)

    def beam(self, text: str, prefix: str, search: Mapping[str, Any]) -> BeamTree:
        """Return what the beam search for a continuation did."""
        settings = self.settings(search)
        tokens = self.prompt(text, prefix)
        target = self.task.tokenizers.target
        return beam_tree(
            lambda on_step: self._search(tokens, settings, on_step),
            settings,
            source=target.pieces(tokens),
            target=target,
            text_of=lambda found: prefix + target.decode(found.tokens),
        )

    def answers(
        self, text: str, prefix: str, search: Mapping[str, Any]
    ) -> list[Answer]:
        """Return continuations of a text, best first."""
        tokens, given = self._split(text, prefix)
        decode = self.task.tokenizers.target.decode
        answers = []
        for each in self._search(tokens, self.settings(search)):
            end = [END] if each.finished else []
            own = (*tokens[given:], *each.tokens, *end)
            log_p: float | None = each.log_probability
            if given < len(tokens):  # the search does not count what it was given
                log_p = self._log_p([*tokens[:given], *own], given)
            found = FoundOutput(prefix + decode(each.tokens), each.score, log_p)
            answers.append(Answer(found, own))
        return answers

    def log_probability(self, text: str, answer: Answer) -> float | None:
        """Return ln p of a continuation, as the model is now."""
        tokens = self.prompt(text)
        return self._log_p([*tokens, *answer.tokens], len(tokens))

    def settings(self, search: Mapping[str, Any]) -> DecodingSettings:
        """Return those of greedy search, as ``predict`` has, with those of ``search``.

        The search of a language model samples, and two samples differ by chance.
        """
        limits = {"max_length_factor": 0.0, "max_length_offset": LINE_TOKENS}
        return changed_by(greedy(), {**limits, **search})

    def _search(
        self,
        tokens: list[int],
        settings: DecodingSettings,
        on_beam_step: OnBeamStep | None = None,
    ) -> list[Hypothesis]:
        found: list[list[Hypothesis]] = self.task.search(
            self.model, [tokens], settings, on_beam_step=on_beam_step
        )
        return found[0]

    def _split(self, text: str, continuation: str) -> tuple[list[int], int]:
        """Return the tokens of both, and how many of them are those of ``text``.

        A token that has letters of both is one of the continuation.
        """
        alone, both = self.prompt(text), self.prompt(text, continuation)
        same = takewhile(
            lambda pair: pair[0] == pair[1], zip(alone, both, strict=False)
        )
        return both, sum(1 for _ in same)

    def _log_p(self, tokens: list[int], given: int) -> float | None:
        return self.output(self._of_tokens(tokens, given), 1).log_probability

    def _of_tokens(self, tokens: list[int], given: int) -> TokenPair:
        """Return a text, of whose tokens the first ones were given."""
        pieces = self.task.tokenizers.target.pieces
        (start_piece,) = pieces([START])
        ids = tuple(tokens)
        return TokenPair((), ids, (), tuple(pieces(ids)), start_piece, given)

    @torch.no_grad()
    def _next_token(self, tokens: list[int]) -> int:
        """Return the most probable token after ``tokens`` that may be generated."""
        with evaluation_mode(self.model):
            hidden = run_model(self.model, self._of_tokens([*tokens, END], 0))
            logits = self.model.logits(hidden[0, -1])
        logits[list(self.task.forbidden)] = -torch.inf
        return int(logits.argmax())


class InspectedAssistant(InspectedLanguageModel):
    """A model of dialogues: turns, and the answer to them."""

    def prompt(self, text: str, continuation: str = "") -> list[int]:
        """Return the tokens of the turns, and of how an answer begins.

        Raises ``DataError`` for JSON that is no dialogue.
        """
        try:
            (tokens,) = self.task.encode([text])
        except InputError as error:
            raise DataError(error.reason) from None
        check_length(tokens, "the text")
        return [*tokens, *self.task.tokenizers.target.encode(continuation)]

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return turns with ``target`` as their answer, or with the model's own."""
        if target is not None:
            return super().pair(text, target, prefix, search)
        best, *_ = self.answers(text, prefix, {**search, "num_best": 1})
        given = self.prompt(text)
        tokens = [*given, *best.tokens]
        return self._of_tokens(
            tokens if tokens[-1] == END else [*tokens, END], len(given)
        )

    def settings(self, search: Mapping[str, Any]) -> DecodingSettings:
        """Return the decoding settings of the model with those of ``search``."""
        return InspectedModel.settings(self, search)
