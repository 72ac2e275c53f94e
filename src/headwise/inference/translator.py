"""A trained model, ready to use from Python: ``headwise.load(folder)``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warnings import each_kind_once
from headwise.errors import TranslationWarning, UsageError
from headwise.inference.engines.engine import Engine
from headwise.inference.engines.registry import ENGINES
from headwise.inference.engines.settings import (
    MOST_THREADS,
    WITHOUT_TORCH,
    check_engine,
)
from headwise.inference.line_translator import LineTranslator, Part
from headwise.inference.streaming import Asked, Progress, translated
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.paths import model_path
from headwise.settings import as_table, merged, read
from headwise.tasks.translation.results import Candidate, Translated
from headwise.text.arriving import PAUSE, Pause
from headwise.wording import count_of

if TYPE_CHECKING:
    import torch

    from headwise.model.transformer import Transformer

__all__ = [
    "PAUSE",
    "Candidate",
    "Pause",
    "Progress",
    "Translated",
    "TranslationWarning",
    "Translator",
    "checked_text",
    "load",
    "warn_of",
]


class Translator:
    """A model folder, opened: raw text in, raw text out."""

    def __init__(
        self,
        opened: ModelFolder,
        *,
        engine: str = "auto",
        precision: str = "float32",
        others: Sequence[ModelFolder] = (),
    ) -> None:
        check_engine(engine, precision, models=1 + len(others))
        self.opened = opened
        self._folders = [opened, *others]
        self.engine: Engine
        if others:
            from headwise.inference.engines.ensemble_engine import ensemble

            self.engine = ensemble([opened, *others], engine)
        else:
            self.engine = ENGINES[engine](opened, precision=precision)

    @property
    def models(self) -> list[Transformer]:
        """The models; their weights are read now if the engine did without."""
        return [each.model for each in self._folders]

    @property
    def _by_line(self) -> LineTranslator:
        return LineTranslator(self.opened, self.engine)

    @property
    def decoding(self) -> DecodingSettings:
        """The search that is used unless another is asked for."""
        return self.opened.decoding

    @overload
    def translate(self, text: str, **search: Any) -> str: ...

    @overload
    def translate(self, text: Iterable[str], **search: Any) -> list[str]: ...

    def translate(self, text: str | Iterable[str], **search: Any) -> str | list[str]:
        """Translate a text, or each text of a list.

        ``search`` changes decoding settings for this call, such as ``beam=5``. Line
        breaks inside a text stay where they are; a blank line stays blank; a line that
        is longer than the model was trained for is split, translated and rejoined.

        What looks wrong in a translation is a ``TranslationWarning``, each kind once a
        call; :meth:`lines` returns warnings with the line that they belong to.
        """
        if isinstance(text, bytes) or not isinstance(text, Iterable):
            raise _no_text(text)
        texts = [text] if isinstance(text, str) else text
        parts = [checked_text(each).split("\n") for each in texts]
        unscored = {"scores": False, **search}
        found = self.lines((line for lines in parts for line in lines), **unscored)
        warned: list[Sequence[str]] = []

        def output(each: Translated) -> str:
            warned.append(each.warnings)
            return each.text

        made = ["\n".join(output(next(found)) for _ in lines) for lines in parts]
        warn_of(warned, stacklevel=2)
        return made[0] if isinstance(text, str) else made

    def lines(
        self,
        lines: Iterable[str | Pause],
        *,
        prefixes: Iterable[str] | None = None,
        each: Iterable[Mapping[str, Any]] | None = None,
        on_progress: Callable[[Progress], object] = lambda _: None,
        **search: Any,
    ) -> Iterator[Translated]:
        """Yield what becomes of each line, in order; N lines in, N lines out.

        Lines are read ahead, so that many are translated together. ``PAUSE`` among
        them asks for all that was read before it, and is no line.
        ``prefixes`` has for each line the text that its translation begins with, and
        ``each`` has decoding settings for each line, on top of ``search``.
        """
        chosen: Iterable[DecodingSettings] = repeat(self._searching(search))
        if each is not None:
            chosen = (self._searching(merged(search, one)) for one in each)
        begun = repeat("") if prefixes is None else map(checked_text, prefixes)
        waiting = _together(lines, chosen, begun)
        yield from translated(self._by_line, waiting, on_progress)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], **search: Any
    ) -> list[Candidate]:
        """Return each target as the candidate that it would be for its source.

        ``log_probability`` is what the model gives it as the tokenizer cuts it, END
        counted; ``score`` follows the length penalty.
        """
        if len(sources) != len(targets):
            raise UsageError(
                f"each source needs its target: there are "
                f"{count_of(len(sources), 'source')} and "
                f"{count_of(len(targets), 'target')}"
            )
        settings = self._searching(search)
        pair = self.opened.tokenizers
        encoded = [
            (pair.source.encode(checked_text(source)), pair.target.encode(target))
            for source, target in zip(sources, map(checked_text, targets), strict=True)
        ]
        scored = self.opened.task.score(self.models, encoded, settings)
        return [
            self._by_line.candidate_of(
                target, found, Part(source, tuple(tokens), settings)
            )
            for source, target, (tokens, _), found in zip(
                sources, targets, encoded, scored, strict=True
            )
        ]

    def alternatives(
        self, text: str, prefix: str = "", *, count: int = 5, **search: Any
    ) -> list[Candidate]:
        """Return a translation for each of the ``count`` best tokens after a prefix.

        For typing ahead: they all begin with ``prefix``, go on in different ways, and
        stand in the order of how probable their next token is.
        """
        settings = self._searching(search)
        task = self.opened.task
        (tokens,) = task.encode([checked_text(text)])
        begun = task.prefix(checked_text(prefix))
        found = task.alternatives(self.models, tokens, begun, count, settings)
        part = Part(text, tuple(tokens), settings)
        return [
            self._by_line.candidate_of(self._by_line.text(each, part), each, part)
            for each in found
        ]

    def _searching(self, search: Mapping[str, Any]) -> DecodingSettings:
        """Return the model's settings with others on top, which must fit the model."""
        settings = read(DecodingSettings, merged(as_table(self.decoding), search))
        for each in self._folders:
            settings.check_head(each.config.decoder_layers, each.config.num_heads)
        return settings

    def best_alignment_head(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> str:
        """Return the ``alignment_head`` that links the words of these pairs best.

        A few hundred pairs of a development set do; nobody must have aligned them.
        """
        pair = self.opened.tokenizers
        encoded = [
            (pair.source.encode(source), pair.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        return self.opened.task.best_head(self.models, encoded)[0]


def _together(
    lines: Iterable[str | Pause],
    settings: Iterable[DecodingSettings],
    prefixes: Iterable[str],
) -> Iterator[Asked | Pause]:
    chosen, begun = iter(settings), iter(prefixes)
    number = 0
    for line in lines:
        if isinstance(line, Pause):
            yield line
            continue
        number += 1
        mine, prefix = next(chosen, None), next(begun, None)
        if mine is None or prefix is None:
            what = "settings" if mine is None else "prefixes"
            raise UsageError(
                f"each line needs its own: line {number:,} has none, {what} are for "
                f"{count_of(number - 1, 'line')} only; an empty one asks for nothing"
            )
        yield checked_text(line), mine, prefix
    for name, rest in (("settings", chosen), ("prefixes", begun)):
        if not isinstance(rest, repeat) and next(rest, None) is not None:
            raise UsageError(f"there are more {name} than lines; each is for one line")


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    precision: str = "float32",
    deterministic: bool = False,
    threads: int | None = None,
) -> Translator:
    """Open a run folder or a model folder; anything amiss is a ``ModelError``.

    Several folders make an ensemble. ``engine`` is a key of ``ENGINES``;
    ``translator.engine.used`` says which ones ran. ``precision`` other than float32
    may change words: bf16 is torch's, float16 and int8 are CTranslate2's.
    ``deterministic``: words and scores are the same bits whatever else is translated,
    in whatever order and on however many threads; each sentence is computed alone.
    ``threads`` are CTranslate2's, as many as torch has unless told; torch's own are set
    by ``torch.set_num_threads``.
    """
    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    if not folders:
        raise UsageError("no folder was named; name one, or several for an ensemble")
    _check_device(device)
    if threads is not None and not (
        isinstance(threads, int) and 1 <= threads <= MOST_THREADS
    ):
        raise UsageError(
            f"threads must be an integer from 1 to {MOST_THREADS:,}, not {threads!r}"
        )
    without_weights = engine in WITHOUT_TORCH and len(folders) == 1
    opened, *others = (
        replace(
            open_model_folder(
                model_path(Path(each)), device=device, without_weights=without_weights
            ),
            deterministic=deterministic,
            threads=threads or 0,
        )
        for each in folders
    )
    return Translator(opened, engine=engine, precision=precision, others=others)


def _check_device(device: torch.device | str) -> None:
    if str(device) == "cpu":
        return
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"device {str(device)!r} cannot be used here ({reason}); 'cpu' always works"
        ) from None


def warn_of(of_lines: Sequence[Sequence[str]], *, stacklevel: int) -> None:
    """Warn of what the lines of one call came with, each kind once.

    ``stacklevel`` is counted from the caller, as in ``warnings.warn``.
    """
    for each in each_kind_once(of_lines, "lines"):
        warnings.warn(each, TranslationWarning, stacklevel=stacklevel + 1)


def checked_text(text: object) -> str:
    """Return ``text``, if it is one."""
    if not isinstance(text, str):
        raise _no_text(text)
    return text


def _no_text(given: object) -> UsageError:
    return UsageError(
        f"a text (str) or texts are translated, not {type(given).__name__}; bytes "
        "must be decoded first"
    )
