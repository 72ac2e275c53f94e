"""How much heads look from a pronoun to its antecedent, and what they are needed for.

Over minimal pairs (:mod:`coreference_pairs`): the weights of each head, by a sign-flip
test with Holm's correction over all heads; and the outputs with each head off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import mean
from typing import Any

import numpy as np
from coreference_pairs import Pair, Sentence, Span
from paired_permutation import holm, sign_flip_test

from headwise.inspection.attention import Attention
from headwise.inspection.inspector import Inspector
from headwise.inspection.interventions import HeadOff
from headwise.inspection.places import Head, all_heads
from headwise.metrics.paired_difference import paired_difference
from headwise.text.tokenizer import Tokenizer

ALPHA = 0.05

Table = dict[str, Any]


def attention_table(inspector: Inspector, pairs: Sequence[Pair]) -> Table:
    """Return the mean difference of each head over pairs, with its tests.

    A difference is of attention to the antecedent less that to the distractor, from 0
    to ± 1: the mean of both sentences of a pair, by which place and word cancel out.
    """
    differences: dict[tuple[Head, str], list[float]] = {}
    left_out = 0
    for pair in pairs:
        try:
            one, other = (differences_of(inspector, each) for each in pair)
        except UnevenTokensError:
            left_out += 1
            continue
        for key, value in one.items():
            differences.setdefault(key, []).append((value + other[key]) / 2)
    values = np.array([*differences.values()]).T
    p_values = sign_flip_test(values).tolist()
    heads = [
        {
            "head": str(head),
            "from": query,
            "difference": float(column.mean()),
            "low": difference.low,
            "high": difference.high,
            "pairs_above_0": float((column > 0).mean()),
            "p": p,
            "p_holm": adjusted,
        }
        for (head, query), column, p, adjusted in zip(
            differences, values.T, p_values, holm(p_values), strict=True
        )
        for difference in [paired_difference(column.tolist(), [0.0] * len(column))]
    ]
    return {
        "pairs": len(values),
        "left_out": left_out,
        "significant": sum(each["p_holm"] <= ALPHA for each in heads),
        "heads": heads,
    }


def differences_of(
    inspector: Inspector, sentence: Sentence
) -> dict[tuple[Head, str], float]:
    """Return attention to the antecedent less that to the distractor, of each head.

    Queries are ``pronoun``, the position that reads it, and ``output``, that which
    writes the first token in which right and wrong output differ, or a label. Raises
    ``UnevenTokensError`` where a noun has no tokens of its own.
    """
    wanted = all_heads(inspector.model)
    target = sentence.right or None
    if inspector.task.name == "classification":
        target = None
    elif target is None:  # only the encoder is asked, and any target will do
        target = sentence.text
        wanted = [head for head in wanted if head.kind == "encoder"]
    pair = inspector.pair(sentence.text, target)
    found = inspector.attention(sentence.text, target, heads=wanted)
    source = pair.source or pair.decoder_input
    tokenizer = inspector.task.tokenizers.source
    if not pair.source:
        tokenizer = inspector.task.tokenizers.target
    spans = sentence.antecedent, sentence.distractor, sentence.pronoun
    of_source = [token_range(tokenizer, sentence.text, span, source) for span in spans]
    of_target = of_source
    if pair.source and sentence.in_output:
        of_target = [
            token_range(
                inspector.task.tokenizers.target,
                sentence.right,
                span,
                pair.decoder_input,
            )
            for span in sentence.in_output
        ]
    output = 0 if not pair.target else first_difference(inspector, sentence)
    return {
        (head, name): looks(found, head, rows, *columns)
        for head in wanted
        for name, rows in queries(head, pair.source and pair.target, of_source[2])
        for columns in [of_target[:2] if head.kind == "decoder" else of_source[:2]]
        for rows in [range(output, output + 1) if name == "output" else rows]
    }


def queries(
    head: Head, has_both: object, pronoun: range
) -> Iterator[tuple[str, range]]:
    """Yield the positions from which a head is looked at."""
    if head.kind == "encoder" or not has_both:
        yield "pronoun", pronoun
    if head.kind != "encoder" or not has_both:
        yield "output", range(0)


def looks(
    found: Attention, head: Head, rows: range, antecedent: range, distractor: range
) -> float:
    """Return the weights on the antecedent less those on the distractor.

    Tokens of a noun are summed, rows of the pronoun averaged.
    """
    weights = found.of(head).weights[list(rows)].mean(dim=0)
    return float(weights[list(antecedent)].sum() - weights[list(distractor)].sum())


class UnevenTokensError(Exception):
    """Tokens that do not begin or end where a word does."""


def token_range(
    tokenizer: Tokenizer, text: str, span: Span, tokens: Sequence[int]
) -> range:
    """Return which of ``tokens``, among which are those of ``text``, make up a span."""
    whole = tokenizer.encode(text)
    before = tokenizer.encode(text[: span[0]].rstrip())
    until = tokenizer.encode(text[: span[1]])
    starts = range(len(tokens) - len(until) + 1)
    places = [i for i in starts if [*tokens[i : i + len(until)]] == until]
    if not places or whole[: len(until)] != until or until[: len(before)] != before:
        raise UnevenTokensError(text[slice(*span)])
    return range(places[0] + len(before), places[0] + len(until))


def first_difference(inspector: Inspector, sentence: Sentence) -> int:
    """Return the first position at which right and wrong outputs differ."""
    if not sentence.right:
        return 0
    right, wrong = (
        inspector.pair(sentence.text, each).target
        for each in (sentence.right, sentence.wrong)
    )
    return next(
        i
        for i, (one, other) in enumerate(zip(right, wrong, strict=False))
        if one != other
    )


def heads_off(
    inspector: Inspector,
    questions: Sequence[Sentence],
    best: Head,
    together: Sequence[Head] = (),
) -> Table:
    """Return the outputs with each head off: of ``best``, of all others, and of none.

    And with all of ``together`` off, if there are any. ``right`` is the share of
    sentences whose right output is more probable than the wrong one at the token that
    tells them apart, ``margin`` the mean of ln p of that token less that of the wrong
    one, in nats.
    """
    before = margins(inspector, questions)

    def without(*heads: Head) -> Table:
        with inspector.intervene(*map(HeadOff, heads)):
            after = margins(inspector, questions)
        lost = paired_difference(before, after)
        found = {"loses": lost.mean, "low": lost.low, "high": lost.high}
        return {"head": " ".join(map(str, heads)), **summary(after), **found}

    rows = [without(head) for head in all_heads(inspector.model)]
    rows.sort(key=lambda each: each["loses"], reverse=True)
    rank = [each["head"] for each in rows].index(str(best))
    others = [each for each in rows if each["head"] != str(best)]
    return {
        "sentences": len(questions),
        "before": summary(before),
        "best": rows[rank],
        "rank_of_best": rank + 1,
        "most": rows[0],
        "others": {
            "heads": len(others),
            "right": mean(each["right"] for each in others),
            "least_right": min(each["right"] for each in others),
            "margin": mean(each["margin"] for each in others),
        },
        "together": without(*together) if together else None,
        "heads": rows,
    }


def margins(inspector: Inspector, questions: Sequence[Sentence]) -> list[float]:
    """Return ln p of the right token less that of the wrong one, for each sentence."""
    found = []
    for each in questions:
        right, wrong = (
            inspector.output(each.text, target, count=1).positions
            for target in (each.right, each.wrong)
        )
        one, other = next(
            (one, other)
            for one, other in zip(right, wrong, strict=False)
            if one.token != other.token
        )
        found.append(one.log_probability - other.log_probability)
    return found


def summary(found: Sequence[float]) -> Table:
    """Return how often the right token is the more probable one, and by how much."""
    return {
        "right": 100 * mean(each > 0 for each in found),
        "probability": 100 * mean(1 / (1 + math.exp(-each)) for each in found),
        "margin": mean(found),
    }


def pronouns_of(
    model: Any,
    questions: Sequence[Sentence],
    heads: Sequence[Head],
    find: Callable[[str], str],
) -> Table:
    """Return which pronoun the model's own translations have, with heads off."""
    with model.inspector.intervene(*map(HeadOff, heads)):
        outputs = model.translate([each.text for each in questions])
    found = [find(each) for each in outputs]
    right = [find(f"{each.right} ") for each in questions]
    wrong = [find(f"{each.wrong} ") for each in questions]
    agree = [one == each for one, each in zip(right, found, strict=True)]
    disagree = [one == each for one, each in zip(wrong, found, strict=True)]
    return {
        "off": [*map(str, heads)],
        "right": 100 * mean(agree),
        "of_the_other_noun": 100 * mean(disagree),
        "neither": 100 - 100 * mean(agree) - 100 * mean(disagree),
    }
