"""A model folder with another card or another search: the same weights, sealed anew.

The folder is written beside itself and takes its own place in one step, so whoever
opens it finds the model as it was or as it is. Weights and tokenizers stay the same
bytes. Exports in it carry card and search as they were; they go with the old folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.recipe import Recipe
from headwise.run_folder.card_edit import CardChanges, edited
from headwise.run_folder.lock import locked, locked_itself
from headwise.run_folder.model_folder import (
    CARD,
    GOLDEN,
    ModelFolder,
    golden_pairs,
    open_model_folder,
)
from headwise.run_folder.paths import BEST, GENERATION, RECIPE, model_path
from headwise.settings import as_table, as_toml, merged, read, read_toml
from headwise.storage import MANIFEST


@dataclass(frozen=True, kw_only=True)
class Edited:
    """What became of a model folder."""

    path: Path
    search: dict[str, tuple[object, object]]
    """Settings of the search that changed: what they were, and what they are."""

    searches_otherwise: bool
    """Whether one of them may choose other words; thresholds of warnings do not."""

    card_changed: bool
    golden: int
    """Golden translations that were made again."""

    stale: tuple[str, ...]
    """Exports that were in the folder, made of the model as it was; they are gone."""

    recipe: Path | None
    """The recipe of the run, where that was changed too."""


def edit_model(
    folder: Path, *, search: Mapping[str, Any], card: CardChanges | None = None
) -> Edited:
    """Change the default ``search`` and ``card`` of a model, or of a run's best one.

    A run whose best model is changed gets the same into its recipe, so that a better
    model of it has them too; it is refused while somebody works in it.
    """
    with _run_of(folder) as run:
        path = model_path(folder)
        opened = open_model_folder(path)
        stale = tuple(_exports(opened))
        decoding = _searching(opened.decoding, search)
        _check_fits(opened, decoding)
        before = (path / CARD).read_text(encoding="utf-8")
        after = edited(before, card or CardChanges())
        recipe = None if run is None else _recipe_with(run / RECIPE, search, card)
        changed = _changed(as_table(opened.decoding), as_table(decoding))
        otherwise = _search_of(decoding) != _search_of(opened.decoding)
        if changed or after != before:
            _write(opened, decoding, after)
        else:
            stale = ()
        has_other_recipe = run is not None and _write_recipe(run / RECIPE, recipe)
        return Edited(
            path=path,
            search=changed,
            searches_otherwise=otherwise,
            card_changed=after != before,
            golden=len(opened.golden) if otherwise else 0,
            stale=stale,
            recipe=run / RECIPE if run is not None and has_other_recipe else None,
        )


@contextmanager
def _run_of(folder: Path) -> Iterator[Path | None]:
    """Hold the run that ``folder`` is, or whose best model it is; else itself, None."""
    place = folder.resolve()
    run = place.parent if place.name == BEST else place
    if not (run / RECIPE).is_file():
        with locked_itself(model_path(place)):
            yield None
        return
    with locked(run):
        yield run


def _searching(before: DecodingSettings, table: Mapping[str, Any]) -> DecodingSettings:
    if "num_best" in table:
        raise SettingsError(
            [
                "num_best is asked for where a model is used, and is no default of "
                "one; headwise translate --search num_best=... asks for it"
            ]
        )
    return read(DecodingSettings, merged(as_table(before), table))


def _check_fits(opened: ModelFolder, decoding: DecodingSettings) -> None:
    """Refuse outputs longer than learned positions go, and heads that are not there."""
    config = opened.config
    decoding.check_head(config.decoder_layers, config.num_heads)
    longest = decoding.max_length(opened.facts.longest_source)
    if config.positions == "learned" and config.max_positions < longest:
        raise SettingsError(
            [
                f"a source of {opened.facts.longest_source} tokens may become "
                f"{longest}, but the learned positions of this model end at "
                f"{config.max_positions}; a smaller max_length_factor or "
                "max_length_offset would fit"
            ]
        )


def _exports(opened: ModelFolder) -> Iterator[str]:
    """Name the exports in a model folder; refuse to lose what is anything else."""
    for path in sorted(opened.path.rglob("*")):
        name = path.relative_to(opened.path).as_posix()
        if path.is_dir() or name in opened.manifest["files"] or name == MANIFEST:
            continue
        holder = path.parent
        while holder != opened.path and not (holder / MANIFEST).is_file():
            holder = holder.parent
        if holder == opened.path:
            raise UsageError(
                f"{path} is no file of this model, and would be lost, as the folder "
                "is written anew; move it elsewhere"
            )
        if path == holder / MANIFEST:
            yield holder.relative_to(opened.path).as_posix()


def _changed(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str = ""
) -> dict[str, tuple[object, object]]:
    """Name the settings that differ, those of tables inside as ``warnings.copied``."""
    changed: dict[str, tuple[object, object]] = {}
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changed |= _changed(before, after, f"{path}{name}.")
        elif before != after:
            changed[f"{path}{name}"] = before, after
    return changed


def _search_of(decoding: DecodingSettings) -> DecodingSettings:
    """Return what the model itself and its exports search by: all but warnings."""
    return replace(decoding, warnings=WarningSettings())


def _write(opened: ModelFolder, decoding: DecodingSettings, card: str) -> None:
    """Write the folder anew, with the weights and tokenizers that it has."""
    written = {GENERATION, GOLDEN, CARD}
    described = {
        name: value
        for name, value in opened.manifest.items()
        if name not in ("files", "format", "sha256")
    }
    golden = opened.golden
    if _search_of(decoding) != _search_of(opened.decoding):
        sources = [each.source for each in golden]
        golden = tuple(golden_pairs(opened.task, opened.model, sources, decoding))
    with storage.new_folder(opened.path, describe=described) as folder:
        for name in opened.manifest["files"]:
            if name not in written:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(opened.path / name, folder / name)
        storage.write_json(folder / GENERATION, as_table(decoding))
        storage.write_json(folder / GOLDEN, [as_table(each) for each in golden])
        storage.write_text(folder / CARD, card)
        _check_copied(folder, opened, written)


def _check_copied(folder: Path, opened: ModelFolder, written: set[str]) -> None:
    """See that what stays is what was opened, and not what replaced it meanwhile."""
    for name, facts in opened.manifest["files"].items():
        if name not in written and storage.sha256(folder / name) != facts["sha256"]:
            raise ModelError(
                f"{opened.path / name} changed while it was read; nothing was "
                "written: try again when nobody else writes there"
            )


def _recipe_with(
    path: Path, search: Mapping[str, Any], card: CardChanges | None
) -> Recipe:
    try:
        recipe = read(Recipe, read_toml(path))
    except SettingsError as error:
        raise ModelError(
            f"{path} is not the recipe that this run was made with; put it back, or "
            f"copy {BEST} elsewhere and edit the copy:\n{error}"
        ) from None
    card = card or CardChanges()
    return replace(
        recipe,
        decoding=_searching(recipe.decoding, search),
        languages=card.languages or recipe.languages,
        license=card.license or recipe.license,
    )


def _write_recipe(path: Path, recipe: Recipe | None) -> bool:
    """Write a recipe if it is another one; tell whether it was."""
    if recipe is None or recipe == read(Recipe, read_toml(path)):
        return False
    storage.write_text(path, as_toml(recipe))
    return True
