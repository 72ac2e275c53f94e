"""Models with an encoder alone and a head: labels, tags, masked words, numbers.

Letters used for sizes: R rows computed together, S positions, O parts of an output,
K choices for each part, D model width, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from headwise.errors import DataError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.arguments import check_length
from headwise.inspection.attribution import AttributedOutput
from headwise.inspection.comparison import Answer, FoundOutput
from headwise.inspection.head_ranking import References
from headwise.inspection.inspected.base import InspectedModel
from headwise.inspection.inspected.captioner import read_patches
from headwise.inspection.output import Output, positions_of
from headwise.inspection.patch_grid import grid_of
from headwise.inspection.token_pair import TokenPair, with_patches
from headwise.model.encoder_only import EncoderOnly
from headwise.model.masks import make_padding_mask
from headwise.model.picture_encoder import PictureEncoder
from headwise.tasks import TASKS
from headwise.text.number_tokenizer import NumberTokenizer
from headwise.text.vocabulary import END, SPECIALS, START, UNKNOWN


class InspectedEncoder(InspectedModel):
    """An encoder alone; what is read off its vectors is for subclasses to say."""

    refusals: ClassVar = {
        "beam": "it chooses its output at once, and searches for nothing",
        "lens": "it reads the output off each layer of a decoder, and there is none",
        "patch": "it is about the next token of a decoder, and there is none",
    }

    @property
    def encoder(self) -> EncoderOnly | PictureEncoder:
        """The encoder without its head."""
        kinds = EncoderOnly, PictureEncoder
        return next(x for x in self.model.modules() if isinstance(x, kinds))

    def read(self, text: str) -> TokenPair:
        """Return a text as the encoder reads it: START, and no END."""
        (tokens,) = self.task.encode([text])
        return self.as_pair((START, *tokens))

    def as_pair(self, source: tuple[int, ...]) -> TokenPair:
        """Return tokens as a source alone; raise ``DataError`` for too many."""
        check_length(source, "the text")
        pieces = self.task.tokenizers.source.pieces
        (start_piece,) = pieces([START])
        return TokenPair(source, (), tuple(pieces(source)), (), start_piece)

    def encode(self, pair: TokenPair, is_real: Tensor) -> Tensor:
        """Return vectors [R S D] of the source R times.

        Where ``is_real`` [R S] is False, the embedding is zero and nothing attends.
        """
        encoder, source = (
            self.encoder,
            pair.source_rows(self.model.device, len(is_real)),
        )
        if isinstance(encoder, PictureEncoder):
            embedded = encoder.embed(source)
        else:
            embedded = encoder.embedding(source)
        embedded = embedded * is_real[:, :, None].to(embedded.dtype)
        x = encoder.enter_encoder(embedded, 0)
        out: Tensor = encoder.encoder(x, make_padding_mask(is_real))
        return out

    def all_real(self, pair: TokenPair) -> Tensor:
        """Return that the whole source is real, for one row."""
        length = len(pair.source)
        return torch.ones(1, length, dtype=torch.bool, device=self.model.device)


class InspectedChoices(InspectedEncoder):
    """An encoder whose output has parts, each one of K choices that are tokens."""

    first_token: ClassVar[int] = 0
    """The token of the first choice."""

    first_choice: ClassVar[int] = 0
    """The first choice that may be an output."""

    @abstractmethod
    def log_p(self, pair: TokenPair, is_real: Tensor) -> Tensor:
        """Return ln p of the choices of each part, [R O K]."""

    @abstractmethod
    def positions(self, text: str, pair: TokenPair) -> tuple[int, ...]:
        """Return the position of the source that each part is about, if any is."""

    @abstractmethod
    def chosen(self, text: str, pair: TokenPair, target: str) -> tuple[int, ...]:
        """Return the tokens of an output that is given."""

    @abstractmethod
    def text_of(self, pair: TokenPair) -> str:
        """Return the output as a line of text."""

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the names of tokens of the output."""
        found: list[str] = self.task.tokenizers.target.pieces(tokens)
        return found

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return a text with ``target``, or with the most probable choices."""
        self.refuse_target(None, prefix, "chosen at once")
        pair = self.read(text)
        pair = replace(pair, answer_positions=self.positions(text, pair))
        if target is not None:
            return replace(pair, answer=self.chosen(text, pair, target))
        _, best = self._log_p(pair).max(dim=1)
        tokens = (best + self.first_token + self.first_choice).tolist()
        return replace(pair, answer=tuple(tokens))

    def output(self, pair: TokenPair, count: int) -> Output:
        """Return the probability of each part, with other choices."""
        first = self.first_token + self.first_choice
        found = positions_of(
            self._log_p(pair),
            [token - first for token in pair.answer],
            lambda columns: self.pieces([first + each for each in columns]),
            count,
        )
        named = [
            replace(
                each,
                token=each.token + first,
                alternatives=tuple(
                    replace(x, token=x.token + first) for x in each.alternatives
                ),
            )
            for each in found
        ]
        if pair.answer_positions:
            named = [
                replace(each, source_position=position)
                for each, position in zip(named, pair.answer_positions, strict=True)
            ]
        return Output(
            self.text_of(pair),
            pair.source_pieces,
            tuple(named),
            sum(each.log_probability for each in named),
        )

    def attributed(self, pair: TokenPair) -> AttributedOutput:
        """Return ln p of each part as a function of the source."""
        columns = torch.tensor(pair.answer) - self.first_token

        def numbers(is_real: Tensor) -> Tensor:
            log_p = self.log_p(pair, is_real)
            index = columns.to(log_p.device).expand(len(log_p), -1)
            return log_p.gather(2, index[:, :, None])[:, :, 0]

        return AttributedOutput(
            model=self.model,
            columns=pair.source_pieces,
            rows=tuple(self.pieces(pair.answer)),
            default=range(len(pair.answer)),
            entrance=self.encoder.enter_encoder,
            numbers=numbers,
            vocabulary=self.task.tokenizers.target.size,
            patches=pair.patches,
        )

    def answers(
        self, text: str, prefix: str, search: Mapping[str, Any]
    ) -> list[Answer]:
        """Return the output with ln p of all its parts."""
        pair = self.pair(text, None, prefix, search)
        total = self._log_p_of(pair)
        return [Answer(FoundOutput(self.text_of(pair), total, total), pair.answer)]

    def log_probability(self, text: str, answer: Answer) -> float | None:
        """Return ln p of the parts of an answer, as the model is now."""
        pair = self.pair(text, None, "", {})
        return self._log_p_of(replace(pair, answer=answer.tokens))

    def _log_p_of(self, pair: TokenPair) -> float:
        columns = torch.tensor(pair.answer) - self.first_token - self.first_choice
        log_p = self._log_p(pair)
        return float(log_p.gather(1, columns.to(log_p.device)[:, None]).sum())

    @torch.no_grad()
    def _log_p(self, pair: TokenPair) -> Tensor:
        """Return ln p [O K] of the choices that may be an output."""
        with evaluation_mode(self.model):
            found = self.log_p(pair, self.all_real(pair))[0]
        return found[:, self.first_choice :]


class InspectedClassifier(InspectedChoices):
    """A model of classification: one part, a label."""

    first_token = len(SPECIALS)

    def log_p(self, pair: TokenPair, is_real: Tensor) -> Tensor:
        """Return ln p [R 1 K] of the labels."""
        logits: Tensor = self.model.head(self.encode(pair, is_real), is_real)
        return logits.log_softmax(dim=1)[:, None]

    def positions(self, text: str, pair: TokenPair) -> tuple[int, ...]:
        """Return none: a label is about the whole source."""
        return ()

    def chosen(self, text: str, pair: TokenPair, target: str) -> tuple[int, ...]:
        """Return the token of a label; raise ``DataError`` for an unknown one."""
        return tuple(self.task.tokenizers.target.encode(target))

    def text_of(self, pair: TokenPair) -> str:
        """Return the label."""
        return "".join(self.pieces(pair.answer))

    def answers(
        self, text: str, prefix: str, search: Mapping[str, Any]
    ) -> list[Answer]:
        """Return every label with ln p, the most probable first."""
        pair = self.pair(text, None, prefix, search)
        (row,) = self._log_p(pair)
        order = row.argsort(descending=True, stable=True).tolist()
        answers = []
        for choice in order:
            tokens, log_p = (self.first_token + choice,), row[choice].item()
            label = self.text_of(replace(pair, answer=tokens))
            answers.append(Answer(FoundOutput(label, log_p, log_p), tokens))
        return answers

    def references(self, sources: Sequence[str], targets: Sequence[str]) -> References:
        """Return the labels of inputs, whose ln p fast backends compute."""
        labels = [
            tokens[0] for tokens in map(self.task.tokenizers.target.encode, targets)
        ]
        if not labels:
            raise DataError("there are no labels to rank heads by; give some lines")

        def log_probabilities() -> list[float]:
            rows = self.task.log_probabilities(self.model, sources)
            return [
                row[label - self.first_token].item()
                for row, label in zip(rows, labels, strict=True)
            ]

        return References(log_probabilities, len(labels))


class InspectedPictureClassifier(InspectedClassifier):
    """A model of picture classification: patches after the [class] token."""

    def read(self, text: str) -> TokenPair:
        """Return the patches of a picture."""
        patches = read_patches(self.task, text)
        grid = grid_of(self.task.cutter, patches, first=1)
        return with_patches(self.as_pair(()), grid, patches)


class InspectedTagger(InspectedChoices):
    """A model of tagging: a part for each word, at its first token."""

    first_token = UNKNOWN
    first_choice = 1  # never the tag that was not seen in training

    def read(self, text: str) -> TokenPair:
        """Return the words, and END."""
        (tokens,) = self.task.encode([text])
        return self.as_pair((*tokens, END))

    def log_p(self, pair: TokenPair, is_real: Tensor) -> Tensor:
        """Return ln p [R O K] of the tags of each word."""
        vectors = self.encode(pair, is_real)[:, list(pair.answer_positions)]
        logits: Tensor = self.model.head(vectors)
        return logits.log_softmax(dim=2)

    def positions(self, text: str, pair: TokenPair) -> tuple[int, ...]:
        """Return the position of the first token of each word."""
        found, position = [], 0
        for word in self.task.words(text):
            found.append(position)
            position += len(word)
        return tuple(found)

    def chosen(self, text: str, pair: TokenPair, target: str) -> tuple[int, ...]:
        """Return the tokens of tags; raise ``DataError`` unless each word has one."""
        encode = TASKS[self.task.name].pair_format.encode
        _, tags = encode(self.task.tokenizers, text, target)
        return tuple(tags[position] for position in pair.answer_positions)

    def text_of(self, pair: TokenPair) -> str:
        """Return the tags with spaces between them."""
        return " ".join(self.pieces(pair.answer))


class InspectedRegressor(InspectedEncoder):
    """A model of regression, whose output is a number without a probability."""

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return a text alone."""
        self.refuse_target(target, prefix, "a number")
        return self.read(text)

    def output(self, pair: TokenPair, count: int) -> Output:
        """Return the number as text."""
        return Output(self._text(pair), pair.source_pieces, (), None)

    def attributed(self, pair: TokenPair) -> AttributedOutput:
        """Return the number, in the unit of the training text."""
        return AttributedOutput(
            model=self.model,
            columns=pair.source_pieces,
            rows=(self._text(pair),),
            default=range(1),
            entrance=self.encoder.enter_encoder,
            numbers=lambda is_real: (
                self._numbers.deviation * self._value(pair, is_real)[:, None]
            ),
            unit="",
        )

    def answers(
        self, text: str, prefix: str, search: Mapping[str, Any]
    ) -> list[Answer]:
        """Return the number."""
        found = self._text(self.pair(text, None, prefix, search))
        return [Answer(FoundOutput(found, None, None), None)]

    def log_probability(self, text: str, answer: Answer) -> float | None:
        """Return None: a number has no probability."""
        return None

    @property
    def _numbers(self) -> NumberTokenizer:
        return cast(NumberTokenizer, self.task.tokenizers.target)

    def _value(self, pair: TokenPair, is_real: Tensor) -> Tensor:
        """Return the standardised number [R]."""
        value: Tensor = self.model.head(self.encode(pair, is_real), is_real)
        return value

    @torch.no_grad()
    def _text(self, pair: TokenPair) -> str:
        with evaluation_mode(self.model):
            (value,) = self._value(pair, self.all_real(pair)).tolist()
        return self._numbers.text(value)
