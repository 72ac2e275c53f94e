"""Model folders without some heads: their slices of W^O are zero.

Nothing else changes, neither shapes nor the config, so every program and every export
that runs the model runs it without those heads, without having heard of them. It is not
faster: the heads are computed, and add nothing.
"""

from __future__ import annotations

from pathlib import Path

from headwise.errors import UsageError
from headwise.inspection.head_ranking import HeadsLoss, zero_heads
from headwise.run_folder.card_edit import NOTES, CardChanges, edit_card
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.model_folder import ModelFolder, write_model_folder
from headwise.wording import count_of


def write_pruned(
    opened: ModelFolder, out: Path, loss: HeadsLoss, *, measured_on: str
) -> None:
    """Write ``out``: the model without the heads of ``loss``, which the card names.

    ``measured_on`` names the text on which the loss was measured. The model of
    ``opened`` is changed. Golden translations are made again. Raises ``UsageError`` if
    ``out`` is the folder of the model itself.
    """
    if out.resolve().is_relative_to(opened.path.resolve()):
        raise UsageError(
            f"{out} is where the model with all heads is; name another folder"
        )
    card = (opened.path / CARD).read_text(encoding="utf-8")
    notes = card.partition(NOTES)[2].strip()
    pruned = describe_pruning(opened, loss, measured_on)
    zero_heads(opened.model, loss.heads)
    write_model_folder(
        out,
        model=opened.model,
        task=opened.any_task,
        decoding=opened.decoding,
        facts=opened.facts,
        card=edit_card(card, CardChanges(notes=f"{notes}\n\n{pruned}".strip())),
        golden_sources=[each.source for each in opened.golden],
    )


def describe_pruning(opened: ModelFolder, loss: HeadsLoss, measured_on: str) -> str:
    """Return what the card says of the heads that were removed."""
    interval = ""
    if loss.low is not None and loss.high is not None:
        interval = f" (95% interval {loss.low:.4f} to {loss.high:.4f})"
    return (
        f"{count_of(len(loss.heads), 'head')} removed after training, by zeros in W^O: "
        f"{', '.join(map(str, loss.heads))}, layers and heads counted from 0. Without "
        f"them a reference of {measured_on} ({count_of(loss.sentences, 'sentence')}) "
        f"loses {loss.loss:.4f} nats of log-probability on average{interval}. They "
        "were chosen on the same sentences, so the loss elsewhere may be larger. The "
        f"scores above are of the model with all heads, {opened.path.name}."
    )
