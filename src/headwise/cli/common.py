"""Steps that several commands share: recipe, corpus, training, translation, scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.checks import check_files, check_set
from headwise.cli.options import say
from headwise.cli.recipe_args import resolve_checked
from headwise.cli.standard_streams import message_stream
from headwise.data.settings import DataSettings
from headwise.errors import DataError, UsageError
from headwise.recipe import Recipe, preset_for
from headwise.settings import merged, read, read_toml, with_overrides
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.inference.translator import Translator
    from headwise.metrics.score import Score
    from headwise.training.state import TrainingState


def recipe_for(
    source: Path | None,
    target: Path | None,
    *,
    dev: tuple[Path, Path] | None = None,
    languages: tuple[str, str] | None = None,
    preset: str | None = None,
    recipe_file: Path | None = None,
    assignments: Sequence[str] = (),
    max_minutes: float | None = None,
    also: Mapping[str, Any] | None = None,
) -> Recipe:
    """Build the recipe of a command line; the data decide what it leaves open.

    ``also`` is a table of settings that come from other options. Raises ``UsageError``
    if no text is named, ``SettingsError`` for a setting that is refused.
    """
    check_files(source, target, *(dev or ()), recipe_file)
    check_set(assignments)
    _check_languages(languages)
    extra: dict[str, Any] = dict(also or {})
    if source is not None:
        corpus = {"source": str(source)}
        if target is not None:
            corpus["target"] = str(target)
        extra = merged(extra, {"data": {"corpora": [corpus]}})
    if dev is not None:
        held_out = {"source": str(dev[0]), "target": str(dev[1])}
        extra = merged(extra, {"data": {"dev": held_out}})
    if languages is not None:
        file = {} if recipe_file is None else read_toml(recipe_file)
        extra = merged(extra, _language_settings(merged(file, extra), languages))
    if max_minutes is not None:
        extra = merged(extra, {"training": {"max_minutes": max_minutes}})
    if preset is None and (recipe_file is None or not _has_preset(recipe_file)):
        preset = _preset_for_data(recipe_file, assignments, extra)
    recipe = resolve_checked(
        preset=preset, file=recipe_file, assignments=assignments, extra=extra
    )
    if not recipe.data.corpora:
        raise UsageError(
            "no training text: give SOURCE and TARGET, or a --recipe with "
            "[[data.corpora]]"
        )
    return recipe


def _check_languages(languages: tuple[str, str] | None) -> None:
    """Refuse a file in place of a language code: the second code was forgotten."""
    for each in languages or ():
        if Path(each).is_file():
            raise UsageError(
                "--languages takes two codes, SOURCE TARGET, such as --languages en "
                f"de, but {each} is a file; give both codes before it"
            )


def _language_settings(
    table: Mapping[str, Any], languages: tuple[str, str]
) -> dict[str, Any]:
    """Return settings that read each text from the JSON field of its language.

    A corpus that names its fields keeps them.
    """
    fields = dict(zip(("source_field", "target_field"), languages, strict=True))

    def named(corpus: Any) -> Any:
        if not isinstance(corpus, Mapping) or {"target", *fields} & corpus.keys():
            return corpus
        return {**corpus, **fields}

    data = table.get("data", {})
    found: dict[str, Any] = {}
    if isinstance(data.get("corpora"), list):
        found["corpora"] = [named(each) for each in data["corpora"]]
    if "dev" in data:
        found["dev"] = named(data["dev"])
    return {"languages": list(languages), "data": found}


def _has_preset(recipe_file: Path) -> bool:
    return "preset" in read_toml(recipe_file)


def _preset_for_data(
    recipe_file: Path | None, assignments: Sequence[str], extra: dict[str, Any]
) -> str | None:
    from headwise.data.corpus_reader import count_pairs

    # The data alone: the other settings may need the preset that is to be chosen.
    table = merged(read_toml(recipe_file) if recipe_file else {}, extra)
    named = with_overrides(table, assignments).get("data", {})
    if not isinstance(named, dict):
        return None
    corpora = read(DataSettings, named, "data.").corpora
    num_pairs = sum(count_pairs(each) for each in corpora)
    if not num_pairs:
        return None
    preset = preset_for(num_pairs)
    say(f"{count_of(num_pairs, 'pair')}: preset {preset} (--preset chooses another)")
    return preset


def prepare_corpus(folder: Path, recipe: Recipe) -> PreparedCorpus:
    """Prepare the text of a run in its folder.

    Raises if the folder contains a run of another recipe or another text.
    """
    from headwise.data.prepare import fingerprint, prepare
    from headwise.run_folder.claim import check_claimable, claim_folder
    from headwise.run_folder.paths import PREPARED, has_checkpoints

    check_claimable(folder)
    text = fingerprint(recipe.data, recipe.text, seed=recipe.seed)
    with claim_folder(folder):
        if has_checkpoints(folder):
            from headwise.run_folder.run import check_run  # it imports torch

            check_run(folder, recipe, text)
        return prepare(
            recipe.data, recipe.text, folder / PREPARED, seed=recipe.seed, say=say
        )


def train_model(
    folder: Path,
    recipe: Recipe,
    corpus: PreparedCorpus,
    device: str,
    *,
    until: int | None = None,
) -> TrainingState:
    """Train with progress bar, TensorBoard events and report; return the last state."""
    from rich.console import Console

    from headwise.reports.run_page import RunPage
    from headwise.run_folder.run import train_run
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.progress import TrainingProgress
    from headwise.training.signals import StopSignals
    from headwise.training.tensorboard import TensorBoardEvents
    from headwise.training.time_left import TimeLeft

    keep_freed_memory()
    console = Console(file=message_stream(), highlight=False)
    progress = TrainingProgress(console, facts=corpus.facts)
    events = TensorBoardEvents(folder / "tensorboard", say=progress.on_message)
    left = TimeLeft(corpus.facts)
    report = RunPage(folder, say=progress.on_message, time_left=left)
    return train_run(
        folder,
        recipe,
        corpus,
        callbacks=[progress, events, report],
        device=device,
        until=until,
        signals=StopSignals(force_exit=True),
    )


def say_missing_card_fields(folder: Path) -> None:
    """Name the fields that the model card lacks, and the command that fills them."""
    from headwise.run_folder.card_edit import edit_command, missing_fields
    from headwise.run_folder.model_folder import CARD
    from headwise.run_folder.paths import model_path

    card = model_path(folder) / CARD
    if unknown := missing_fields(card.read_text(encoding="utf-8")):
        say(
            f"the model card names no {' and no '.join(unknown)}; to add: "
            f"{edit_command(folder, unknown)}"
        )


def translate_lines(
    translator: Translator, sources: Sequence[str], **search: Any
) -> list[str]:
    """Translate lines; print each kind of warning once."""
    from headwise.decoding.warnings import merge_warnings

    outputs: list[str] = []
    warned: list[Sequence[str]] = []
    for each in translator.lines(sources, **{"scores": False, **search}):
        outputs.append(each.text)
        warned.append(each.warnings)
    for warning in merge_warnings(warned, "lines"):
        say(warning)
    return outputs


def translate_and_score(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str],
    *,
    language: str | None = None,
    **search: Any,
) -> tuple[list[Score], list[str]]:
    """Translate ``sources``; return the score of each metric, and the translations."""
    from headwise.metrics.registry import measure

    outputs = translate_lines(translator, sources, **search)
    scores = [measure(name, outputs, references, language=language) for name in metrics]
    return scores, outputs


def read_parallel(source: Path, reference: Path) -> tuple[list[str], list[str]]:
    """Read two line-aligned text files, plain or .gz.

    Raises ``DataError`` for bytes that are not UTF-8, or different numbers of lines.
    """
    from headwise.data.corpus_reader import read_lines
    from headwise.data.identical_sides import IdenticalSides

    check_files(source, reference)
    sources, references = (
        [line.text for line in read_lines(path, say)] for path in (source, reference)
    )
    if len(sources) != len(references):
        raise DataError(
            f"{source} has {count_of(len(sources), 'line')} and {reference} has "
            f"{len(references):,}; line N of both must belong together"
        )
    same = IdenticalSides()
    for pair in zip(sources, references, strict=True):
        same.add(*pair)
    for note in same.notes(source, reference):
        say(note)
    return sources, references
