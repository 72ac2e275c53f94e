"""What ``headwise doctor FOLDER`` looks at, by the kind of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from headwise import storage
from headwise.data.prepared import FACTS, PreparedCorpus
from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Finding
from headwise.doctor.files import look_at_files
from headwise.doctor.model import look_at_model, look_at_numbers
from headwise.errors import DataError, ModelError, SettingsError
from headwise.interop.export_cache import EXPORTS_FOLDER
from headwise.model.transformer import Transformer
from headwise.recipe import Recipe
from headwise.run_folder.checkpoints import KIND as CHECKPOINT
from headwise.run_folder.checkpoints import Checkpoint, Checkpoints
from headwise.run_folder.model_weights import check_weights
from headwise.run_folder.paths import (
    BEST,
    CHECKPOINTS,
    EXPORT,
    PREPARED,
    RECIPE,
    model_path,
)
from headwise.settings import read, read_toml
from headwise.wording import count_of


def look_at_folder(folder: Path) -> Iterator[Finding]:
    """Check a run, a model or another folder of ours: whatever may be wrong in it."""
    if (folder / RECIPE).is_file() or (folder / CHECKPOINTS).is_dir():
        yield from _look_at_run(folder)
        return
    if not (folder / storage.MANIFEST).is_file():
        try:
            folder = model_path(folder)
        except ModelError as error:
            yield Finding("folder", FAILED, str(error), "name the folder that is meant")
            return
    kind = _kind(folder)
    if kind == CHECKPOINT:
        beside = Checkpoints(folder.parent, lambda _: None)
        yield from _look_at_checkpoint(folder, beside, None)
    elif kind == EXPORT:
        yield from look_at_files(folder, "files")
        found = "an export is tried beside the model that it was made of"
        advice = f"put it into {EXPORTS_FOLDER}/ of that folder, and name the folder"
        yield Finding("golden translations", SKIPPED, found, advice)
    elif (folder / FACTS).is_file():
        yield _prepared(folder)
    else:
        yield from look_at_model(folder)


def _kind(folder: Path) -> object:
    try:
        return storage.read_manifest(folder).get("kind")
    except ModelError:
        return None


def _look_at_run(folder: Path) -> Iterator[Finding]:
    recipe = None
    try:
        recipe = read(Recipe, read_toml(folder / RECIPE))
        yield Finding(RECIPE, OK, "every setting is one that this version knows")
    except SettingsError as error:
        advice = "put back the recipe that this run was made with"
        yield Finding(RECIPE, FAILED, str(error), advice)
    if (folder / PREPARED).exists():
        yield _prepared(folder / PREPARED)
    checkpoints = Checkpoints(folder / CHECKPOINTS, lambda _: None)
    for path in checkpoints.paths():
        yield from _look_at_checkpoint(path, checkpoints, recipe)
    for aside in sorted(folder.glob(f"**/{storage.DAMAGED}*")):
        found = "set aside when it was found damaged; nothing reads it"
        yield Finding(str(aside.relative_to(folder)), NOTE, found, "delete it")
    if not checkpoints.paths():
        found = "none yet: the run has not come to its first validation"
        yield Finding(CHECKPOINTS, SKIPPED, found)
    if (folder / BEST).exists():
        yield from look_at_model(folder / BEST)
    else:
        found = "none yet: the run has not come to its first validation"
        yield Finding(BEST, SKIPPED, found)


def _prepared(folder: Path) -> Finding:
    try:
        facts = PreparedCorpus.open(folder, thorough=True).facts
    except DataError as error:
        advice = "prepare the corpus again, from the same text"
        return Finding(PREPARED, FAILED, str(error), advice)
    found = (
        f"{facts.train.pairs:,} + {count_of(facts.dev.pairs, 'pair')}, every file whole"
    )
    return Finding(PREPARED, OK, found)


def _look_at_checkpoint(
    path: Path, checkpoints: Checkpoints, recipe: Recipe | None
) -> Iterator[Finding]:
    """Check a checkpoint; one that a run deletes meanwhile is none."""
    whole = True
    for finding in look_at_files(path, path.name):
        whole = whole and finding.status != FAILED
        if path.exists():
            yield finding
    if not whole or not path.exists():
        return
    advice = (
        "nothing, if a newer one is whole: training goes on from that; else from an "
        "older one"
    )
    try:
        found = checkpoints.open(path)
        _check_shapes(found, recipe)
    except ModelError as error:
        if path.exists():
            yield Finding(f"{path.name}, contents", FAILED, str(error), advice)
        return
    tensors = {**found.weights, **found.optimizer, **(found.ema or {})}
    yield look_at_numbers(f"{path.name}, numbers", tensors, advice)


def _check_shapes(found: Checkpoint, recipe: Recipe | None) -> None:
    """See that weights fit the recipe, and what belongs to a weight the weight."""
    for name, tensor in {**found.optimizer, **(found.ema or {})}.items():
        weight = found.weights.get(name.removesuffix("_sq").removesuffix(".exp_avg"))
        if weight is not None and weight.shape != tensor.shape:
            raise ModelError(
                f"{name} has shape {list(tensor.shape)}, its weight "
                f"{list(weight.shape)}: they come from different runs"
            )
    target = found.weights.get("embeddings.target.vectors")
    if recipe is None or target is None:
        return
    source = found.weights.get("embeddings.source.vectors", target)
    with torch.device("meta"):
        model = Transformer(recipe.model, len(source), len(target))
    check_weights(model, found.weights, found.path)
