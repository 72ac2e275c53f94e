"""Parsers: words, and the tree over them that the grammar lets the search write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inspection.inspected.encoder_decoder import InspectedEncoderDecoder
from headwise.inspection.output import Output
from headwise.inspection.token_pair import TokenPair
from headwise.tasks import TASKS
from headwise.text.trees import parse_tree, split_words


class InspectedParser(InspectedEncoderDecoder):
    """A parser; probabilities are the model's own, before the grammar."""

    refusals: ClassVar = {
        "patch": "it is about two outputs that differ in a word, and a tree has the "
        "words of its input"
    }

    task: Any

    def target(self, text: str, target: str) -> list[int]:
        """Return the tokens of a tree; raise ``DataError`` for one over other words."""
        encode = TASKS[self.task.name].pair_format.encode
        return encode(self.task.tokenizers, text, target)[1]

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return words and their tree, which is ``target`` or that of the search."""
        pair = super().pair(text, target, prefix, search)
        if target is not None:
            return replace(pair, tree=str(parse_tree(target)))
        tree = self.task.tree(pair.target[:-1], split_words(text))
        return replace(pair, tree=str(tree))

    def output(self, pair: TokenPair, count: int) -> Output:
        """Return the probability of each bracket and word."""
        found = super().output(pair, count)
        return replace(found, text=pair.tree or found.text)

    def search(
        self,
        text: str,
        prefix: str,
        settings: DecodingSettings,
        on_beam_step: OnBeamStep | None = None,
    ) -> list[Hypothesis]:
        """Return the trees of the constrained search, best first."""
        if prefix:
            raise UsageError(
                "the output of a parser is a tree over the words of its input, whose "
                "beginning cannot be forced; give a whole tree as the target"
            )
        generator = replace(self._generator(), on_beam_step=on_beam_step)
        found: list[list[Hypothesis]] = self.task.search_trees(
            generator, [split_words(text)], settings
        )
        return found[0]

    def text_of(self, text: str, hypothesis: Hypothesis) -> str:
        """Return the tree in brackets, over the words of the text."""
        return str(self.task.tree(hypothesis.tokens, split_words(text)))
