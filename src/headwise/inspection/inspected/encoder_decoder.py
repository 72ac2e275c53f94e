"""Models with an encoder and a decoder: translation, and what searches as it does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.inspection.arguments import check_length, require_text
from headwise.inspection.attention import (
    Attention,
    attention_to_source,
    heads_to_source,
)
from headwise.inspection.attribution import AttributedOutput, target_of_transformer
from headwise.inspection.beam_tree import BeamTree, beam_tree
from headwise.inspection.comparison import Answer, FoundOutput
from headwise.inspection.head_ranking import References, references_of_pairs
from headwise.inspection.inspected.base import InspectedModel
from headwise.inspection.logit_lens import LogitLens, logit_lens
from headwise.inspection.output import Output, output_of
from headwise.inspection.places import Head
from headwise.inspection.token_pair import TokenPair, make_pair
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.tasks.translation.generator import Generator
from headwise.tasks.translation.task import Translation

OF_TRANSFORMERS = {
    "attribution": "it hides tokens from attention, but {model} reads them all",
    "word": "queries and keys are of multi-head attention, and {model} has none",
    "lens": "it reads the output off each block of a Transformer, and {model} has none",
    "patch": "it patches heads and blocks of a Transformer, and {model} has none",
}
"""View -> why there is none of another kind of model (``model.kind``)."""


class InspectedEncoderDecoder(InspectedModel):
    """A source, and a target that is searched for."""

    task: Translation

    def why_not(self, view: str) -> str | None:
        """Return why a view makes no sense; some need a Transformer."""
        config: TransformerConfig = self.model.config
        model = f"a model of kind {config.kind!r}"
        if config.kind != "transformer" and view in OF_TRANSFORMERS:
            return OF_TRANSFORMERS[view].format(model=model)
        if view == "attention" and not heads_to_source(config):
            return f"{model} and recurrent_attention = 'none' has no attention"
        return super().why_not(view)

    def source(self, text: str) -> Any:
        """Return the tokens of a source without END, or the patches of a picture."""
        (source,) = self.task.encode([text])
        check_length(source, "the text")
        return source

    def target(self, text: str, target: str) -> list[int]:
        """Return the tokens of a target without END, which is given."""
        tokens = self.task.tokenizers.target.encode(target)
        check_length(tokens, "the target")
        return tokens

    def make_pair(self, text: str, source: Any, target: Sequence[int]) -> TokenPair:
        """Return both sides as the model reads them."""
        return make_pair(self.task.tokenizers, source, target)

    def search(
        self,
        text: str,
        prefix: str,
        settings: DecodingSettings,
        on_beam_step: OnBeamStep | None = None,
    ) -> list[Hypothesis]:
        """Return the hypotheses of the search of one text, best first."""
        generator = replace(self._generator(), on_beam_step=on_beam_step)
        prefixes: list[Prefix] | None = [self.task.prefix(prefix)] if prefix else None
        (found,) = generator.search([self.source(text)], settings, prefixes)
        return found

    def text_of(self, text: str, hypothesis: Hypothesis) -> str:
        """Return the output that a hypothesis for ``text`` is."""
        return self.task.decode(hypothesis)

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return a source with ``target``, or with the best output of the search."""
        source = self.source(text)
        if target is not None:
            require_text(target, "the target")
            return self.make_pair(text, source, self.target(text, target))
        best, *_ = self.search(text, prefix, self.settings({**search, "num_best": 1}))
        return self.make_pair(text, source, best.tokens)

    def output(self, pair: TokenPair, count: int) -> Output:
        """Return the probability of each token of the target."""
        return output_of(self.model, pair, self.task.tokenizers.target, count=count)

    def attributed(self, pair: TokenPair) -> AttributedOutput:
        """Return ln p of each target token as a function of the source."""
        return target_of_transformer(self.model, pair)

    def attention(
        self,
        pair: TokenPair,
        *,
        heads: Collection[Head] | None,
        norms: bool,
        rollout: bool,
    ) -> Attention:
        """Return the attention weights, for other kinds those to the source."""
        if not isinstance(self.model, Transformer):
            return attention_to_source(self.model, pair, heads=heads)
        return super().attention(pair, heads=heads, norms=norms, rollout=rollout)

    def beam(self, text: str, prefix: str, search: Mapping[str, Any]) -> BeamTree:
        """Return what the beam search of a text did."""
        settings = self.settings(search)
        pieces = self.make_pair(text, self.source(text), []).source_pieces
        return beam_tree(
            lambda on_step: self.search(text, prefix, settings, on_step),
            settings,
            source=pieces,
            target=self.task.tokenizers.target,
            text_of=lambda hypothesis: self.text_of(text, hypothesis),
        )

    def lens(self, pair: TokenPair, count: int) -> LogitLens:
        """Return what each layer of the decoder would say."""
        return logit_lens(self.model, pair, self.task.tokenizers.target, count=count)

    def answers(
        self, text: str, prefix: str, search: Mapping[str, Any]
    ) -> list[Answer]:
        """Return the outputs of the search of a text."""
        found = self.search(text, prefix, self.settings(search))
        return [
            Answer(
                FoundOutput(self.text_of(text, each), each.score, each.log_probability),
                each.tokens,
            )
            for each in found
        ]

    def log_probability(self, text: str, answer: Answer) -> float | None:
        """Return ln p of the tokens of an answer, as the model is now."""
        pairs = [(self.source(text), answer.tokens)]
        (scored,) = self._generator().scorer.score(pairs, self.decoding)
        return scored.log_probability

    def token_pairs(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> list[tuple[Any, list[int]]]:
        """Return sources and their targets as tokens without END."""
        return [
            (self.source(source), self.target(source, target))
            for source, target in zip(sources, targets, strict=True)
        ]

    def references(self, sources: Sequence[str], targets: Sequence[str]) -> References:
        """Return the targets of sources as references."""
        return references_of_pairs(self.model, self.token_pairs(sources, targets))

    def _generator(self) -> Generator:
        return self.task.generator(self.model)
