"""The card of an average of models: their shares, and the card of each.

Scores, data, licence and attribution of the models are in their own cards.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from headwise import __version__
from headwise.run_folder.card import BAR, CARD_TEXTS, OTHERS, USE
from headwise.run_folder.card_fields import card_fields, card_parts
from headwise.run_folder.card_metadata import metadata_without_scores
from headwise.tasks import TASKS
from headwise.wording import count_of

AVERAGED_CARD = (
    """\
{head}
# {name}

A Transformer for {task}, made with headwise {version}: each of its weights is the mean
of those of {count}. It was not trained afterwards, and nothing has scored it:
`headwise evaluate` does.

| model | share |
| --- | --- |
{shares}

"""
    + USE
    + """\
## Limits

{limits}

{cards}
"""
)

DEEPEST = 6
"""Levels of headings that Markdown has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AveragedModel:
    """One of the models of an average."""

    name: str
    share: float
    """Part of the whole, which is 1."""
    card: str


def averaged_card(name: str, models: Sequence[AveragedModel], *, task: str) -> str:
    """Return the card of the average; its languages are those of the first model.

    The licence is that of the models if they have the same.
    """
    texts = CARD_TEXTS.get(task, OTHERS)
    fields = [card_fields(each.card) for each in models]
    licenses = {each.license for each in fields}
    cards = [
        f"## The card of `{each.name}`\n\n{_below(card_parts(each.card)[1], 2)}"
        for each in models
    ]
    return AVERAGED_CARD.format(
        head=metadata_without_scores(
            TASKS[task].hub_task,
            fields[0].languages,
            licenses.pop() if len(licenses) == 1 else None,
        ),
        name=name,
        task=task,
        version=__version__,
        count=count_of(len(models), "model"),
        shares="\n".join(map(_row, models)),
        command=TASKS[task].command,
        method=texts.method,
        folder=shlex.quote(name),
        variable=texts.variable,
        quoted=json.dumps(name, ensure_ascii=False),
        limits=texts.limits,
        cards="\n\n".join(cards),
    )


def _row(model: AveragedModel) -> str:
    return f"| `{model.name.replace('|', BAR)}` | {model.share:.4g} |"


def _below(text: str, levels: int) -> str:
    """Return Markdown whose headings are ``levels`` deeper; code stays as it is."""
    lines, in_code = [], False
    for line in text.strip().split("\n"):
        in_code ^= line.startswith("```")
        heading = None if in_code else re.match("#+ ", line)
        if heading:
            depth = min(len(heading[0]) - 1 + levels, DEEPEST)
            line = f"{'#' * depth} {line[heading.end() :]}"
        lines.append(line)
    return "\n".join(lines)
