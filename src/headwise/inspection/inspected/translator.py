"""Models of translation, with the placeholders of what they copy, and patching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwise.decoding.hypothesis import Hypothesis
from headwise.errors import UsageError
from headwise.inspection.arguments import check_length, require_text
from headwise.inspection.inspected.encoder_decoder import InspectedEncoderDecoder
from headwise.inspection.patching import Patching, patch_activations
from headwise.text.vocabulary import END


class InspectedTranslator(InspectedEncoderDecoder):
    """A model of translation."""

    def source(self, text: str) -> list[int]:
        """Return the tokens of a text, with placeholders for what is copied."""
        (source,), _ = self._encode_masked(text)
        check_length(source, "the text")
        return source

    def text_of(self, text: str, hypothesis: Hypothesis) -> str:
        """Return the translation, with what its placeholders stand for."""
        _, (copied,) = self._encode_masked(text)
        return self.task.decode(hypothesis, copied)

    def patch(self, text: str, donor: str, target: str, other: str) -> Patching:
        """Return which activations carry the difference between two texts."""
        texts = {"text": text, "donor": donor, "target": target, "other target": other}
        for name, each in texts.items():
            require_text(each, f"the {name}")
        source, given = ([*self.source(each), END] for each in (text, donor))
        prefix, answers = self._answers(target, other)
        receiver, giver, heads, layers = patch_activations(
            self.model,
            source,
            given,
            prefix,
            answers,
            check_stop=self.task.check_stop,
        )
        tokenizers = self.task.tokenizers
        pair = self.make_pair(text, source[:-1], prefix)
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

    def token_pairs(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> list[tuple[Any, list[int]]]:
        """Return lines and their translations as they stand, without placeholders."""
        encoded = self.task.encode(sources)
        target = self.task.tokenizers.target
        return [
            (source, target.encode(text))
            for source, text in zip(encoded, targets, strict=True)
        ]

    def _encode_masked(
        self, text: str
    ) -> tuple[list[list[int]], list[tuple[str, ...]]]:
        return self.task.encode_masked([text], self.decoding)

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
