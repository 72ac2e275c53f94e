"""``headwise doctor FOLDER``: checks of a run, model, checkpoint, corpus or export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from headwise import storage
from headwise.data.prepared import FACTS, PreparedCorpus
from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Check
from headwise.doctor.file_checks import check_files
from headwise.doctor.model_checks import check_finite, check_model
from headwise.errors import DataError, ModelError, SettingsError
from headwise.interop.export_cache import EXPORTS_FOLDER
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
from headwise.tasks import TASKS
from headwise.tasks.description import ModelDescription
from headwise.wording import count_of


def check_folder(folder: Path) -> Iterator[Check]:
    """Check a run, a model folder, or another folder that headwise wrote."""
    if (folder / RECIPE).is_file() or (folder / CHECKPOINTS).is_dir():
        yield from _check_run(folder)
        return
    if not (folder / storage.MANIFEST).is_file():
        try:
            folder = model_path(folder)
        except ModelError as error:
            yield Check(
                "folder", FAILED, str(error), "name a run folder or a model folder"
            )
            return
    kind = _kind(folder)
    if kind == CHECKPOINT:
        beside = Checkpoints(folder.parent, lambda _: None)
        yield from _check_checkpoint(folder, beside, None)
    elif kind == EXPORT:
        yield from check_files(folder, "files")
        found = "an export is compared with the model that it was made from"
        advice = (
            f"move it into {EXPORTS_FOLDER}/ of that model folder, and check the folder"
        )
        yield Check("golden translations", SKIPPED, found, advice)
    elif (folder / FACTS).is_file():
        yield _prepared(folder)
    else:
        yield from check_model(folder)


def _kind(folder: Path) -> object:
    try:
        return storage.read_manifest(folder).get("kind")
    except ModelError:
        return None


def _check_run(folder: Path) -> Iterator[Check]:
    recipe = None
    try:
        recipe = read(Recipe, read_toml(folder / RECIPE))
        yield Check(RECIPE, OK, "every setting is known to this version")
    except SettingsError as error:
        advice = "restore the recipe of this run"
        yield Check(RECIPE, FAILED, str(error), advice)
    if (folder / PREPARED).exists():
        yield _prepared(folder / PREPARED)
    checkpoints = Checkpoints(folder / CHECKPOINTS, lambda _: None)
    for path in checkpoints.paths():
        yield from _check_checkpoint(path, checkpoints, recipe)
    for aside in sorted(folder.glob(f"**/{storage.DAMAGED}*")):
        found = "damaged, and therefore renamed; nothing reads it"
        yield Check(str(aside.relative_to(folder)), NOTE, found, "delete it")
    if not checkpoints.paths():
        found = "none yet: no validation so far"
        yield Check(CHECKPOINTS, SKIPPED, found)
    if (folder / BEST).exists():
        yield from check_model(folder / BEST)
    else:
        found = "none yet: no validation so far"
        yield Check(BEST, SKIPPED, found)


def _prepared(folder: Path) -> Check:
    try:
        facts = PreparedCorpus.open(folder, thorough=True).facts
    except DataError as error:
        advice = "prepare the corpus again from the same text"
        return Check(PREPARED, FAILED, str(error), advice)
    found = f"{facts.train.pairs:,} + {count_of(facts.dev.pairs, 'pair')}, files intact"
    return Check(PREPARED, OK, found)


def _check_checkpoint(
    path: Path, checkpoints: Checkpoints, recipe: Recipe | None
) -> Iterator[Check]:
    """Check a checkpoint; yield nothing if the run deletes it meanwhile."""
    intact = True
    for check in check_files(path, path.name):
        intact = intact and check.status != FAILED
        if path.exists():
            yield check
    if not intact or not path.exists():
        return
    advice = (
        "nothing: training resumes from a newer checkpoint if that is intact, else "
        "from an older one"
    )
    try:
        found = checkpoints.open(path)
        _check_shapes(found, recipe)
    except ModelError as error:
        if path.exists():
            yield Check(f"{path.name}, contents", FAILED, str(error), advice)
        return
    tensors = {**found.weights, **found.optimizer, **(found.ema or {})}
    yield check_finite(f"{path.name}, numbers", tensors, advice)


def _check_shapes(found: Checkpoint, recipe: Recipe | None) -> None:
    """Raise ``ModelError`` if shapes fit neither the recipe nor one another."""
    for name, tensor in {**found.optimizer, **(found.ema or {})}.items():
        weight = found.weights.get(name.removesuffix("_sq").removesuffix(".exp_avg"))
        if weight is not None and weight.shape != tensor.shape:
            raise ModelError(
                f"{name} has shape {list(tensor.shape)}, its weight "
                f"{list(weight.shape)}: they come from different runs"
            )
    if recipe is None:
        return
    shapes = {name: weight.shape for name, weight in found.weights.items()}
    sizes = TASKS[recipe.task].vocab_sizes(shapes)
    if sizes is None:
        return
    source, target = sizes
    description = ModelDescription(
        task=recipe.task,
        config=recipe.model,
        source_vocab_size=source,
        target_vocab_size=target,
        options=recipe.options,
    )
    with torch.device("meta"):
        model = TASKS[recipe.task].build(description, seed=0)
    check_weights(model, found.weights, found.path)
