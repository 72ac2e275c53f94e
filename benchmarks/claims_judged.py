"""The claims that ``claims.py`` decides, each with the rule by which it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Literal

import claims_brackets as brackets
import claims_recurrence as recurrence
import claims_transformer as transformer

from headwise.metrics.paired_difference import paired_difference, t_quantile
from headwise.model.positions import sinusoids

Table = dict[str, Any]
Trials = Mapping[str, Sequence[Table]]
"""Choice -> its trials, all with the same seeds in the same order."""

Verdict = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True)
class Claim:
    """What is said, and how it is decided."""

    text: str
    said_by: str
    """Explanations by their number in docs/references.md, or a part of the paper."""

    choices: Mapping[str, Table]
    trial: Callable[[Table, int, bool], Table]
    """Choice, seed, whether it is a rehearsal -> figures."""

    judge: Callable[[Trials], Table]
    rule: str
    seeds: tuple[int, ...]
    settings: Table
    """Besides the choices: a trial with others is another trial."""


def mean_of(trials: Sequence[Table], *path: str) -> float:
    """Return the mean of a figure over trials."""
    return fmean(figures(trials, *path))


def figures(trials: Sequence[Table], *path: str) -> list[float]:
    """Return a figure of each trial."""
    found = []
    for value in trials:
        inner: Any = value
        for name in path:
            inner = inner[name]
        found.append(float(inner))
    return found


def difference(ours: Sequence[Table], theirs: Sequence[Table], *path: str) -> Table:
    """Return the mean of ``ours - theirs`` over seeds, with its 95% interval."""
    found = paired_difference(figures(ours, *path), figures(theirs, *path))
    return {"mean": found.mean, "low": found.low, "high": found.high}


def sign(found: Table) -> Verdict:
    """Judge that a difference is above 0, by its interval."""
    if found["low"] is None or found["low"] <= 0 <= found["high"]:
        return "undecided"
    return "holds" if found["low"] > 0 else "does not hold"


FAR, NEAR = str(recurrence.LONGEST), "1"
VANISHED = 1e-3
CHANCE = 1 / recurrence.SYMBOLS


def judge_recurrence(trials: Trials) -> Table:
    """Judge gradients and accuracy across 40 symbols."""
    found: Table = {}
    for choice, runs in trials.items():
        ratios = {
            when: [run[when][FAR] / max(run[when][NEAR], 1e-300) for run in runs]
            for when in ("gradient_before", "gradient_after")
        }
        found[choice] = {
            "far_to_near_before": fmean(ratios["gradient_before"]),
            "far_to_near_after": fmean(ratios["gradient_after"]),
            "accuracy": {
                str(t): mean_of(runs, "accuracy", str(t)) for t in recurrence.DISTANCES
            },
        }
    recurrent = {name: x for name, x in found.items() if "transformer" not in name}
    attentive = [x for name, x in found.items() if "transformer" in name]
    vanish = [x["far_to_near_before"] < VANISHED for x in recurrent.values()]
    forget = [x["accuracy"][FAR] < 0.5 for x in recurrent.values()]
    found["vanish_before_training"] = sum(vanish)
    found["forget"] = sum(forget)
    found["recurrent"] = len(recurrent)
    verdict: Verdict = "undecided"
    if all(x["accuracy"][FAR] > 0.9 for x in attentive):
        if all(vanish) and all(forget):
            verdict = "holds"
        elif not all(vanish) or not any(forget):
            verdict = "does not hold"
    return {**found, "verdict": verdict}


def judge_longer(trials: Trials) -> Table:
    """Judge copies of texts that are longer than those of training."""
    found: Table = {
        choice: {
            length: {
                "tokens": mean_of(runs, "by_length", length, "tokens"),
                "exact": mean_of(runs, "by_length", length, "exact"),
            }
            for length in map(str, transformer.LENGTHS)
        }
        for choice, runs in trials.items()
    }
    trained, longer = (str(transformer.TRAINED), str(2 * transformer.TRAINED))
    sinusoids = found["sinusoidal"]
    verdict: Verdict = "undecided"
    if sinusoids[trained]["tokens"] > 0.9:
        kept = sinusoids[longer]["tokens"] > 0.9
        verdict = "holds" if kept else "does not hold"
    return {**found, "verdict": verdict}


def judge_residual(trials: Trials) -> Table:
    """Judge losses without residual connections, and positions in the last layer."""
    found: Table = {
        choice: {
            "dev_loss": mean_of(runs, "dev_loss"),
            "positions_before": by_layer(runs, "positions_before"),
            "positions_after": by_layer(runs, "positions_after"),
            "positions_in_last_layer": by_layer(runs, "positions_after")[-1],
        }
        for choice, runs in trials.items()
    }
    worse = difference(trials["none"], trials["all"], "dev_loss")
    found["none_less_all"] = worse
    found["positions_less_all"] = difference(
        trials["positions, concatenated"], trials["all, concatenated"], "dev_loss"
    )
    return {**found, "verdict": sign(worse)}


def by_layer(runs: Sequence[Table], name: str) -> list[float]:
    """Return the means of lists, one value a layer."""
    return [fmean(values) for values in zip(*(run[name] for run in runs), strict=True)]


def judge_norm(trials: Trials) -> Table:
    """Judge whether varied lengths cost batch normalization more than layer norm."""
    found: Table = {
        choice: {
            "dev_loss": mean_of(runs, "dev_loss"),
            "batch_statistics": mean_of(runs, "batch_statistics"),
        }
        for choice, runs in trials.items()
    }
    gaps = {}
    for lengths in ("equal", "varied"):
        batch, layer = (trials[f"{x}, {lengths} lengths"] for x in ("batch", "layer"))
        found[f"batch_less_layer_{lengths}"] = difference(batch, layer, "dev_loss")
        gaps[lengths] = [
            one - other
            for one, other in zip(
                figures(batch, "dev_loss"), figures(layer, "dev_loss"), strict=True
            )
        ]
    more = paired_difference(gaps["varied"], gaps["equal"])
    interaction = {"mean": more.mean, "low": more.low, "high": more.high}
    return {**found, "varied_less_equal": interaction, "verdict": sign(interaction)}


def judge_tying(trials: Trials) -> Table:
    """Judge whether a tied model is surer than one with three matrices."""
    found: Table = {
        choice: {
            name: mean_of(runs, name)
            for name in ("dev_loss", "entropy", "largest_probability", "accuracy")
        }
        for choice, runs in trials.items()
    }
    for name in ("entropy", "largest_probability", "dev_loss"):
        found[f"{name}_all_less_none"] = difference(trials["all"], trials["none"], name)
    return {**found, "verdict": sign(found["largest_probability_all_less_none"])}


MARGIN = 0.05
"""Nats a token, 5% of perplexity, that count as equal."""


def judge_learned(trials: Trials) -> Table:
    """Judge whether learned positions are as good as sinusoids."""
    return equivalence(trials, "learned", "sinusoidal")


def judge_sinusoids(trials: Trials) -> Table:
    """Judge whether a frequency for each channel is as good as one for each pair."""
    pair, channel = transformer.SINUSOIDS
    return {
        **equivalence(trials, channel, pair),
        "shift_error": {
            pair: transformer.shift_error(sinusoids),
            channel: transformer.shift_error(transformer.channel_sinusoids),
        },
    }


def judge_adding(trials: Trials) -> Table:
    """Judge whether adding is as good as concatenating; tell what width alone does."""
    wide, concatenated = trials["added, twice as wide"], trials["concatenated"]
    return {
        **equivalence(trials, "added", "concatenated"),
        "added, twice as wide": mean_of(wide, "dev_loss"),
        "wide_less_concatenated": difference(wide, concatenated, "dev_loss"),
    }


def equivalence(trials: Trials, ours: str, theirs: str) -> Table:
    """Judge equivalence by two one-sided t tests at 5%: a 90% interval within ± MARGIN.

    Schuirmann (1987), A comparison of the two one-sided tests procedure.
    """
    one, other = (figures(trials[each], "dev_loss") for each in (ours, theirs))
    differences = [x - y for x, y in zip(one, other, strict=True)]
    found: Table = {
        ours: fmean(one),
        theirs: fmean(other),
        f"{ours}_less_{theirs}": difference(trials[ours], trials[theirs], "dev_loss"),
        "margin": MARGIN,
        "pairs": len(differences),
    }
    if len(differences) < 2:
        return {**found, "verdict": "undecided"}
    reach = t_quantile(len(differences) - 1, 0.9)
    reach *= stdev(differences) / sqrt(len(differences))
    low, high = fmean(differences) - reach, fmean(differences) + reach
    verdict: Verdict = "undecided"
    if low > -MARGIN and high < MARGIN:
        verdict = "holds"
    elif low > MARGIN or high < -MARGIN:
        verdict = "does not hold"
    return {**found, "low_90": low, "high_90": high, "verdict": verdict}


def judge_brackets(trials: Trials) -> Table:
    """Judge whether convolutions close deep nestings less often than all others."""
    found: Table = {
        choice: {
            depth: mean_of(runs, "by_depth", depth, "exact")
            for depth in map(str, brackets.DEPTHS)
        }
        for choice, runs in trials.items()
    }
    deepest = str(brackets.DEPTHS[-1])
    best = {
        is_convolution: max(
            (x for x in trials if ("convol" in x) is is_convolution),
            key=lambda choice: found[choice][deepest],
        )
        for is_convolution in (True, False)
    }
    others, convolution = trials[best[False]], trials[best[True]]
    ahead = difference(others, convolution, "by_depth", deepest, "exact")
    verdict = sign(ahead) if found[best[False]][deepest] > 0.5 else "undecided"
    return {
        **found,
        "best_convolution": best[True],
        "best_other": best[False],
        "other_less_convolution": ahead,
        "verdict": verdict,
    }


CLAIMS: dict[str, Claim] = {
    "recurrence": Claim(
        "Recurrent networks suffer from vanishing gradients and lose long-distance "
        "dependencies.",
        "0, 2",
        recurrence.CHOICES,
        recurrence.trial,
        judge_recurrence,
        "holds if with all of them the gradient across 40 symbols is less than 1/1000 "
        "of that across one before training, and fewer than half of the symbols are "
        "recalled across 40 after it, where a Transformer recalls over 90%; does not "
        "hold if a gradient does not vanish, or no network forgets",
        (1, 2),
        {"updates": recurrence.UPDATES, "rows": recurrence.ROWS},
    ),
    "longer": Claim(
        "Sinusoids may let a model read texts that are longer than those of training.",
        "Section 3.5",
        transformer.POSITIONS,
        transformer.copy_trial,
        judge_longer,
        "holds if over 90% of the tokens are right in copies of twice the length; does "
        "not hold if over 90% are right at the trained length alone",
        (1, 2, 3),
        {"updates": transformer.COPY_UPDATES, "rows": transformer.ROWS},
    ),
    "residual": Claim(
        "Without residual connections it fails; those of the positions alone do.",
        "2",
        transformer.RESIDUALS,
        transformer.residual_trial,
        judge_residual,
        "holds if the loss after equal updates is higher without them, by the 95% "
        "interval over seeds; of positions alone only the difference is told",
        (1, 2, 3),
        {"updates": transformer.RESIDUAL_UPDATES, "rows": transformer.ROWS},
    ),
    "batch-norm": Claim(
        "Batch normalization suffers from varying lengths.",
        "4",
        transformer.NORMS,
        transformer.norm_trial,
        judge_norm,
        "holds if what it loses to layer normalization is more where lengths vary, by "
        "the 95% interval over seeds",
        (1, 2, 3),
        {"updates": transformer.NORM_UPDATES, "rows": transformer.ROWS},
    ),
    "tying": Claim(
        "Tied embeddings make scores more confident.",
        "0",
        transformer.TYING,
        transformer.words_trial,
        judge_tying,
        "holds if the largest probability is higher with all three matrices tied than "
        "with none, by the 95% interval over seeds",
        (1, 2, 3),
        {"updates": transformer.DEMO_UPDATES, "rows": transformer.ROWS},
    ),
    "learned": Claim(
        "Learned positions are nearly as good as sinusoids.",
        "2, Table 3 (E)",
        transformer.LEARNED,
        transformer.words_trial,
        judge_learned,
        f"holds if the 90% interval of the difference of losses is within ± {MARGIN}",
        (1, 2, 3, 4, 5, 6, 7, 8),
        {"updates": transformer.DEMO_UPDATES, "rows": transformer.ROWS},
    ),
    "channel-sinusoids": Claim(
        "Sinusoids with a frequency for each channel, cosine first, tell positions as "
        "the paper's do.",
        "3",
        transformer.SINUSOIDS,
        transformer.words_trial,
        judge_sinusoids,
        f"holds if the 90% interval of the difference of losses is within ± {MARGIN}",
        (1, 2, 3, 4, 5, 6, 7, 8),
        {"updates": transformer.DEMO_UPDATES, "rows": transformer.ROWS},
    ),
    "adding": Claim(
        "Adding positions works as well as concatenating them.",
        "3",
        transformer.ADDING,
        transformer.words_trial,
        judge_adding,
        f"holds if the 90% interval of the difference of losses is within ± {MARGIN}; "
        "the model that concatenates is twice as wide",
        (1, 2, 3, 4, 5, 6, 7, 8),
        {"updates": transformer.DEMO_UPDATES, "rows": transformer.ROWS},
    ),
    "brackets": Claim(
        "Convolutions are hard to model hierarchical-alike domains.",
        "2",
        brackets.CHOICES,
        brackets.trial,
        judge_brackets,
        "holds if of the deepest nestings the best convolution closes fewer without an "
        "error than the best other model, by the 95% interval over seeds",
        (1, 2, 3, 4, 5, 6),
        {"updates": brackets.UPDATES, "rows": brackets.ROWS},
    ),
}
"""Every claim by its name."""
