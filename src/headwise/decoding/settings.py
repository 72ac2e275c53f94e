"""The settings of a search: every rule that can change its outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from headwise.decoding.length_penalty import (
    LENGTH_PENALTIES,
    REWARDS,
    LengthPenalty,
    max_length,
)
from headwise.decoding.setting_limits import (
    EFFECTIVE_WITH,
    MAX_COMPARED,
    MAX_HYPOTHESES,
    MAX_TOKENS,
    MAXIMUM,
    MIN_TEMPERATURE,
    MINIMUM,
    NOT_NEGATIVE,
    TYPICAL_SOURCE,
)
from headwise.decoding.stopping import STOPPING, outputs_to_finish
from headwise.decoding.warning_settings import WarningSettings
from headwise.errors import SettingsError
from headwise.wording import count_of

SearchName = Literal["beam", "diverse-beam", "sampling"]
Choice = Literal["score", "chrf", "bleu"]
Average = Literal["probabilities", "log-probabilities"]

ALIGNMENT_HEAD = re.compile(r"average|(\d{1,3}):(\d{1,3})(\+1)?")
"""A block, a head, and whether the attention of one step later is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingSettings:
    """The settings of a search; by default a beam search as in CTranslate2.

    ``docs/decoding.md`` has the formula and the reference of each setting.
    """

    search: SearchName = "beam"
    """Beam search, diverse beam search, or sampling."""

    beam: int = 4
    """Hypotheses kept alive for each sentence; 1 is greedy search."""

    length_penalty: Literal["n^alpha", "gnmt", "none", "word-reward"] = "n^alpha"
    """What a total log probability is divided by; gnmt is the paper's."""

    alpha: float = 1.0
    """Strength of the length penalty: 0 for none, higher favours longer outputs."""

    coverage: float = 0.0
    """Strength (beta) of the penalty on source tokens not attended to; 0 for none."""

    stopping: Literal["first-k", "exact", "never"] = "first-k"
    """End a sentence at ``beam * patience`` hypotheses, or when none can improve."""

    patience: float = 2.0
    """With first-k: end at ``beam * patience`` completed hypotheses. With 1 a confident
    model ends some sentences too early: improbable early ends fill the count."""

    max_length_factor: float = 2.0
    """Most output tokens per source token, both without END."""

    max_length_offset: int = 10
    """Added to that, END counted."""

    min_length_factor: float = 0.0
    """Least output tokens per source token, both without END."""

    min_length_offset: int = 0
    """Added to that, END not counted."""

    num_best: int = 1
    """Hypotheses returned for each sentence, best first: at most ``beam``."""

    groups: int = 2
    """With diverse-beam: groups that share the beam in equal parts."""

    diversity: float = 0.5
    """With diverse-beam: the penalty of a token, in nats, for each hypothesis of an
    earlier group that chose it in the same step."""

    samples: int = 1
    """With sampling: samples of each sentence."""

    temperature: float = 1.0
    """With sampling: divides ln p; less than 1 favours probable tokens."""

    top_k: int = 0
    """With sampling: sample among the k most probable tokens only; 0 for all."""

    top_p: float = 1.0
    """With sampling: sample among the fewest tokens that sum to this probability."""

    epsilon: float = 0.0
    """With sampling: never sample a token less probable than this."""

    seed: int = 0
    """With sampling: random seed; samples depend on it and their source only."""

    choose: Choice = "score"
    """Rank by score, or by expected utility (minimum Bayes risk, Kumar and Byrne
    2004)."""

    banned: tuple[str, ...] = ()
    """Words and phrases that no output may contain."""

    no_repeat_ngram: int = 0
    """Size of the n-grams that an output may not repeat; 0 for no such rule."""

    repetition_penalty: float = 1.0
    """Multiplies ln p of tokens that the output has already; above 1 discourages."""

    suppress_unknown: bool = False
    """Never output the unknown token."""

    replace_unknown: bool = False
    """Replace the unknown token with the source word it is aligned to."""

    split_sentences: bool | None = None
    """Translate each sentence of a line by itself, except where n-best lists, token
    scores or alignments are asked for. Not set: when a model is stored, it is set if
    less than 5% of the training sources have several sentences."""

    recase: bool = False
    """Translate a sentence in capitals, or with one at the start of each word, in small
    letters; the output of the former is put into capitals. Not where a prefix is
    given."""

    copy_numbers: bool = False
    """Copy numbers of two or more digits or with a sign, such as 2024, 3:30, 1,000.50,
    5 €, as they stand, with a model that was trained with ``text.placeholders``."""

    copy_names: bool = False
    """Copy names that the training text does not have, with such a model. Where nouns
    have capitals, only those with a capital after the first letter, such as NASA."""

    alignments: bool = False
    """Return word alignments between source and output."""

    alignment_head: str = "average"
    """The attention that aligns: a block and head, such as 3:5, or the average."""

    scores: bool = True
    """Return scores and log probabilities. If off, a search that does not need them
    saves the softmax over the vocabulary, and they are NaN."""

    token_scores: bool = False
    """Return ln p of each token."""

    ensemble: Average = "probabilities"
    """What an ensemble averages."""

    warnings: WarningSettings = field(default_factory=WarningSettings)
    """The thresholds of the warnings."""

    def __post_init__(self) -> None:
        problems = [
            *self._below_minimum(),
            *self._out_of_range(),
            *self._unknown_choices(),
            *self._above_maximum(),
        ] or [*self._too_expensive()]
        if problems:
            raise SettingsError(problems)

    def _below_minimum(self) -> Iterator[str]:
        for least, names in MINIMUM.items():
            for name in names:
                if getattr(self, name) < least:
                    yield f"{name} must be {least} or more, not {getattr(self, name)}"
        if max(self.num_candidates, 1) < self.num_best <= MAX_HYPOTHESES:
            name = "samples" if self.search == "sampling" else "beam"
            yield (
                f"num_best must be at most {name}={self.num_candidates}, not "
                f"{self.num_best}; {name}={self.num_best} would allow it"
            )
        for name in NOT_NEGATIVE:
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                yield (
                    f"{name} must be a finite number, 0 or more, "
                    f"not {getattr(self, name)}"
                )

    def _out_of_range(self) -> Iterator[str]:
        for name in ("patience", "temperature", "repetition_penalty"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                yield f"{name} must be a finite number above 0, not {value}"
        if 0 < self.temperature < MIN_TEMPERATURE:
            yield (
                f"temperature must be {MIN_TEMPERATURE} or more, not "
                f"{self.temperature}: that would be greedy search, which is "
                "search = 'beam' with beam = 1"
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

    def _above_maximum(self) -> Iterator[str]:
        for name, (most, why) in MAXIMUM.items():
            value = getattr(self, name)
            if value > most and value != math.inf:
                yield f"{name} must be at most {most:,}, not {value:,}: {why}"

    def _too_expensive(self) -> Iterator[str]:
        """Yield the problems of settings that make one sentence too expensive."""
        name = "samples" if self.search == "sampling" else "beam"
        if self.choose != "score" and self.num_candidates > MAX_COMPARED:
            yield (
                f"{name} must be at most {MAX_COMPARED} with choose = {self.choose!r},"
                f" not {self.num_candidates:,}: each output is compared with each other"
            )
        longest = self.max_length(TYPICAL_SOURCE)
        if self.num_candidates * longest > MAX_TOKENS:
            room = max(1, MAX_TOKENS // longest)
            yield (
                f"{name}={self.num_candidates:,} and outputs of up to {longest:,} "
                f"tokens (for a source of {TYPICAL_SOURCE}) are "
                f"{self.num_candidates * longest:,} tokens for one sentence, "
                f"and at most {MAX_TOKENS:,} are allowed; {name}={room:,} would be, "
                "or less max_length_factor or max_length_offset"
            )

    def _unknown_choices(self) -> Iterator[str]:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                yield (
                    f"{name} must be one of {', '.join(known)}, "
                    f"not {getattr(self, name)!r}"
                )

    def head_problems(self, blocks: int, heads: int) -> Iterator[str]:
        """Yield a problem if ``alignment_head`` is not in a decoder of this size.

        Its syntax was checked when the settings were made. With 0 blocks of attention,
        one for each setting that needs it.
        """
        if not blocks:
            needing = ("coverage", "alignments", "replace_unknown")
            yield from (
                f"{name} = {getattr(self, name)!r} needs attention to the source, and "
                "this model has none (model.recurrent_attention = 'none'); leave it out"
                for name in needing
                if getattr(self, name)
            )
            return
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
        """Raise a ``SettingsError`` if ``alignment_head`` is not in such a decoder."""
        if problems := [*self.head_problems(blocks, heads)]:
            raise SettingsError(problems)

    def without_effect(self, names: Iterable[str]) -> Iterator[str]:
        """Yield a message for each of the settings ``names`` that has no effect."""
        for name in names:
            for owner, values in EFFECTIVE_WITH.get(name, {}).items():
                value = getattr(self, owner)
                if value not in values:
                    yield (
                        f"{name} changes nothing with {owner}={value}, only with "
                        f"{_any_of(owner, values)}"
                    )
                    break

    @property
    def num_candidates(self) -> int:
        """The hypotheses of a search, of which ``num_best`` are returned."""
        return self.samples if self.search == "sampling" else self.beam

    @property
    def penalty(self) -> LengthPenalty:
        """The length penalty with its alpha filled in."""
        divisor = LENGTH_PENALTIES[self.length_penalty]
        return lambda length: divisor(length, self.alpha)

    @property
    def reward(self) -> float:
        """The reward added to a score for each token."""
        return self.alpha if self.length_penalty in REWARDS else 0.0

    @property
    def outputs_to_finish(self) -> int:
        """With first-k: the completed hypotheses at which a sentence ends."""
        return outputs_to_finish(self.beam, self.patience, self.num_best)

    def score(self, total: float, length: int) -> float:
        """Return the score of an output of ``length`` tokens, END counted."""
        length = max(length, 1)
        return total / self.penalty(length) + self.reward * length

    def max_length(self, source_tokens: int) -> int:
        """Return the most tokens, END counted, of the output for such a source."""
        return max_length(
            source_tokens, factor=self.max_length_factor, offset=self.max_length_offset
        )

    def min_length(self, source_tokens: int) -> int:
        """Return the least tokens, END not counted, of the output for such a source."""
        return max_length(
            source_tokens, factor=self.min_length_factor, offset=self.min_length_offset
        )


_CHOICES: dict[str, Any] = {
    "search": get_args(SearchName),
    "length_penalty": LENGTH_PENALTIES,
    "stopping": STOPPING,
    "choose": get_args(Choice),
    "ensemble": get_args(Average),
}


def greedy(limits: DecodingSettings | None = None) -> DecodingSettings:
    """Return the settings of greedy search, with the length limits of ``limits``."""
    if limits is None:
        return DecodingSettings(beam=1)
    return DecodingSettings(
        beam=1,
        max_length_factor=limits.max_length_factor,
        max_length_offset=limits.max_length_offset,
        min_length_factor=limits.min_length_factor,
        min_length_offset=limits.min_length_offset,
    )


def paper() -> DecodingSettings:
    """Return Section 6.1: beam 4, alpha 0.6, output length up to the source + 50."""
    return DecodingSettings(
        beam=4,
        length_penalty="gnmt",
        alpha=0.6,
        stopping="exact",
        max_length_factor=1.0,
        max_length_offset=50,
    )


PRESETS = {"default": DecodingSettings, "greedy": greedy, "paper": paper}


def _any_of(name: str, values: Sequence[str | int]) -> str:
    """Return in words that a setting has one of ``values``."""
    if isinstance(values, range):
        return f"{name}={values.start} or more"
    return " or ".join(f"{name}={each}" for each in values)
