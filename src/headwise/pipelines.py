"""``headwise.pipeline("translation", model=FOLDER)``, as in transformers 4.

Arguments and results are those of its translation pipeline, so that programs written
for it keep working. Unknown arguments raise ``UsageError``: ignoring one would silently
change the search.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headwise.errors import SettingsError, UsageError
from headwise.inference.translator import Translator, load, warn_of
from headwise.pipeline_arguments import (
    CALLING,
    DEFAULTS,
    OPENING,
    RESULTS,
    SEARCH,
    Search,
    drop_neutral,
    unknown,
)
from headwise.run_folder.paths import languages_of_model
from headwise.settings import changed_by
from headwise.text.lines import join_at_breaks, split_at_breaks
from headwise.text_arguments import checked_text, not_text

TASK = re.compile(r"translation(_(?P<source>[A-Za-z-]+)_to_(?P<target>[A-Za-z-]+))?")
Record = dict[str, str]
Warned = list[Sequence[str]]


def pipeline(
    task: str = "translation",
    model: str | Path | Translator | None = None,
    *,
    device: int | str | torch.device | None = None,
    engine: str = "auto",
    backend: str = "auto",
    precision: str = "float32",
    deterministic: bool = False,
    threads: int | None = None,
    **options: Any,
) -> TranslationPipeline:
    """Open a run or model folder as a translation pipeline.

    ``device`` is as in transformers: -1 or None for the CPU, a number for that GPU.
    ``engine`` to ``threads`` are those of ``headwise.load``. A ``Translator`` as
    ``model`` is open already, so that none of these goes with it. Other ``options`` are
    defaults for every call.
    """
    if not isinstance(task, str) or not TASK.fullmatch(task):
        raise UsageError(
            f"{task!r} is not a task of headwise.pipeline; use 'translation', or a "
            "name such as 'translation_en_to_de'"
        )
    if model is None:
        raise UsageError(
            "there is no default model; give a run folder or model folder: "
            "headwise.pipeline('translation', model='en-de')"
        )
    for name in ("tokenizer", "config"):
        given = options.pop(name, None)
        if given is not None and given != model:
            raise UsageError(
                f"{name}={given!r} cannot be used: a model folder has its own; leave "
                f"{name} out"
            )
    options = drop_neutral(options, OPENING)
    opening: dict[str, Any] = {
        "device": _device(device),
        "engine": engine,
        "backend": backend,
        "precision": precision,
        "deterministic": deterministic,
        "threads": threads,
    }
    if not isinstance(model, Translator):
        model = load(model, **opening)
    elif changed := [name for name in DEFAULTS if opening[name] != DEFAULTS[name]]:
        raise UsageError(
            f"{changed[0]}={opening[changed[0]]!r} cannot be used: the model is open "
            f"already; give {changed[0]} to headwise.load, which opens it"
        )
    _check_languages(task, model)
    return TranslationPipeline(model, task=task, **options)


def _check_languages(task: str, model: Translator) -> None:
    """Raise if a task such as translation_en_to_fr names other languages."""
    named = TASK.fullmatch(task)
    languages = languages_of_model(model.opened.location)
    if not named or not named[1] or languages is None:
        return
    if named.group("source", "target") != languages:
        source, target = languages
        raise UsageError(
            f"{model.opened.path} translates {source} to {target}, by its card, which "
            f"is 'translation_{source}_to_{target}', not {task!r}"
        )


class TranslationPipeline:
    """Callable that turns texts into ``{"translation_text": ...}``."""

    def __init__(
        self, translator: Translator, *, task: str = "translation", **options: Any
    ) -> None:
        self.translator = translator
        self.task = task
        self.options = options
        self._parse_options({})  # raises for unknown options

    def __call__(self, texts: Any, *more: Any, **options: Any) -> Any:
        """Translate a text, a list of texts, or any iterable of texts.

        A text gives a list of its translations: one, or ``num_return_sequences``, best
        first. A list gives one translation per text, or a list of several per text. Any
        other iterable is read lazily, ``batch_size`` texts at a time (default 1), and
        gives a list per text.
        """
        if more:
            raise UsageError(
                f"{1 + len(more)} texts were given as separate arguments; give a list"
            )
        search, result_options = self._parse_options(options)
        warned: Warned = []
        if isinstance(texts, str):
            outputs = next(self._records([texts], search, result_options, warned))
            warn_of(warned, stacklevel=2)
            return outputs
        if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
            raise not_text(texts)
        if not isinstance(texts, list | tuple):
            return self._lazily(iter(texts), search, result_options)
        found = list(self._records(texts, search, result_options, warned))
        warn_of(warned, stacklevel=2)
        if search.get("num_best", 1) == 1:
            return [record for (record,) in found]
        return found

    def _lazily(
        self, texts: Iterator[str], search: Search, result_options: dict[str, Any]
    ) -> Iterator[list[Record]]:
        while batch := list(islice(texts, result_options.get("batch_size") or 1)):
            warned: Warned = []
            yield from self._records(batch, search, result_options, warned)
            warn_of(warned, stacklevel=2)

    def _records(
        self,
        texts: Iterable[str],
        search: Search,
        result_options: dict[str, Any],
        warned: Warned,
    ) -> Iterator[list[Record]]:
        """Yield the translations of each text; of a text of several lines, the best.

        Warnings of each line are appended to ``warned``.
        """
        breaks_of_texts: deque[Sequence[str]] = deque()

        def lines() -> Iterator[str]:
            for text in texts:
                parts, breaks = split_at_breaks(checked_text(text))
                breaks_of_texts.append(breaks)
                yield from parts

        found = self.translator.lines(lines(), **search)
        for first in found:
            breaks = breaks_of_texts.popleft()
            rest = list(islice(found, len(breaks)))
            warned += [each.warnings for each in (first, *rest)]
            if rest:
                translated = [each.text for each in (first, *rest)]
                outputs = [join_at_breaks(translated, breaks)]
            else:
                outputs = [each.text for each in first.candidates]
            if result_options.get("clean_up_tokenization_spaces"):
                outputs = [cleaned_up(each) for each in outputs]
            yield [{"translation_text": each} for each in outputs]

    def _parse_options(
        self, options: Mapping[str, Any]
    ) -> tuple[Search, dict[str, Any]]:
        """Split options into decoding settings and options of the results."""
        given = drop_neutral({**self.options, **options}, CALLING)
        result_options = {name: given.pop(name) for name in RESULTS if name in given}
        for name, value in result_options.items():
            RESULTS[name](name, value)
        search: Search = {}
        for name, value in given.items():
            if name not in SEARCH:
                raise unknown(name, value)
            search |= SEARCH[name](name, value)
        if "max_new_tokens" in given:  # wins over max_length, as in transformers
            search |= SEARCH["max_new_tokens"]("", given["max_new_tokens"])
        self._check(search)
        return search, result_options

    def _check(self, search: Search) -> None:
        default = self.translator.decoding
        beam = search.get("beam", default.beam)
        count = search.get("num_best", 1)
        if count > beam:
            raise UsageError(
                f"num_return_sequences={count} is more than the beam of {beam}; set "
                f"num_beams={count}"
            )
        try:
            changed_by(default, search)
        except SettingsError as error:
            raise UsageError(f"invalid decoding settings:\n{error}") from None


def cleaned_up(text: str) -> str:
    """Remove spaces before punctuation and English contractions."""
    for before, after in SPACES.items():
        text = text.replace(before, after)
    return text


SPACES = {
    **{f" {sign}": sign for sign in ".?!,"},
    " ' ": "'",
    **{f" {ending}": ending for ending in ("n't", "'m", "'s", "'ve", "'re")},
}
"""In the order of transformers."""


def _device(given: int | str | torch.device | None) -> str | torch.device:
    if isinstance(given, bool):
        raise UsageError(
            f"device must be a number or a name such as 'cpu', not {given}"
        )
    if given is None or (isinstance(given, int) and given < 0):
        return "cpu"
    if isinstance(given, int):
        return f"cuda:{given}"
    return given
