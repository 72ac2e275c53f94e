"""The parsing task: translation into linearized trees, which a grammar constrains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from headwise.data.pair_formats import word_tokens
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.rule_context import Rule
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.model.config import TransformerConfig
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.tasks.description import ModelDescription
from headwise.tasks.parsing.grammar_rule import TOKENS_AROUND, GrammarRule
from headwise.tasks.parsing.settings import ParsingSettings
from headwise.tasks.prediction import Prediction
from headwise.tasks.translation.generator import Generator
from headwise.tasks.translation.task import Translation
from headwise.text.linearized_trees import WORD, parse_linearized
from headwise.text.tree_grammar import CLOSE, OPEN
from headwise.text.tree_tokenizer import TreeTokenizer
from headwise.text.trees import Tree, escape_brackets, split_words

GREEDY = replace(greedy(), max_length_factor=1.0, max_length_offset=300)
"""Greedy search with the length limit of Section 6.3: the input + 300."""


@dataclass(frozen=True)
class Parsing(Translation):
    """Trains and uses parsers of words; a model is one of translation.

    An output is a tree over exactly the words of its input, in brackets. It has the
    tag ``XX`` for each word, as tags are not predicted.
    """

    default_search: DecodingSettings = GREEDY
    settings: ParsingSettings = field(default_factory=ParsingSettings)

    name = "parsing"
    always_measured = ("bracket-f1",)

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        return replace(super().describe(config), options=self.settings)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts word by word, without END."""
        return [
            [
                token
                for tokens in word_tokens(self.tokenizers, split_words(text))
                for token in tokens
            ]
            for text in texts
        ]

    def parse(
        self,
        model: EncoderDecoder,
        sentences: Sequence[Sequence[str]],
        decoding: DecodingSettings | None = None,
    ) -> list[tuple[Tree, Hypothesis]]:
        """Return the best tree of each sentence of one word or more."""
        found = self.search_trees(self.generator(model), sentences, decoding)
        return [
            (self.tree(best.tokens, words), best)
            for words, (best, *_) in zip(sentences, found, strict=True)
        ]

    def search_trees(
        self,
        generator: Generator,
        sentences: Sequence[Sequence[str]],
        decoding: DecodingSettings | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, as the grammar allows."""
        sources = self.encode([" ".join(words) for words in sentences])
        settings = [
            _with_room(decoding or self.default_search, len(source), len(words))
            for source, words in zip(sources, sentences, strict=True)
        ]
        pieces = self.tokenizers.target.pieces(range(self.tokenizers.target.size))

        def rules_of(batch: Sequence[int]) -> list[Rule]:
            rule = GrammarRule(
                pieces,
                words=[self._word_ids(sentences[n]) for n in batch],
                max_lengths=[settings[n].max_length(len(sources[n])) for n in batch],
                max_unary=self.settings.max_unary,
            )
            return [rule]

        return generator.search(sources, settings, rules_of=rules_of)

    def _word_ids(self, words: Sequence[str]) -> list[int]:
        """Return the target token of each word."""
        target = cast(TreeTokenizer, self.tokenizers.target)
        return [target.word_id(escape_brackets(word)) for word in words]

    def tree(self, tokens: Sequence[int], words: Sequence[str]) -> Tree:
        """Return the tree over ``words`` that the tokens of a hypothesis are."""
        pieces = [
            piece if piece.startswith((OPEN, CLOSE)) else WORD
            for piece in self.tokenizers.target.pieces(tokens)
        ]
        return parse_linearized(pieces, [escape_brackets(word) for word in words])

    def predictions(
        self,
        model: EncoderDecoder,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the best tree of each text with its log-probability.

        A blank text has a blank output.
        """
        found = iter(
            self.parse(
                model, [split_words(text) for text in texts if text.strip()], decoding
            )
        )
        blank = Prediction(output="", log_probability=0.0)
        results = []
        for text in texts:
            if not text.strip():
                results.append(blank)
                continue
            tree, best = next(found)
            results.append(
                Prediction(output=str(tree), log_probability=best.log_probability)
            )
        return results


def _with_room(
    settings: DecodingSettings, source_tokens: int, num_words: int
) -> DecodingSettings:
    """Return the settings with a length limit that the shortest tree is within."""
    missing = num_words + TOKENS_AROUND - settings.max_length(source_tokens)
    if missing <= 0:
        return settings
    offset = settings.max_length_offset + missing
    return replace(settings, max_length_offset=offset)
