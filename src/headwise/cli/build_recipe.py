"""Build the recipe of a command line: options, recipe file, preset, data.

It is also checked that a recipe can be exported as it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwise.cli.argument_checks import check_files, check_set, check_two_files
from headwise.cli.corpus_tables import check_sources, table_for
from headwise.cli.options import say
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.word_pairs import WordPairs, word_pairs
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.interop.unsupported_models import reasons_against
from headwise.recipe import Recipe, resolve
from headwise.recipe.checks import card_problems
from headwise.recipe.preset_training import FEWEST_FOR_SMALL, preset_for
from headwise.run_folder.paths import languages_of_model, model_path, task_of_folder
from headwise.settings import merged, read, read_toml, with_overrides
from headwise.tasks import TASKS, find_task
from headwise.wording import count_of


def recipe_from_options(
    source: Path | None,
    target: Path | None,
    *,
    task: str | None = None,
    dev: tuple[Path, Path] | None = None,
    dev_file: Path | None = None,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
    languages: tuple[str, str] | None = None,
    preset: str | None = None,
    recipe_file: Path | None = None,
    assignments: Sequence[str] = (),
    max_minutes: float | None = None,
    also: Mapping[str, Any] | None = None,
    initialize_from: Sequence[Path] = (),
    out: Path,
    on_message: Callable[[str], None] = say,
) -> Recipe:
    """Build the recipe of a command line; the data decide what it leaves open.

    ``out`` is the output folder, which may hold a run that was begun.
    ``also`` is a table of settings that come from other options. Raises ``UsageError``
    if no text is named, ``SettingsError`` for a setting that is refused.
    """
    check_files(target, *(dev or ()), recipe_file)
    check_task(task)
    if dev is not None and dev_file is not None:
        raise UsageError("--dev and --dev-file both name the validation set; give one")
    check_set(assignments)
    _check_languages(languages)
    extra: dict[str, Any] = dict(also or {})
    if task is not None:
        extra["task"] = task
    file = {} if recipe_file is None else read_toml(recipe_file)
    named = _task_of(_given(file, extra, assignments))
    check_sources(named, source, dev_file)
    if source is not None:
        corpus = table_for(named, source, target, columns=columns, fields=fields)
        check_two_files(source, target)
        _say_replaced_corpora(recipe_file, file, corpus, on_message)
        extra = merged(extra, {"data": {"corpora": [corpus]}})
    if dev is not None:
        extra = merged(extra, {"data": {"dev": table_for(named, *dev)}})
        check_two_files(*dev, remedy="name it by --dev-file")
    if dev_file is not None:
        held_out = table_for(
            named,
            dev_file,
            None,
            columns=columns,
            fields=fields,
            remedy="give two files (--dev SOURCE TARGET)",
        )
        extra = merged(extra, {"data": {"dev": held_out}})
    if languages is not None:
        extra = merged(extra, _language_settings(merged(file, extra), languages))
    if max_minutes is not None:
        extra = merged(extra, {"training": {"max_minutes": max_minutes}})
    if preset is None and "preset" not in file:
        preset = _preset_for_data(_given(file, extra, assignments), on_message)
    if initialize_from:
        extra["initialize_from"] = [str(each) for each in initialize_from]
    recipe = resolve_checked(
        preset=preset,
        file=file,
        assignments=assignments,
        extra=extra,
        out=out,
        on_message=on_message,
    )
    if not recipe.data.corpora:
        raise UsageError(
            "no training text: give SOURCE and TARGET, or a --recipe with "
            "[[data.corpora]]"
        )
    if recipe.initialize_from and recipe.task == "translation":
        _say_other_languages(recipe, on_message)
    return recipe


def _given(
    file: Mapping[str, Any], extra: Mapping[str, Any], assignments: Iterable[str]
) -> dict[str, Any]:
    """Return the settings of recipe file, options and --set, in rising priority."""
    return with_overrides(merged(file, extra), assignments)


def _task_of(table: Mapping[str, Any]) -> str:
    """Return the task that settings name, or translation."""
    return find_task(table.get("task", "translation")).name


def _say_replaced_corpora(
    recipe_file: Path | None,
    file: Mapping[str, Any],
    corpus: Mapping[str, Any],
    on_message: Callable[[str], None],
) -> None:
    """Say that ``corpus``, of the arguments, replaces others of a recipe."""
    data = file.get("data")
    corpora = data.get("corpora") if isinstance(data, Mapping) else None
    if not corpora or not isinstance(corpora, list) or corpora == [corpus]:
        return
    files = [corpus[side] for side in ("source", "target") if side in corpus]
    on_message(
        f"note: the corpora of {recipe_file} ({len(corpora)}) are replaced by "
        f"{' and '.join(files)}"
    )


def _say_other_languages(recipe: Recipe, on_message: Callable[[str], None]) -> None:
    """Say which models to start from translate between other languages than a run.

    It may be meant, and is more often a mistake.
    """
    from headwise.run_folder.card_metadata import languages_of

    here = [*(recipe.languages or languages_of(recipe.data.corpora))]
    if len(here) != 2:
        return
    for folder in recipe.initialize_from:
        there = None
        with suppress(ModelError):  # a run that was begun does without the model
            path = model_path(Path(folder))
            if task_of_folder(path) == "translation":
                there = languages_of_model(path)
        if there is None or _codes(there) == _codes(here):
            continue
        swapped = _codes(there) == _codes(here[::-1])
        remedy = "; if that is not meant, swap SOURCE and TARGET" if swapped else ""
        on_message(
            f"note: {folder} translates from {there[0]} to {there[1]}, and this run "
            f"from {here[0]} to {here[1]}{remedy}"
        )


def _codes(languages: Sequence[str]) -> list[str]:
    """Return the languages without country or script: pt for pt-BR."""
    return [each.lower().partition("-")[0] for each in languages]


def check_task(task: str | None) -> None:
    """Raise ``UsageError`` for a task that there is not."""
    if task is not None and task not in TASKS:
        raise UsageError(f"--task {task} is not a task; choose from {', '.join(TASKS)}")


def _check_languages(languages: tuple[str, str] | None) -> None:
    """Refuse what is no language code: a file, as one was forgotten, or a key."""
    for each in languages or ():
        if Path(each).is_file():
            raise UsageError(
                "--languages takes two codes, SOURCE TARGET, such as --languages en "
                f"de, but {each} is a file; give both codes before it"
            )
    if problems := card_problems(languages or (), None):
        raise UsageError(
            f"--languages: {'; '.join(problems)}; --fields SOURCE TARGET names the "
            "keys of JSON Lines"
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


def _preset_for_data(
    table: Mapping[str, Any], on_message: Callable[[str], None]
) -> str | None:
    # The data alone: the other settings may need the preset that is to be chosen.
    named = table.get("data", {})
    if not isinstance(named, dict):
        return None
    corpora = read(DataSettings, named, "data.").corpora
    num_pairs = sum(_count(each) for each in corpora)
    if not num_pairs:
        return None
    task = _task_of(table)
    words = None
    if task == "translation" and not _chooses_tokenizers(table):
        words = _words(corpora, num_pairs)
    preset = preset_for(num_pairs, task, words)
    found = count_of(num_pairs, TASKS[task].pair_format.noun)
    of_words = "" if words is None else " of single words"
    on_message(f"{found}{of_words}: preset {preset} (--preset chooses another)")
    return preset


OTHER_TOKENIZERS = {
    "text": {"tokenizer", "joint", "byte_fallback"},
    "data": {"both_directions"},
    "training": {"bpe_dropout", "unigram_alpha"},
}
"""Settings that choose tokenizers, or need others than those of characters."""


def _chooses_tokenizers(table: Mapping[str, Any]) -> bool:
    return any(
        isinstance(part := table.get(name), dict) and settings & part.keys()
        for name, settings in OTHER_TOKENIZERS.items()
    )


def _words(corpora: Sequence[CorpusSettings], num_pairs: int) -> WordPairs | None:
    """Return which single words the pairs are of, where a preset depends on it."""
    from headwise.data.corpus_reader import read_pairs

    if num_pairs >= FEWEST_FOR_SMALL or any(each.layout == "text" for each in corpora):
        return None
    pairs = (pair for each in corpora for pair in read_pairs(each))
    return word_pairs((each.source, each.target) for each in pairs if not each.is_empty)


def _count(corpus: CorpusSettings) -> int:
    """Return the number of pairs, or of pictures, of a corpus."""
    if corpus.layout == "pictures":
        from headwise.data.pictures import open_pictures

        return len(open_pictures(Path(corpus.source), 1))
    from headwise.data.corpus_reader import count_pairs

    return count_pairs(corpus)


def resolve_checked(
    *,
    preset: str | None = None,
    file: Path | Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    out: Path | None = None,
    on_message: Callable[[str], None] = say,
) -> Recipe:
    """Build a recipe; raise ``SettingsError`` if it cannot be exported as it asks.

    ``file`` is a recipe file, or the table of one that was read.
    ``must_export_to`` is checked here, as a recipe knows nothing of export formats, and
    models to start from are opened, unless ``out`` has a run that started from them.
    """
    if isinstance(file, Path):
        check_files(file)
        file = read_toml(file)
    assignments = tuple(assignments)
    check_set(assignments)
    table = _given(file or {}, extra or {}, assignments)
    folders = table.get("initialize_from", [])
    training = table.get("training", {})
    teachers = training.get("teacher") if isinstance(training, dict) else None
    pretrained: Mapping[str, Any] = {}
    task = _task_of(table)
    if folders and isinstance(folders, list):
        from headwise.run_folder.pretrained import pretrained_settings

        named = table.get("preset") if preset is None else preset
        pretrained = pretrained_settings([*map(str, folders)], task, out, named)
    elif teachers and isinstance(teachers, list):
        from headwise.run_folder.pretrained import teacher_settings

        pretrained = teacher_settings([*map(str, teachers)], task)
    recipe = resolve(
        preset=preset,
        file=file,
        assignments=assignments,
        extra=extra,
        pretrained=pretrained,
        on_message=on_message,
    )
    if recipe.must_export_to and recipe.task != "translation":
        raise SettingsError(
            [
                f"must_export_to is for task = 'translation', not {recipe.task!r}: "
                "other tools' forms of such models are not written yet; leave it out"
            ]
        )
    reasons = reasons_against(recipe.must_export_to, recipe.model, recipe.text)
    if reasons:
        raise SettingsError([f"must_export_to: {each}" for each in reasons])
    return recipe
