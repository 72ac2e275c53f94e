"""Edit a model folder: its card, its decoding settings, the dtype of its weights.

The new folder is written beside the old one and replaces it in one step, so readers see
either. All else is copied unchanged. Exports in the folder have the old card and
settings; they are deleted with the old folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise import storage
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.recipe import Recipe
from headwise.run_folder.card_edit import CardChanges, edit_card
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.lock import locked, locked_directly
from headwise.run_folder.model_folder import (
    GOLDEN,
    ModelFolder,
    golden_pairs,
    open_model_folder,
)
from headwise.run_folder.model_weights import load_weights
from headwise.run_folder.paths import BEST, GENERATION, RECIPE, WEIGHTS, model_path
from headwise.run_folder.run_recipe import read_run_recipe
from headwise.run_folder.safetensors_files import (
    first_three,
    read_tensors,
    write_tensors,
)
from headwise.settings import (
    as_table,
    as_toml,
    changed_by,
    differences,
    read,
    read_toml,
)
from headwise.storage import MANIFEST
from headwise.tasks import TASKS

HALF = torch.float16


@dataclass(frozen=True, kw_only=True)
class EditResult:
    """What changed in a model folder."""

    path: Path
    search: dict[str, tuple[object, object]]
    """Decoding settings that changed: old and new value."""

    search_changed: bool
    """Whether one of them may change translations; thresholds of warnings do not."""

    card_changed: bool
    weights_changed: bool
    """Whether the weights were rounded to float16, which may change translations."""

    golden: int
    """Number of golden translations that were made again."""

    stale: tuple[str, ...]
    """Exports that were in the folder and have been deleted."""

    recipe: Path | None
    """The recipe of the run, if that was changed too."""


def edit_model(
    folder: Path,
    *,
    search: Mapping[str, Any],
    card: CardChanges | None = None,
    half: bool = False,
) -> EditResult:
    """Change decoding settings and card of a model folder, or of a run's best model.

    With ``half`` the weights are stored as float16, in half the space. The recipe of
    the run is changed as well, so that later models have the same settings. Raises
    ``UsageError`` while another process works in the run, and ``SettingsError`` for
    weights that are too large for float16.
    """
    with _run_of(folder) as run:
        path = model_path(folder)
        opened = open_model_folder(path)
        stale = tuple(_export_names(opened))
        if search and not TASKS[opened.task_name].searches:
            raise UsageError(
                f"{folder} is a model of {opened.task_name}, which searches for "
                "nothing and so has no decoding settings; only its card can change"
            )
        decoding = _new_decoding(opened.decoding, search)
        if opened.task_name == "translation":
            _check_fits(opened, decoding)
        before = (path / CARD).read_text(encoding="utf-8")
        after = edit_card(before, card or CardChanges())
        recipe = None if run is None else _recipe_with(run / RECIPE, search, card)
        before_and_after = differences(as_table(opened.decoding), as_table(decoding))
        changed = {name: (old, new) for name, old, new in before_and_after}
        otherwise = _without_warnings(decoding) != _without_warnings(opened.decoding)
        rounded = _rounded(path / WEIGHTS) if half else None
        if changed or after != before or rounded is not None:
            _write(opened, decoding, after, rounded)
        else:
            stale = ()
        recipe_changed = run is not None and _write_recipe(run / RECIPE, recipe)
        return EditResult(
            path=path,
            search=changed,
            search_changed=otherwise,
            card_changed=after != before,
            weights_changed=rounded is not None,
            golden=len(opened.golden) if otherwise or rounded is not None else 0,
            stale=stale,
            recipe=run / RECIPE if run is not None and recipe_changed else None,
        )


@contextmanager
def _run_of(folder: Path) -> Iterator[Path | None]:
    """Lock and yield the run of a model; else lock the folder and yield None."""
    resolved = folder.resolve()
    run = resolved.parent if resolved.name == BEST else resolved
    if not (run / RECIPE).is_file():
        with locked_directly(model_path(resolved)):
            yield None
        return
    with locked(run):
        yield run


def _new_decoding(
    before: DecodingSettings, table: Mapping[str, Any]
) -> DecodingSettings:
    if "num_best" in table:
        raise SettingsError(
            [
                "num_best cannot be a default of a model; use headwise translate "
                "--search num_best=..."
            ]
        )
    return changed_by(before, table)


def _check_fits(opened: ModelFolder, decoding: DecodingSettings) -> None:
    """Raise for outputs beyond the learned positions, or alignment heads not there."""
    config = opened.config
    decoding.check_head(*config.cross_attention_shape)
    longest = decoding.max_length(opened.facts.longest_source)
    if config.position_limit is not None and config.position_limit < longest:
        raise SettingsError(
            [
                f"a source of {opened.facts.longest_source} tokens may give an output "
                f"of {longest}, but the model has {config.max_positions} positions "
                f"(positions = {config.positions!r}); choose a smaller "
                "max_length_factor or max_length_offset"
            ]
        )


def _export_names(opened: ModelFolder) -> Iterator[str]:
    """Yield the exports in a model folder; raise for any other foreign file."""
    for path in sorted(opened.path.rglob("*")):
        name = path.relative_to(opened.path).as_posix()
        if path.is_dir() or name in opened.manifest["files"] or name == MANIFEST:
            continue
        holder = path.parent
        while holder != opened.path and not (holder / MANIFEST).is_file():
            holder = holder.parent
        if holder == opened.path:
            raise UsageError(
                f"{path} does not belong to this model, and would be lost when the "
                "folder is replaced; move it elsewhere"
            )
        if path == holder / MANIFEST:
            yield holder.relative_to(opened.path).as_posix()


def _without_warnings(decoding: DecodingSettings) -> DecodingSettings:
    """Return the settings that affect translations: all but warnings."""
    return replace(decoding, warnings=WarningSettings())


def _rounded(path: Path) -> dict[str, Tensor] | None:
    """Return the weights as float16; None if they are that, or bfloat16."""
    weights = read_tensors(path)
    if all(each.dtype.itemsize == HALF.itemsize for each in weights.values()):
        return None
    rounded = {name: weight.to(HALF) for name, weight in weights.items()}
    large = [name for name, weight in rounded.items() if not weight.isfinite().all()]
    if large:
        most = f"{torch.finfo(HALF).max:,.0f}"
        raise SettingsError(
            [
                f"weights beyond {most}, the largest float16, are in "
                f"{first_three(large)}; leave the weights as they are"
            ]
        )
    return rounded


def _write(
    opened: ModelFolder,
    decoding: DecodingSettings,
    card: str,
    rounded: Mapping[str, Tensor] | None,
) -> None:
    """Replace the folder by one with the same tokenizers, and weights if not given."""
    written = {GENERATION, GOLDEN, CARD}
    if rounded is not None:
        written.add(WEIGHTS)
        load_weights(opened.model, rounded, opened.path / WEIGHTS)
    described = {
        name: value
        for name, value in opened.manifest.items()
        if name not in ("files", "format", "sha256")
    }
    golden = opened.golden
    otherwise = _without_warnings(decoding) != _without_warnings(opened.decoding)
    if otherwise or rounded is not None:
        sources = [each.source for each in golden]
        golden = tuple(golden_pairs(opened.any_task, opened.model, sources, decoding))
    with storage.new_folder(opened.path, describe=described) as folder:
        for name in opened.manifest["files"]:
            if name not in written:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(opened.path / name, folder / name)
        if rounded is not None:
            write_tensors(folder / WEIGHTS, rounded)
        if TASKS[opened.task_name].searches:
            storage.write_json(folder / GENERATION, as_table(decoding))
        storage.write_json(folder / GOLDEN, [as_table(each) for each in golden])
        storage.write_text(folder / CARD, card)
        _check_copied(folder, opened, written)


def _check_copied(folder: Path, opened: ModelFolder, written: set[str]) -> None:
    """Check that copied files are those that were opened, not replaced meanwhile."""
    for name, facts in opened.manifest["files"].items():
        if name not in written and storage.sha256(folder / name) != facts["sha256"]:
            raise ModelError(
                f"{opened.path / name} changed while it was read; nothing was "
                "written: try again when no other process writes there"
            )


def _recipe_with(
    path: Path, search: Mapping[str, Any], card: CardChanges | None
) -> Recipe:
    recipe = read_run_recipe(path, remedy=f"copy {BEST} elsewhere and edit the copy")
    card = card or CardChanges()
    return replace(
        recipe,
        decoding=_new_decoding(recipe.decoding, search),
        languages=card.languages or recipe.languages,
        license=card.license or recipe.license,
    )


def _write_recipe(path: Path, recipe: Recipe | None) -> bool:
    """Write the recipe if it changed; return whether it did."""
    if recipe is None or recipe == read(Recipe, read_toml(path)):
        return False
    storage.write_text(path, as_toml(recipe))
    return True
