"""The settings of a search. A search is named whole: no rule is left unsaid."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from headwise.decoding.length import (
    LENGTH_PENALTIES,
    REWARDS,
    LengthPenalty,
    max_length,
)
from headwise.decoding.stopping import STOPPING, outputs_to_finish
from headwise.decoding.warning_settings import WarningSettings
from headwise.errors import SettingsError
from headwise.wording import count_of

SearchName = Literal["beam", "diverse-beam", "sampling"]
Choice = Literal["score", "chrf", "bleu"]
Average = Literal["probabilities", "log-probabilities"]

ALIGNMENT_HEAD = re.compile(r"average|(\d{1,3}):(\d{1,3})(\+1)?")
"""A block, a head, and whether the look of one step later counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingSettings:
    """A beam search; the defaults mean the same in CTranslate2 and Hugging Face.

    ``docs/decoding.md`` has the formula and the owner of each setting.
    """

    search: SearchName = "beam"
    """Keep the best, keep the best of several groups, or draw by chance."""

    beam: int = 4
    """Hypotheses kept alive for each sentence; 1 is greedy search."""

    length_penalty: Literal["n^alpha", "gnmt", "none", "word-reward"] = "n^alpha"
    """What a total log probability is divided by; gnmt is the paper's."""

    alpha: float = 1.0
    """Strength of the length penalty: 0 for none, more favours longer outputs."""

    coverage: float = 0.0
    """Strength (beta) of the coverage penalty on sources not looked at; 0 for none."""

    stopping: Literal["first-k", "exact", "never"] = "first-k"
    """End a sentence at ``beam`` hypotheses, or when none can become better."""

    patience: float = 2.0
    """With first-k: end at ``beam * patience`` hypotheses. With 1 a sure model ends
    some sentences too early: it fills the count with improbable early ends."""

    max_length_factor: float = 2.0
    """Tokens that an output may have for each source token, both without END."""

    max_length_offset: int = 10
    """Tokens that an output may have on top of that, END among them."""

    min_length_factor: float = 0.0
    """Tokens that an output must have for each source token, both without END."""

    min_length_offset: int = 0
    """Tokens that an output must have on top of that, END not among them."""

    num_best: int = 1
    """Hypotheses returned for each sentence, best first: at most ``beam``."""

    groups: int = 2
    """With diverse-beam: groups that share the beam in equal parts."""

    diversity: float = 0.5
    """With diverse-beam: what a token costs for each time that an earlier group has
    just written it, in nats."""

    samples: int = 1
    """With sampling: outputs drawn for each sentence."""

    temperature: float = 1.0
    """With sampling: divides ln p before drawing; less than 1 favours the likely."""

    top_k: int = 0
    """With sampling: draw among the k most probable tokens only; 0 for all."""

    top_p: float = 1.0
    """With sampling: draw among the most probable that together have this much."""

    epsilon: float = 0.0
    """With sampling: never draw a token less probable than this."""

    seed: int = 0
    """With sampling: which samples; a sentence's depend on nothing but it and this."""

    choose: Choice = "score"
    """Rank what was found by its score, or by its expected likeness to the rest."""

    banned: tuple[str, ...] = ()
    """Words and sequences of words that no output holds."""

    no_repeat_ngram: int = 0
    """No sequence of so many tokens comes twice in an output; 0 for no such rule."""

    repetition_penalty: float = 1.0
    """Multiplies ln p of what was written before: more than 1 discourages it."""

    suppress_unknown: bool = False
    """Never write the token for what the vocabulary lacks."""

    replace_unknown: bool = False
    """Put the aligned source word where the token for the unknown is written."""

    alignments: bool = False
    """Return which source word each word of the output comes from."""

    alignment_head: str = "average"
    """Whose attention is believed: a block and a head of it, such as 3:5, or all."""

    scores: bool = True
    """Return how probable each output is; without, a search that can do without saves
    the softmax over the vocabulary, and what it does not know is NaN."""

    token_scores: bool = False
    """Return ln p of each token."""

    ensemble: Average = "probabilities"
    """What is averaged where several models search together."""

    warnings: WarningSettings = field(default_factory=WarningSettings)
    """When a result comes with a warning."""

    def __post_init__(self) -> None:
        problems = [
            *self._too_small(),
            *self._unfit(),
            *self._not_of_a_list(),
            *self._too_large(),
        ] or [*self._too_costly()]
        if problems:
            raise SettingsError(problems)

    def _too_small(self) -> Iterator[str]:
        for least, names in _LEAST.items():
            for name in names:
                if getattr(self, name) < least:
                    yield f"{name} must be {least} or more, not {getattr(self, name)}"
        if max(self.num_candidates, 1) < self.num_best <= MOST_OUTPUTS:
            name = "samples" if self.search == "sampling" else "beam"
            yield (
                f"num_best must be at most {name}={self.num_candidates}, not "
                f"{self.num_best}; {name}={self.num_best} would allow it"
            )
        for name in _NOT_NEGATIVE:
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                yield (
                    f"{name} must be a finite number, 0 or more, "
                    f"not {getattr(self, name)}"
                )

    def _unfit(self) -> Iterator[str]:
        for name in ("patience", "temperature", "repetition_penalty"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                yield f"{name} must be a finite number above 0, not {value}"
        if 0 < self.temperature < LEAST_TEMPERATURE:
            yield (
                f"temperature must be {LEAST_TEMPERATURE} or more, not "
                f"{self.temperature}: only the likeliest token would be drawn, which "
                "search = 'beam' with beam = 1 takes"
            )
        if not 0 < self.top_p <= 1:
            yield f"top_p must be above 0 and at most 1, not {self.top_p}"
        if self.epsilon >= 1:
            yield f"epsilon must be less than 1, not {self.epsilon}"
        if self.min_length_factor > self.max_length_factor:
            yield (
                f"min_length_factor must be at most max_length_factor="
                f"{self.max_length_factor}, not {self.min_length_factor}"
            )
        if self.min_length_offset >= self.max_length_offset >= 1:
            yield (
                f"min_length_offset must be less than max_length_offset="
                f"{self.max_length_offset}, which counts END, "
                f"not {self.min_length_offset}"
            )
        if self.search == "diverse-beam" and self.groups >= 1:
            if self.beam % self.groups:
                yield (
                    f"beam must be a multiple of groups={self.groups}, "
                    f"not {self.beam}; {self.groups * (1 + self.beam // self.groups)} "
                    "would be"
                )
            if self.coverage:
                yield "coverage is for search = 'beam', not 'diverse-beam'; 0.0 is none"
        if not ALIGNMENT_HEAD.fullmatch(self.alignment_head):
            yield (
                "alignment_head must be 'average', or a block and a head counted from "
                f"0, such as '3:5', not {self.alignment_head!r}"
            )
        if any(not phrase.strip() for phrase in self.banned):
            yield "banned must hold words; one of them is empty"

    def _too_large(self) -> Iterator[str]:
        for name, (most, why) in _MOST.items():
            value = getattr(self, name)
            if value > most and value != math.inf:
                yield f"{name} must be at most {most:,}, not {value:,}: {why}"

    def _too_costly(self) -> Iterator[str]:
        """Say what would take one sentence beyond any use of its result."""
        name = "samples" if self.search == "sampling" else "beam"
        if self.choose != "score" and self.num_candidates > MOST_COMPARED:
            yield (
                f"{name} must be at most {MOST_COMPARED} with choose = {self.choose!r},"
                f" not {self.num_candidates:,}: each output is compared with each other"
            )
        longest = self.max_length(ORDINARY_SOURCE)
        if self.num_candidates * longest > MOST_TOKENS:
            room = max(1, MOST_TOKENS // longest)
            yield (
                f"{name}={self.num_candidates:,} and outputs of up to {longest:,} "
                f"tokens (for a source of {ORDINARY_SOURCE}) are "
                f"{self.num_candidates * longest:,} tokens to write for one sentence, "
                f"and at most {MOST_TOKENS:,} are allowed; {name}={room:,} would be, "
                "or less max_length_factor or max_length_offset"
            )

    def _not_of_a_list(self) -> Iterator[str]:
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                yield (
                    f"{name} must be one of {', '.join(known)}, "
                    f"not {getattr(self, name)!r}"
                )

    def head_problems(self, blocks: int, heads: int) -> Iterator[str]:
        """Say if ``alignment_head`` is none of a decoder of so many blocks and heads.

        What else is wrong with it was said when the settings were made.
        """
        named = ALIGNMENT_HEAD.fullmatch(self.alignment_head)
        if named is None or named[1] is None:
            return
        if int(named[1]) >= blocks or int(named[2]) >= heads:
            yield (
                f"alignment_head = {self.alignment_head!r}, but this model has "
                f"{count_of(blocks, 'decoder block')} of {count_of(heads, 'head')}, "
                f"counted from 0: '{blocks - 1}:{heads - 1}' is the last, and "
                "'average' believes no single one"
            )

    def check_head(self, blocks: int, heads: int) -> None:
        """Raise a ``SettingsError`` if ``alignment_head`` is none of such a decoder."""
        if problems := [*self.head_problems(blocks, heads)]:
            raise SettingsError(problems)

    def without_effect(self, names: Iterable[str]) -> Iterator[str]:
        """Say which of the settings called ``names`` change nothing, and why."""
        for name in names:
            if name not in _ONLY_WITH:
                continue
            owner, values = _ONLY_WITH[name]
            if getattr(self, owner) not in values:
                wanted = " or ".join(f"{owner}={each}" for each in values)
                yield (
                    f"{name} changes nothing with {owner}={getattr(self, owner)}, "
                    f"only with {wanted}"
                )

    @property
    def num_candidates(self) -> int:
        """The outputs that a search comes to, of which ``num_best`` are returned."""
        return self.samples if self.search == "sampling" else self.beam

    @property
    def penalty(self) -> LengthPenalty:
        """The length penalty with its alpha filled in."""
        divisor = LENGTH_PENALTIES[self.length_penalty]
        return lambda length: divisor(length, self.alpha)

    @property
    def reward(self) -> float:
        """What is added to a score for each token."""
        return self.alpha if self.length_penalty in REWARDS else 0.0

    @property
    def outputs_to_finish(self) -> int:
        """With first-k: the finished hypotheses at which the search of one ends."""
        return outputs_to_finish(self.beam, self.patience, self.num_best)

    def score(self, total: float, length: int) -> float:
        """Return the score of an output of ``length`` tokens, END counted."""
        length = max(length, 1)
        return total / self.penalty(length) + self.reward * length

    def max_length(self, source_tokens: int) -> int:
        """Return how many tokens, END counted, a source of this length may become."""
        return max_length(
            source_tokens, factor=self.max_length_factor, offset=self.max_length_offset
        )

    def min_length(self, source_tokens: int) -> int:
        """Return how many tokens, END not counted, it must become."""
        return max_length(
            source_tokens, factor=self.min_length_factor, offset=self.min_length_offset
        )


_ONLY_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "beam": ("search", ("beam", "diverse-beam")),
    "groups": ("search", ("diverse-beam",)),
    "diversity": ("search", ("diverse-beam",)),
    "patience": ("stopping", ("first-k",)),
    **dict.fromkeys(
        ("samples", "temperature", "top_k", "top_p", "epsilon", "seed"),
        ("search", ("sampling",)),
    ),
}
"""Settings that only some searches read; the others pass them over."""

_LEAST = {
    1: ("beam", "max_length_offset", "num_best", "groups", "samples"),
    0: ("min_length_offset", "top_k", "no_repeat_ngram"),
}
_NOT_NEGATIVE = (
    *("alpha", "max_length_factor", "min_length_factor"),
    *("coverage", "diversity", "epsilon"),
)
MOST_OUTPUTS = 1000
"""Hypotheses that a search may keep alive, draw or return for a sentence."""

MOST_TOKENS = 1_000_000
"""Tokens that all hypotheses of an ordinary sentence may have together."""

ORDINARY_SOURCE = 100
"""Tokens of a source by which that is reckoned: longer ones are rare."""

MOST_COMPARED = 256
"""Outputs of a sentence that may be ranked by their likeness to one another."""

LEAST_TEMPERATURE = 0.001

_TIME = "the time of a search grows with it, and beyond some tens little else does"
_NO_END = "a search without an end would not come back"
_RANKS = "beyond it nothing but this setting would choose the words"
_MOST = {
    "beam": (MOST_OUTPUTS, _TIME),
    "samples": (MOST_OUTPUTS, "each is written in full"),
    "num_best": (MOST_OUTPUTS, "each comes from a beam or samples as many"),
    "groups": (100, "each group of a step waits for those before it"),
    "patience": (100, _NO_END),
    "max_length_factor": (100, _NO_END),
    "max_length_offset": (10**4, _NO_END),
    "alpha": (10, "lengths to a higher power leave the numbers of a computer"),
    "coverage": (100, _RANKS),
    "diversity": (1000, _RANKS),
    "repetition_penalty": (100, _RANKS),
    "temperature": (1000, "all tokens would be equally likely"),
}
"""The most that one sentence may cost or be bent by, and why."""

_KNOWN: dict[str, Any] = {
    "search": get_args(SearchName),
    "length_penalty": LENGTH_PENALTIES,
    "stopping": STOPPING,
    "choose": get_args(Choice),
    "ensemble": get_args(Average),
}


def greedy() -> DecodingSettings:
    """Return the search that takes the most probable token each time."""
    return DecodingSettings(beam=1)


def paper() -> DecodingSettings:
    """Return Section 6.1: beam 4, alpha 0.6, outputs up to the source + 50."""
    return DecodingSettings(
        beam=4,
        length_penalty="gnmt",
        alpha=0.6,
        stopping="exact",
        max_length_factor=1.0,
        max_length_offset=50,
    )


PRESETS = {"default": DecodingSettings, "greedy": greedy, "paper": paper}
