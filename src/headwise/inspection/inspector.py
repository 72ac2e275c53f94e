"""The Python interface to a look inside: text in, typed results out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inspection.attention import Attention, attention_of
from headwise.inspection.attribution import Attribution, attribution_of
from headwise.inspection.beam_tree import BeamTree, beam_tree
from headwise.inspection.head_ranking import HeadRanking, heads_zeroed, rank_heads
from headwise.inspection.head_statistics import HeadStatistics, head_statistics
from headwise.inspection.interventions import Intervention, intervene
from headwise.inspection.logit_lens import LogitLens, logit_lens
from headwise.inspection.output import Output, output_of
from headwise.inspection.patching import Patching, patch_activations
from headwise.inspection.places import Head
from headwise.inspection.token_pair import (
    TokenPair,
    make_pair,
    require_text,
    require_transformer,
    text_for_decoder,
)
from headwise.inspection.word_steps import WordSteps, word_steps
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.encoder_only import EncoderOnly
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer
from headwise.settings import as_table, merged, read
from headwise.tasks.task import Task
from headwise.tasks.translation.generator import Generator
from headwise.tasks.translation.task import Translation
from headwise.text.placeholders import restore
from headwise.text.vocabulary import END


@dataclass(frozen=True, slots=True)
class FoundOutput:
    """One output of a search."""

    text: str
    score: float
    log_probability: float
    """Of the model that wrote it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outputs before and after interventions."""

    source: str
    interventions: tuple[str, ...]
    before: tuple[FoundOutput, ...]
    after: tuple[FoundOutput, ...]

    before_changed: float
    """ln p of the best output before, as the changed model sees it."""

    @property
    def differs(self) -> bool:
        """Whether the best output is another text."""
        return self.before[0].text != self.after[0].text


class Inspector:
    """Looks into one model: ``headwise.load(FOLDER).inspector``.

    A text is one line. Where a ``target`` may be given, that output is looked at, and
    else the model's own translation. Hooks are swapped into the model meanwhile, so one
    thread at a time may use it.
    """

    def __init__(
        self, task: Task, model: SequenceModel, decoding: DecodingSettings
    ) -> None:
        self.task = task
        self.model = model
        self.decoding = decoding

    def pair(self, text: str, target: str | None = None, **search: Any) -> TokenPair:
        """Return the tokens of a text and its target, which the model may write.

        Raises ``DataError`` for a blank text, ``UsageError`` for a model whose task
        reads no text, or has other targets than text.
        """
        require_text(text, "the text")
        tokenizers = self.task.tokenizers
        if self._has(EncoderDecoder):
            translation = self._translation("a source with its target")
            source, _ = self._source(translation, text)
            if target is not None:
                require_text(target, "the target")
                return make_pair(tokenizers, source, tokenizers.target.encode(target))
            (found,) = self._generator().search(
                [source], self._settings({**search, "num_best": 1})
            )
            return make_pair(tokenizers, source, found[0].tokens)
        if target is not None:
            raise UsageError(
                f"a model of {self.task.name} has no target text; give its text alone"
            )
        if self._has(EncoderOnly):
            (tokens,) = self.task.encode([text])
            return make_pair(tokenizers, tokens, None)
        if self._has(DecoderOnly):
            (tokens,) = self.task.encode([text])
            return text_for_decoder(tokenizers, tokens)
        raise UsageError(
            f"a model of {self.task.name} reads no text, so there are no words to look "
            "at; models of translation, classification, tagging and language have"
        )

    def attention(
        self,
        text: str,
        target: str | None = None,
        *,
        heads: Collection[Head] | None = None,
        norms: bool = False,
        rollout: bool = False,
    ) -> Attention:
        """Return the attention weights; see :func:`attention_of`."""
        return attention_of(
            self.model,
            self.pair(text, target),
            heads=heads,
            norms=norms,
            rollout=rollout,
        )

    def output(self, text: str, target: str | None = None, *, count: int = 5) -> Output:
        """Return the probability of each output token, with ``count`` alternatives."""
        model = self._encoder_decoder("probabilities of an output")
        tokenizer = self.task.tokenizers.target
        return output_of(model, self.pair(text, target), tokenizer, count=count)

    def beam(self, text: str, *, prefix: str = "", **search: Any) -> BeamTree:
        """Return what the beam search of a text did; see :func:`beam_tree`.

        ``search`` overrides decoding settings, such as ``beam=5``; the output starts
        with ``prefix``.
        """
        require_text(text, "the text")
        translation = self._translation("a beam search")
        source, _ = self._source(translation, text)
        forced = translation.prefix(prefix) if prefix else None
        return beam_tree(
            self._generator(), source, self._settings(search), prefix=forced
        )

    def word(
        self, text: str, head: Head, position: int, target: str | None = None
    ) -> WordSteps:
        """Return every step of a head at one position; see :func:`word_steps`."""
        return word_steps(self.model, self.pair(text, target), head, position)

    def attribution(
        self,
        text: str,
        target: str | None = None,
        *,
        positions: Sequence[int] | None = None,
    ) -> Attribution:
        """Return what each output token owes to each source token."""
        model = require_transformer(self.model, "attribution")
        return attribution_of(model, self.pair(text, target), positions=positions)

    def lens(
        self, text: str, target: str | None = None, *, count: int = 3
    ) -> LogitLens:
        """Return what each layer of the decoder would say."""
        for module in self.model.modules():
            if isinstance(module, Transformer | DecoderOnly):
                tokenizer = self.task.tokenizers.target
                pair = self.pair(text, target)
                return logit_lens(module, pair, tokenizer, count=count)
        raise UsageError(
            f"the logit lens needs a decoder of Transformer blocks, which a "
            f"{type(self.model).__name__} has not"
        )

    def patch(self, text: str, donor: str, target: str, other: str) -> Patching:
        """Return which activations carry the difference between two texts.

        ``target`` and ``other`` are two translations, or beginnings of them, that are
        the same up to one word: their first tokens that differ are the answers.
        """
        model = require_transformer(self.model, "activation patching")
        for each, what in ((text, "the text"), (donor, "the donor")):
            require_text(each, what)
        translation = self._translation("activation patching")
        source, given = (
            [*self._source(translation, each)[0], END] for each in (text, donor)
        )
        prefix, answers = self._answers(target, other)
        receiver, giver, heads, layers = patch_activations(
            model, source, given, prefix, answers
        )
        tokenizers = self.task.tokenizers
        pair = make_pair(tokenizers, source[:-1], prefix)
        first, second = tokenizers.target.pieces(answers)
        return Patching(
            pair.source_pieces,
            tuple(tokenizers.source.pieces(given)),
            pair.decoder_pieces,
            (first, second),
            receiver,
            giver,
            heads,
            layers,
        )

    def statistics(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> list[HeadStatistics]:
        """Return what each head attends to over lines and their translations."""
        model = self._encoder_decoder("statistics of heads")
        return head_statistics(model, self.token_pairs(sources, targets))

    def rank_heads(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        *,
        on_head: Callable[[Head], None] = lambda head: None,
    ) -> HeadRanking:
        """Rank the heads by what references lose without them: :func:`rank_heads`."""
        model = self._encoder_decoder("a ranking of heads")
        pairs = self.token_pairs(sources, references)
        return rank_heads(model, pairs, on_head=on_head)

    def bleu_without(
        self,
        heads: Sequence[Head],
        sources: Sequence[str],
        references: Sequence[str],
        **search: Any,
    ) -> float:
        """Return the BLEU of translations by the model without ``heads``."""
        translation = self._translation("BLEU")
        with heads_zeroed(self.model, heads):
            found = self._generator().search(
                translation.encode(sources), self._settings({**search, "num_best": 1})
            )
        outputs = [translation.decode(best) for best, *_ in found]
        return translation.measure("bleu", outputs, references).value

    @contextmanager
    def intervene(self, *changes: Intervention) -> Iterator[None]:
        """Change the model for a while; everything here then looks at the change."""
        with intervene(self.model, *changes):
            yield

    def compare(
        self, text: str, *changes: Intervention, prefix: str = "", **search: Any
    ) -> Comparison:
        """Translate with and without ``changes``; ``search`` may be any search.

        With ``prefix`` the output after them starts with it: a forced next word.
        """
        require_text(text, "the text")
        if not changes and not prefix:
            raise UsageError("there is nothing to compare; give a change or a prefix")
        translation = self._translation("a comparison of translations")
        source, copied = self._source(translation, text)
        settings = self._settings(search)
        generator = self._generator()
        (before,) = generator.search([source], settings)
        forced = [translation.prefix(prefix)] if prefix else None
        with self.intervene(*changes):
            (after,) = generator.search([source], settings, forced)
            (changed,) = generator.scorer.score([(source, before[0].tokens)], settings)
        names = [str(each) for each in changes]
        if prefix:
            names.append(f"output starts with {prefix!r}")
        return Comparison(
            text,
            tuple(names),
            self._found(before, copied),
            self._found(after, copied),
            changed.log_probability,
        )

    def token_pairs(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        """Return lines and their translations as tokens without END.

        Raises ``UsageError`` unless there are as many of both.
        """
        if len(sources) != len(targets):
            raise UsageError(
                f"each source needs its target: there are {len(sources):,} sources "
                f"and {len(targets):,} targets"
            )
        translation = self._translation("pairs of lines")
        target = self.task.tokenizers.target
        encoded = translation.encode(sources)
        return [
            (source, target.encode(text))
            for source, text in zip(encoded, targets, strict=True)
        ]

    def _answers(self, target: str, other: str) -> tuple[list[int], tuple[int, int]]:
        """Return the tokens that two targets share, and the first ones that differ."""
        encode = self.task.tokenizers.target.encode
        ours, theirs = encode(target), encode(other)
        for index, answers in enumerate(zip(ours, theirs, strict=False)):
            if answers[0] != answers[1]:
                return ours[:index], answers
        raise UsageError(
            f"{target!r} and {other!r} have no token that differs; give two outputs "
            "that are the same up to one word, such as ... il and ... elle"
        )

    def _source(
        self, translation: Translation, text: str
    ) -> tuple[list[int], Sequence[str]]:
        """Return the tokens of a text, and what its placeholders stand for."""
        masked, copied = translation.mask_copied(
            text, numbers=self.decoding.copy_numbers
        )
        (source,) = translation.encode([masked])
        return source, copied

    def _found(
        self, hypotheses: Sequence[Hypothesis], copied: Sequence[str]
    ) -> tuple[FoundOutput, ...]:
        decode = cast(Translation, self.task).decode
        texts = (decode(each) for each in hypotheses)
        return tuple(
            FoundOutput(
                restore(text, copied) if copied else text,
                each.score,
                each.log_probability,
            )
            for text, each in zip(texts, hypotheses, strict=True)
        )

    def _settings(self, search: Mapping[str, Any]) -> DecodingSettings:
        return read(DecodingSettings, merged(as_table(self.decoding), search))

    def _generator(self) -> Generator:
        return self._translation("a search").generator(
            self._encoder_decoder("a search")
        )

    def _translation(self, what: str) -> Translation:
        """Return the task if it is translation; raise ``UsageError`` for others."""
        if isinstance(self.task, Translation) and self.task.name == Translation.name:
            return self.task
        raise UsageError(
            f"{what} can be inspected for models of translation, not of "
            f"{self.task.name}; of models with an encoder or a decoder alone, such as "
            "classification, tagging and language models, attention can be shown"
        )

    def _encoder_decoder(self, what: str) -> EncoderDecoder:
        self._translation(what)
        return cast(EncoderDecoder, self.model)

    def _has(self, kind: type[SequenceModel]) -> bool:
        return any(isinstance(module, kind) for module in self.model.modules())
