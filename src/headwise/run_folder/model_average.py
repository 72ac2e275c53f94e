"""Average the weights of trained models into one model.

A model and what it became by fine-tuning are joined by weights that work too: on the
straight line between both, the one is learned while less of the other is forgotten
(Wortsman et al. 2022, Robust fine-tuning of zero-shot models). So are models that were
fine-tuned from the same one (Model soups, the same year). Weights that were drawn apart
have no such mean.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from headwise.errors import ModelError, UsageError
from headwise.run_folder.averaged_card import AveragedModel, averaged_card
from headwise.run_folder.card import model_name
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.model_folder import (
    ModelFolder,
    open_model_folder,
    write_model_folder,
)
from headwise.run_folder.paths import model_path
from headwise.settings import as_table
from headwise.text.tokenizer import digest
from headwise.training.averaging import average_checkpoints

RELATED = 0.5
"""Least cosine similarity of weights with a common origin; that of weights which were
drawn apart is near 0."""

IN_TRAINING_ONLY = ("dropout", "attention_dropout", "feed_forward_dropout")
"""Settings of the architecture that a trained model does not depend on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShare:
    """What a model is in an average."""

    folder: Path
    share: float
    """Part of the whole, which is 1."""

    similarity: float
    """Cosine similarity of its matrices to those of the first model."""

    @property
    def is_unrelated(self) -> bool:
        """Whether its weights seem to be drawn apart from those of the first."""
        return self.similarity < RELATED


def average_models(
    folders: Sequence[Path], out: Path, *, shares: Sequence[float] = ()
) -> list[ModelShare]:
    """Write a model folder whose weights are the mean of those of several models.

    All else is that of the first, but for the longest texts, of which the longest
    counts. ``shares`` are positive, of any sum; without them they are equal. One model
    at a time is in memory, beside the first and the sums in float64. Raises
    ``ModelError`` for models of another task, architecture or tokenizer than the first,
    and ``UsageError`` for wrong shares.
    """
    shares = _checked_shares(len(folders), shares)
    opened = [
        open_model_folder(model_path(each), without_weights=True) for each in folders
    ]
    if differences := [*_differences(folders, opened)]:
        listed = "\n".join(f"- {each}" for each in differences)
        raise ModelError(f"these models have no average:\n{listed}")
    first = opened[0]
    similarities: list[float] = []
    means, _ = average_checkpoints(_weights_of(opened, similarities), shares)
    first.model.load_state_dict(means)
    models = [
        AveragedModel(
            name=model_name(folder.resolve()),
            share=share,
            card=(each.path / CARD).read_text(encoding="utf-8"),
        )
        for folder, each, share in zip(folders, opened, shares, strict=True)
    ]
    facts = replace(
        first.facts,
        longest_source=max(each.facts.longest_source for each in opened),
        longest_target=max(each.facts.longest_target for each in opened),
    )
    write_model_folder(
        out,
        model=first.model,
        task=first.any_task,
        decoding=first.decoding,
        facts=facts,
        card=averaged_card(model_name(out.resolve()), models, task=first.task_name),
        golden_sources=[each.source for each in first.golden],
    )
    return [
        ModelShare(folder=folder, share=share, similarity=similarity)
        for folder, share, similarity in zip(folders, shares, similarities, strict=True)
    ]


def _checked_shares(models: int, shares: Sequence[float]) -> Sequence[float]:
    """Return shares that add up to 1, equal if none are given; raise for wrong ones."""
    if models < 2:
        raise UsageError("an average takes two models or more; name another")
    if not shares:
        return [1 / models] * models
    if len(shares) != models:
        raise UsageError(f"{models} models need {models} shares, not {len(shares)}")
    for share in shares:
        if not 0 < share < math.inf:
            raise UsageError(f"a share must be above 0 and finite, not {share:g}")
    if not math.isfinite(total := sum(shares)):
        raise UsageError(f"the shares add up to {total:g}; give smaller ones")
    if total * sys.float_info.epsilon > min(shares):
        raise UsageError(
            f"a share of {min(shares):g} is nothing beside the {total:g} of all"
        )
    return [each / total for each in shares]


def _differences(
    folders: Sequence[Path], models: Sequence[ModelFolder]
) -> Iterator[str]:
    """Name what models must have in common with the first, and do not."""
    first, *others = models
    for folder, other in zip(folders[1:], others, strict=True):
        pair = f"{folders[0]} and {folder}"
        if first.task_name != other.task_name:
            yield f"{pair} are models of {first.task_name} and of {other.task_name}"
            continue
        for name, value in _architecture(first).items():
            if value != (theirs := _architecture(other)[name]):
                yield f"{name} is {value!r} in {folders[0]}, {theirs!r} in {folder}"
        if first.description.options != other.description.options:
            yield f"{pair} have different settings of {first.task_name}"
        if _tokenizer_digests(first) != _tokenizer_digests(other):
            yield (
                f"{pair} have different tokenizers or labels: the same row of an "
                "embedding stands for another one; training that starts from a model "
                "(--from) takes over its tokenizers"
            )


def _tokenizer_digests(opened: ModelFolder) -> tuple[str, str]:
    return digest(opened.tokenizers.source), digest(opened.tokenizers.target)


def _architecture(opened: ModelFolder) -> dict[str, object]:
    table = as_table(opened.config)
    return {name: table[name] for name in table if name not in IN_TRAINING_ONLY}


def _weights_of(
    models: Sequence[ModelFolder], similarities: list[float]
) -> Iterator[Mapping[str, Tensor]]:
    """Yield the weights of each model; note how similar to the first ones they are."""
    first = models[0].model.state_dict()
    for opened in models:
        weights = opened.model.state_dict()
        similarities.append(_cosine(first, weights))
        yield weights
        if opened is not models[0]:
            opened.weights.model = None  # free the memory


def _cosine(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    """Return the cosine similarity of all matrices of two models."""
    names = [name for name, weight in a.items() if weight.dim() > 1]
    dots = torch.zeros(3, dtype=torch.float64)
    for name in names:
        x, y = a[name].double().flatten(), b[name].double().flatten()
        dots += torch.stack([x @ y, x @ x, y @ y])
    both, own, other = dots.tolist()
    return both / math.sqrt(own * other) if own * other > 0 else 0.0
