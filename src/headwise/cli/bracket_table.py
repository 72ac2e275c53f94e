"""The table of scores that ``headwise evaluate`` prints for a parser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from headwise.cli.options import say
from headwise.cli.standard_streams import output
from headwise.metrics.bracket_f1 import BracketCounts, bracket_scores
from headwise.metrics.tree_lines import read_trees_of_lines, scores_by_length
from headwise.wording import count_of

COLUMNS = ("precision", "recall", "f1", "exact_match")
"""Scores of :class:`BracketCounts`, in percent."""

CROSSING = ("average_crossing", "no_crossing", "two_or_less_crossing")
"""EVALB's scores of crossing brackets: of a sentence, and in percent of sentences."""


def print_bracket_table(
    outputs: Sequence[str], references: Sequence[str], *, as_json: bool
) -> None:
    """Print EVALB's scores of trees, one a line: of all, of short ones, by length."""
    predicted, gold = read_trees_of_lines(outputs, references)
    scores = bracket_scores(predicted, gold)
    rows = {
        "all": scores.all,
        f"up to {scores.settings.cutoff_length} words": scores.short,
        **{f"{x.label} words": x.counts for x in scores_by_length(predicted, gold)},
    }
    if as_json:
        table = [{"sentences of": name, **_table(row)} for name, row in rows.items()]
        output(
            json.dumps({"signature": scores.score.signature, "rows": table}, indent=2)
        )
    else:
        output(
            f"{'':<16}{'sentences':>10}{'precision':>11}{'recall':>8}{'F1':>7}"
            f"{'complete match':>16}"
        )
        for name, row in rows.items():
            values = [f"{getattr(row, column):.1f}" for column in COLUMNS]
            output(
                f"{name:<16}{row.sentences:>10,}{values[0]:>11}{values[1]:>8}"
                f"{values[2]:>7}{values[3]:>16}"
            )
        average, none, two_or_less = (getattr(scores.all, name) for name in CROSSING)
        output(
            f"crossing brackets: {average:.2f} a sentence, none in {none:.1f}%, "
            f"2 or less in {two_or_less:.1f}%"
        )
        output(scores.score.signature)
    for error in scores.errors[:3]:
        say(error)
    if scores.all.errors or scores.all.skipped:
        say(
            f"not scored: {count_of(scores.all.skipped, 'sentence')} without a tree, "
            f"{scores.all.errors:,} with other words than the gold tree"
        )


def _table(counts: BracketCounts) -> dict[str, float | int]:
    computed = {name: round(getattr(counts, name), 4) for name in COLUMNS + CROSSING}
    return {**computed, **asdict(counts)}
