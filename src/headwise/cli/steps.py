"""What several verbs do in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.options import say
from headwise.errors import UsageError
from headwise.recipe import Recipe, merged, preset_for, resolve
from headwise.settings import read_toml

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.metrics.score import Score
    from headwise.predictor import Translator
    from headwise.training.state import TrainingState


def recipe_for(
    source: Path | None,
    target: Path | None,
    *,
    dev: tuple[Path, Path] | None = None,
    preset: str | None = None,
    recipe_file: Path | None = None,
    assignments: Sequence[str] = (),
    max_minutes: float | None = None,
) -> Recipe:
    """Put the recipe of a command line together; the data choose what is not said."""
    extra: dict[str, Any] = {}
    if source is not None:
        corpus = {"source": str(source)}
        if target is not None:
            corpus["target"] = str(target)
        extra = {"data": {"corpora": [corpus]}}
    if dev is not None:
        held_out = {"source": str(dev[0]), "target": str(dev[1])}
        extra = merged(extra, {"data": {"dev": held_out}})
    if max_minutes is not None:
        extra = merged(extra, {"training": {"max_minutes": max_minutes}})
    settled = preset or (recipe_file and read_toml(recipe_file).get("preset"))
    if not settled:
        preset = _chosen_preset(recipe_file, assignments, extra)
    recipe = resolve(
        preset=preset, file=recipe_file, assignments=assignments, extra=extra
    )
    if not recipe.data.corpora:
        raise UsageError(
            "no text is named: give SOURCE and TARGET, or a --recipe with "
            "[[data.corpora]]"
        )
    return recipe


def _chosen_preset(
    recipe_file: Path | None, assignments: Sequence[str], extra: dict[str, Any]
) -> str | None:
    from headwise.data.reading import count_pairs

    draft = resolve(file=recipe_file, assignments=assignments, extra=extra)
    if not draft.data.corpora:
        return None
    num_pairs = sum(count_pairs(corpus) for corpus in draft.data.corpora)
    preset = preset_for(num_pairs)
    say(f"{num_pairs:,} pairs: preset {preset} (--preset chooses another)")
    return preset


def trained(
    folder: Path, recipe: Recipe, corpus: PreparedCorpus, device: str
) -> TrainingState:
    """Train with a live display and the memory allocator set for it."""
    from headwise.run_folder.run import train_run
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.progress import TrainingProgress

    keep_freed_memory()
    return train_run(
        folder, recipe, corpus, watchers=[TrainingProgress()], device=device
    )


def measured(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str],
    *,
    language: str | None = None,
    **search: Any,
) -> tuple[list[Score], list[str]]:
    """Translate ``sources`` and compute each metric; also return the translations."""
    from headwise.metrics.registry import measure

    outputs = translator.translate(sources, **search)
    scores = [measure(name, outputs, references, language=language) for name in metrics]
    return scores, outputs


def read_texts(path: Path) -> list[str]:
    """Read a text file, plain or .gz, strictly; its lines end at line feeds only."""
    from headwise.data.reading import read_lines

    return [line.text for line in read_lines(path, say)]
