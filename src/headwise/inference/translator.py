"""The Python interface to a trained model: ``headwise.load(folder)``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warnings import merge_warnings
from headwise.errors import DataError, TranslationWarning, UsageError
from headwise.inference.arguments import (
    cannot_pickle,
    check_count,
    check_device,
    check_flag,
    check_threads,
    checked_folders,
    checked_pairs,
    checked_tables,
)
from headwise.inference.engines.engine import Engine
from headwise.inference.engines.engine_names import (
    MAY_DO_WITHOUT_TORCH,
    check_engine,
)
from headwise.inference.engines.registry import make_engine, make_ensemble
from headwise.inference.line_translator import EncodedPiece, LineTranslator
from headwise.inference.streaming_translation import (
    LineRequest,
    Progress,
    translate_stream,
)
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.paths import model_path
from headwise.settings import changed_by, merged
from headwise.tasks.translation.results import Candidate, Translated
from headwise.text.lines import join_at_breaks, split_at_breaks, without_break
from headwise.text.nonblocking_lines import PAUSE, Pause
from headwise.text_arguments import check_list, checked_text, checked_texts
from headwise.wording import count_of

if TYPE_CHECKING:
    import torch

    from headwise.inspection.inspector import Inspector
    from headwise.model.encoder_decoder import EncoderDecoder

__all__ = [
    "PAUSE",
    "Candidate",
    "Pause",
    "Progress",
    "Translated",
    "TranslationWarning",
    "Translator",
    "load",
    "warn_of",
]


class Translator:
    """An opened model folder, or an ensemble of several: raw text in, raw text out."""

    def __init__(
        self,
        opened: ModelFolder,
        *,
        engine: str = "auto",
        backend: str = "auto",
        precision: str = "float32",
        others: Sequence[ModelFolder] = (),
    ) -> None:
        check_engine(engine, precision, backend, models=1 + len(others))
        self.opened = opened
        self._folders = [opened, *others]
        self.engine: Engine = (
            make_ensemble(self._folders, engine, backend)
            if others
            else make_engine(opened, engine, backend, precision)
        )

    @property
    def folders(self) -> list[ModelFolder]:
        """The opened folders, several of an ensemble."""
        return list(self._folders)

    @property
    def models(self) -> list[EncoderDecoder]:
        """The models; their weights are read now if the engine has not needed them."""
        return [each.model for each in self._folders]

    @property
    def _line_translator(self) -> LineTranslator:
        return LineTranslator(self.opened, self.engine)

    @property
    def decoding(self) -> DecodingSettings:
        """The default settings of a search."""
        return self.opened.decoding

    @cached_property
    def inspector(self) -> Inspector:
        """What looks into the model, the first one of an ensemble."""
        from headwise.inspection.inspector import Inspector

        return Inspector(self.opened.task, self.opened.model, self.decoding)

    @overload
    def translate(self, text: str, **search: Any) -> str: ...

    @overload
    def translate(self, text: Iterable[str], **search: Any) -> list[str]: ...

    def translate(self, text: str | Iterable[str], **search: Any) -> str | list[str]:
        """Translate a text, or each text of a list.

        ``search`` overrides decoding settings for this call, such as ``beam=5``. Line
        breaks inside a text are kept; a blank line stays blank; a line longer than the
        model was trained for is split, translated and rejoined.

        A suspicious translation gives a ``TranslationWarning``, each kind once a call;
        :meth:`lines` returns the warnings of each line.
        """
        split = [split_at_breaks(each) for each in checked_texts(text)]
        unscored = {"scores": False, **search}
        found = self.lines((line for lines, _ in split for line in lines), **unscored)
        warnings_of_lines: list[Sequence[str]] = []

        def output(each: Translated) -> str:
            warnings_of_lines.append(each.warnings)
            return each.text

        outputs = [
            join_at_breaks([output(next(found)) for _ in lines], breaks)
            for lines, breaks in split
        ]
        warn_of(warnings_of_lines, stacklevel=2)
        return outputs[0] if isinstance(text, str) else outputs

    def lines(
        self,
        lines: Iterable[str | Pause],
        /,
        *,
        prefixes: Iterable[str] | None = None,
        each: Iterable[Mapping[str, Any]] | None = None,
        on_progress: Callable[[Progress], object] = lambda _: None,
        **search: Any,
    ) -> Iterator[Translated]:
        """Yield the translation of each line, in order; N lines in, N lines out.

        The line break at the end of a line, if it has one, is no part of it. Lines are
        read ahead, some thousands, so that many are translated together. ``PAUSE``
        among them, which is no line, makes all lines before it be translated first.
        ``prefixes`` has for each line the text that its translation starts with, and
        ``each`` has decoding settings for each line, which override ``search``.
        """
        check_list("lines", lines)
        if prefixes is not None:
            check_list("prefixes", prefixes)
        if not callable(on_progress):
            raise UsageError(f"on_progress must be a function, not {on_progress!r}")
        settings: Iterator[DecodingSettings] = repeat(self._settings(search))
        if each is not None:
            settings = (
                self._settings(merged(search, one)) for one in checked_tables(each)
            )
        requests = self._requests(lines, prefixes, settings)
        return translate_stream(self._line_translator, requests, on_progress)

    def _requests(
        self,
        lines: Iterable[str | Pause],
        prefixes: Iterable[str] | None,
        settings: Iterator[DecodingSettings],
    ) -> Iterator[LineRequest | Pause]:
        """Yield each line with its settings and prefix."""
        texts = repeat("") if prefixes is None else map(checked_text, prefixes)
        number = 0
        for line in lines:
            if isinstance(line, Pause):
                yield line
                continue
            number += 1
            of_line, prefix = next(settings, None), next(texts, None)
            if of_line is None or prefix is None:
                what = "settings" if of_line is None else "prefix"
                raise DataError(
                    f"line {number:,} has no {what}: there are only those of "
                    f"{count_of(number - 1, 'line')}; give one for each line, an empty "
                    "one where none is wanted"
                )
            yield without_break(checked_text(line)), of_line, prefix
        for name, rest in (("settings", settings), ("prefixes", texts)):
            if not isinstance(rest, repeat) and next(rest, None) is not None:
                raise DataError(
                    f"there are more {name} than lines, which are {number:,}; give one "
                    "for each line"
                )

    def score(
        self, sources: Sequence[str], targets: Sequence[str], **search: Any
    ) -> list[Candidate]:
        """Return each target as the candidate that it would be for its source.

        ``log_probability`` is the model's, for the tokenizer's segmentation and END;
        ``score`` has the length penalty.
        """
        texts = checked_pairs(sources, targets)
        settings = self._settings(search)
        encoded = self._encode_pairs(texts)
        scored = self.opened.task.score(self.models, encoded, settings)
        return [
            self._line_translator.candidate_of(
                target, found, EncodedPiece(source, tuple(tokens), settings)
            )
            for (source, target), (tokens, _), found in zip(
                texts, encoded, scored, strict=True
            )
        ]

    def alternatives(
        self, text: str, prefix: str = "", *, count: int = 5, **search: Any
    ) -> list[Candidate]:
        """Return a translation for each of the ``count`` best tokens after a prefix.

        For interactive typing: all start with ``prefix``, differ in the next token, and
        are sorted by its probability.
        """
        check_count("count", count)
        settings = self._settings(search)
        task = self.opened.task
        (tokens,) = task.encode([checked_text(text)])
        found = task.generator(self.models).alternatives(
            tokens, task.prefix(checked_text(prefix)), count, settings
        )
        piece = EncodedPiece(text, tuple(tokens), settings)
        translator = self._line_translator
        return [
            translator.candidate_of(translator.decode(each, piece), each, piece)
            for each in found
        ]

    def _settings(self, search: Mapping[str, Any]) -> DecodingSettings:
        """Return the model's settings with overrides, checked against the model."""
        settings = changed_by(self.decoding, search)
        for each in self._folders:
            settings.check_head(*each.config.cross_attention_shape)
        return settings

    def best_alignment_head(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> str:
        """Return the ``alignment_head`` that aligns these pairs best.

        A few hundred pairs of a development set suffice, without manual alignments.
        Raises ``UsageError`` if none of them has text on both sides.
        """
        encoded = self._encode_pairs(checked_pairs(sources, targets))
        if not any(source and target for source, target in encoded):
            raise UsageError(
                f"{count_of(len(encoded), 'pair')} given, none with text on both "
                "sides; give translated sentences, such as a development set"
            )
        best, _ = self.opened.task.scorer(self.models).best_head(encoded)
        return best

    def _encode_pairs(
        self, texts: Sequence[tuple[str, str]]
    ) -> list[tuple[list[int], list[int]]]:
        pair = self.opened.tokenizers
        return [
            (pair.source.encode(source), pair.target.encode(target))
            for source, target in texts
        ]

    def __reduce__(self) -> Any:
        """Raise ``UsageError``: threads and compiled code belong to this process."""
        raise cannot_pickle("Translator")


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    backend: str = "auto",
    precision: str = "float32",
    deterministic: bool = False,
    threads: int | None = None,
) -> Translator:
    """Open a run folder or a model folder; raise ``ModelError`` if it is damaged.

    Several folders make an ensemble. ``engine`` is auto, torch or ctranslate2;
    ``translator.engine.used`` says which ones ran. ``backend`` is how torch computes:
    auto, native (C kernels), torch, or reference, without a KV cache. ``precision``
    other than float32 may change words: bf16 is torch's, float16 and int8 are
    CTranslate2's.
    ``deterministic``: words and scores are the same bits for any batch, order and
    number of threads; each sentence is computed alone. ``threads`` are those of an
    engine without torch, by default as many as torch's, and of torch if such an engine
    comes to import it; else ``torch.set_num_threads`` sets torch's.
    """
    folders = checked_folders(folder)
    check_device(device)
    check_flag("deterministic", deterministic)
    check_threads(threads)
    check_engine(engine, precision, backend, models=len(folders))
    # Engines that need torch load it, and the weights, when they are made.
    without_weights = engine in MAY_DO_WITHOUT_TORCH and len(folders) == 1
    opened, *others = (
        replace(
            open_model_folder(
                model_path(each), device=device, without_weights=without_weights
            ),
            deterministic=deterministic,
            threads=threads or 0,
        )
        for each in folders
    )
    return Translator(
        opened, engine=engine, backend=backend, precision=precision, others=others
    )


def warn_of(of_lines: Sequence[Sequence[str]], *, stacklevel: int) -> None:
    """Emit the warnings of the lines of one call, each kind once.

    ``stacklevel`` is counted from the caller, as in ``warnings.warn``.
    """
    for each in merge_warnings(of_lines, "lines"):
        warnings.warn(each, TranslationWarning, stacklevel=stacklevel + 1)
