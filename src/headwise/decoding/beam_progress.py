"""What a beam search knows of its sentences, whatever its steps are made of.

Needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.decoding.argument_checks import no_token_allowed
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length_penalty import LengthPenalty, best_possible_score
from headwise.decoding.stopping import StoppingRule

if TYPE_CHECKING:
    from headwise.decoding.beam_step_report import OnBeamStep
    from headwise.decoding.coverage import Coverage
    from headwise.decoding.rule_context import Rule


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """The arguments of a search; ``beam`` and ``num_best`` are those of one group."""

    end: int
    beam: int
    num_best: int
    penalty: LengthPenalty
    reward: float
    stopping: StoppingRule
    patience: float
    max_lengths: Sequence[int]
    forbidden: tuple[int, ...]
    rules: tuple[Rule, ...] = ()
    coverage: Coverage | None = None
    token_scores: bool = False
    on_step: OnBeamStep | None = None

    @property
    def num_continuations(self) -> int:
        """Continuations of each sentence: enough even if half of them end."""
        return 2 * self.beam


class BeamProgress:
    """The completed hypotheses of all sentences, and the sentences still searched."""

    def __init__(self, options: BeamOptions, num_sentences: int) -> None:
        self.options = options
        self.completed: list[list[Hypothesis]] = [[] for _ in range(num_sentences)]
        self.sentences = list(range(num_sentences))
        """Those still searched."""
        self.length = 0
        """Tokens of the hypotheses that are alive."""

    def _is_done(self, index: int, best_total: float, limit: int) -> bool:
        """Return whether the search of the sentence at ``index`` may end."""
        options = self.options
        scores = [each.score for each in self.completed[self.sentences[index]]]
        if best_total == -math.inf:
            if not scores:
                raise no_token_allowed()
            return True
        best_possible = best_possible_score(
            best_total, self.length, limit, options.penalty, options.reward
        )
        return self.length == limit or options.stopping(
            scores,
            best_possible,
            beam=options.beam,
            num_best=options.num_best,
            patience=options.patience,
        )


def best_first(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Sort hypotheses by their score, equal ones as they were found."""
    return sorted(hypotheses, key=lambda each: each.score, reverse=True)
