"""Constituency parsing, without torch: words into the tree of their phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.model.config import TransformerConfig
from headwise.tasks.parsing.settings import ParsingSettings
from headwise.tasks.spec import stack_problems
from headwise.tasks.translation.spec import TranslationSpec
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from headwise.tasks.parsing.task import Parsing
    from headwise.text.tokenizer import TokenizerPair


class ParsingSpec(TranslationSpec):
    """Words into a tree, by the model of translation and with its loss.

    See :class:`headwise.tasks.spec.TaskSpec`.
    """

    name = "parsing"
    summary = "words into the constituency tree of the sentence"
    command = "predict"
    hub_task = "text2text-generation"
    pair_format: pair_formats.PairFormat = pair_formats.TREES
    defaults: Mapping[str, Any] = {
        "text": {"joint": False, "target_tokenizer": "trees"},
        "model": {"tie_embeddings": "output"},
        "training": {"measure": "bracket-f1"},
        "decoding": {
            "length_penalty": "gnmt",
            "alpha": 0.3,
            "stopping": "exact",
            "max_length_factor": 1.0,
            "max_length_offset": 300,
        },
    }
    measures: tuple[str, ...] = ("bracket-f1", "complete-match")
    final_measures: tuple[str, ...] = ("bracket-f1", "complete-match")
    options: type | None = ParsingSettings

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        problems = stack_problems(config, self.stacks, self.kinds)
        if text.joint or text.target_kind != "trees":
            problems.append(
                "task = 'parsing' needs text.joint = false and text.target_tokenizer = "
                "'trees', which are its defaults: leave both out"
            )
        if config.tie_embeddings == "all":
            problems.append(
                "model.tie_embeddings = 'all' needs one vocabulary for both sides, "
                "and trees have one of their own: set it to 'output' or 'none'"
            )
        return problems

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Parsing:
        """Return the task, which needs torch."""
        from headwise.tasks.parsing.task import Parsing

        return Parsing(
            tokenizers,
            deterministic=deterministic,
            settings=options or ParsingSettings(),
        )
