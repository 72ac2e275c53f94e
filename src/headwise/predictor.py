"""A trained model, ready to use from Python: ``headwise.load(folder)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any, overload

import torch

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import NO_PREFIX, Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.decoding.warnings import warnings_of, without_loops
from headwise.documents.sentences import Piece, rejoin, split_long
from headwise.engines import ENGINES, Engine
from headwise.engines.ensemble_engine import ensemble
from headwise.errors import UsageError
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.run import model_path
from headwise.settings import as_table, read
from headwise.tasks.alignment import pharaoh
from headwise.tasks.translated import Candidate, Translated
from headwise.text.vocabulary import UNKNOWN

__all__ = ["Candidate", "Translated", "Translator", "checked_text", "load"]

LINES_AT_ONCE = 2000
"""Lines that are read before any is translated, so that similar lengths meet."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One piece of a line, to be searched."""

    text: str
    tokens: tuple[int, ...]
    settings: DecodingSettings
    prefix: Prefix = NO_PREFIX


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
        if engine not in ENGINES:
            known = ", ".join(ENGINES)
            raise UsageError(f"{engine!r} is not an engine; known: {known}")
        self.opened = opened
        self.models = [opened.model, *(each.model for each in others)]
        self.engine: Engine
        if others:
            self.engine = ensemble([opened, *others], engine, precision)
        else:
            self.engine = ENGINES[engine](opened, precision=precision)

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
        """
        if isinstance(text, str):
            return self.translate([text], **search)[0]
        if isinstance(text, bytes) or not isinstance(text, Iterable):
            raise _no_text(text)
        parts = [checked_text(each).split("\n") for each in text]
        found = self.lines((line for lines in parts for line in lines), **search)
        return ["\n".join(next(found).text for _ in lines) for lines in parts]

    def lines(
        self,
        lines: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        each: Iterable[Mapping[str, Any]] | None = None,
        **search: Any,
    ) -> Iterator[Translated]:
        """Yield what becomes of each line, in order; N lines in, N lines out.

        ``prefixes`` has for each line the text that its translation begins with, and
        ``each`` has decoding settings for each line, on top of ``search``.
        """
        table = {**as_table(self.decoding), **search}
        settings = read(DecodingSettings, table)
        chosen: Iterable[DecodingSettings] = repeat(settings)
        if each is not None:
            chosen = (read(DecodingSettings, {**table, **one}) for one in each)
        begun = repeat("") if prefixes is None else map(checked_text, prefixes)
        waiting = _together(map(checked_text, lines), chosen, begun)
        while some := list(islice(waiting, LINES_AT_ONCE)):
            yield from self._some(some)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], **search: Any
    ) -> list[Candidate]:
        """Return each target as the candidate that it would be for its source.

        ``log_probability`` is what the model gives it as the tokenizer cuts it, END
        counted; ``score`` follows the length penalty.
        """
        if len(sources) != len(targets):
            raise UsageError(
                f"each source needs its target: there are {len(sources)} sources and "
                f"{len(targets)} targets"
            )
        settings = read(DecodingSettings, {**as_table(self.decoding), **search})
        pair = self.opened.tokenizers
        encoded = [
            (pair.source.encode(checked_text(source)), pair.target.encode(target))
            for source, target in zip(sources, map(checked_text, targets), strict=True)
        ]
        scored = self.opened.task.score(self.models, encoded, settings)
        return [
            self._candidate_of(target, found, _Part(source, tuple(tokens), settings))
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
        settings = read(DecodingSettings, {**as_table(self.decoding), **search})
        task = self.opened.task
        (tokens,) = task.encode([checked_text(text)])
        begun = task.prefix(checked_text(prefix))
        found = task.alternatives(self.models, tokens, begun, count, settings)
        part = _Part(text, tuple(tokens), settings)
        return [
            self._candidate_of(self._text(each, part), each, part) for each in found
        ]

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

    def _some(
        self, asked: Sequence[tuple[str, DecodingSettings, str]]
    ) -> list[Translated]:
        task = self.opened.task
        split = [split_long(line, self._fits) for line, _, _ in asked]
        parts = []
        for pieces, (_, settings, prefix) in zip(split, asked, strict=True):
            begun = task.prefix(prefix) if prefix else NO_PREFIX
            for piece in pieces:
                tokens = task.encode([piece.text])[0] if piece.text.strip() else []
                parts.append(_Part(piece.text, tuple(tokens), settings, begun))
                if tokens:  # only what is said first begins the output
                    begun = NO_PREFIX
        spoken = [part for part in parts if part.tokens]  # blank lines ask for nothing
        outputs = [self._found(spoken, settings) for settings in _distinct(spoken)]
        found = {number: each for group in outputs for number, each in group.items()}
        results = iter([found[number] for number in range(len(spoken))])
        waiting = iter(parts)
        lines = []
        for (line, _, _), pieces in zip(asked, split, strict=True):
            mine = [next(waiting) for _ in pieces]
            made = [next(results) if part.tokens else ([], ()) for part in mine]
            joined = self._joined(line, pieces, mine, made)
            if mine[-1].prefix and not any(part.tokens for part in mine):
                note = "a blank line stays blank, whatever it was to begin with"
                joined = replace(joined, warnings=(*joined.warnings, note))
            lines.append(joined)
        return lines

    def _found(
        self, parts: Sequence[_Part], settings: DecodingSettings
    ) -> dict[int, tuple[Sequence[Hypothesis], tuple[str, ...]]]:
        """Search all parts with these settings: outputs and warnings by number."""
        numbers = [n for n, part in enumerate(parts) if part.settings == settings]
        # What a search is does not depend on when it warns.
        plain = replace(settings, warnings=WarningSettings())

        def search(
            places: Sequence[int], settings: DecodingSettings
        ) -> list[list[Hypothesis]]:
            chosen = [parts[numbers[place]] for place in places]
            sources = [part.tokens for part in chosen]
            prefixes = [part.prefix for part in chosen]
            return self.engine.search(sources, settings, prefixes)

        found = search(range(len(numbers)), plain)
        limits = settings.warnings
        if not self.engine.can_search(replace(plain, no_repeat_ngram=1)):
            limits = replace(limits, loop_no_repeat_ngram=0)  # warn of loops only
        outputs, loops = without_loops(search, found, plain, limits)
        return {
            number: (outputs[place], (loops[place],) if place in loops else ())
            for place, number in enumerate(numbers)
        }

    def _fits(self, text: str) -> bool:
        longest = self.opened.facts.longest_source
        return len(self.opened.tokenizers.source.encode(text)) <= longest

    def _joined(
        self,
        line: str,
        pieces: Sequence[Piece],
        parts: Sequence[_Part],
        made: Sequence[tuple[Sequence[Hypothesis], tuple[str, ...]]],
    ) -> Translated:
        """Make one line of the outputs of its pieces; blank pieces have none."""
        spoken = [
            (part, outputs, notes)
            for part, (outputs, notes) in zip(parts, made, strict=True)
            if outputs
        ]
        warnings = []
        if len(spoken) > 1:
            longest = self.opened.facts.longest_source
            warnings.append(
                f"the line is longer than the {longest} tokens the model was trained "
                f"for; it was translated in {len(spoken)} pieces"
            )
        for part, outputs, notes in spoken:
            warnings += notes
            warnings += warnings_of(
                part.text,
                part.tokens,
                self._text(outputs[0], part),
                outputs[0],
                unknown=UNKNOWN,
                limits=part.settings.warnings,
            )
        if len(spoken) == 1:
            part, outputs, _ = spoken[0]
            candidates = [
                self._candidate_of(
                    rejoin(
                        pieces,
                        [self._text(each, part) if p is part else "" for p in parts],
                    ),
                    each,
                    part,
                )
                for each in outputs
            ]
        else:
            # Of a line in several pieces only the best is given: their n-best lists
            # could be combined in very many ways.
            texts = [
                self._text(outputs[0], part) if outputs else ""
                for part, (outputs, _) in zip(parts, made, strict=True)
            ]
            best = [outputs[0] for _, outputs, _ in spoken]
            candidates = [
                Candidate(
                    text=rejoin(pieces, texts),
                    score=sum(each.score for each in best),
                    log_probability=sum(each.log_probability for each in best),
                )
            ]
        return Translated(line, tuple(candidates), tuple(dict.fromkeys(warnings)))

    def _text(self, found: Hypothesis, part: _Part) -> str:
        return self.opened.task.text(
            found, part.text, part.tokens, replace_unknown=part.settings.replace_unknown
        )

    def _candidate_of(self, text: str, found: Hypothesis, part: _Part) -> Candidate:
        task = self.opened.task
        asked = part.settings.token_scores
        return Candidate(
            text=text,
            score=found.score,
            log_probability=found.log_probability,
            tokens=tuple(task.scored_pieces(found)) if asked else (),
            alignment=(
                pharaoh(task.word_alignment(found, part.tokens))
                if part.settings.alignments
                else ""
            ),
        )


def _together(
    lines: Iterator[str],
    settings: Iterable[DecodingSettings],
    prefixes: Iterable[str],
) -> Iterator[tuple[str, DecodingSettings, str]]:
    chosen, begun = iter(settings), iter(prefixes)
    for number, line in enumerate(lines, start=1):
        mine, prefix = next(chosen, None), next(begun, None)
        if mine is None or prefix is None:
            what = "settings" if mine is None else "prefixes"
            raise UsageError(
                f"each line needs its own: line {number:,} has none, {what} are for "
                f"{number - 1:,} lines only; an empty one asks for nothing"
            )
        yield line, mine, prefix
    for name, rest in (("settings", chosen), ("prefixes", begun)):
        if not isinstance(rest, repeat) and next(rest, None) is not None:
            raise UsageError(f"there are more {name} than lines; each is for one line")


def _distinct(parts: Sequence[_Part]) -> list[DecodingSettings]:
    return list(dict.fromkeys(part.settings for part in parts))


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    precision: str = "float32",
) -> Translator:
    """Open a run folder or a model folder; anything amiss is a ``ModelError``.

    Several folders make an ensemble. ``engine`` is a key of ``ENGINES``;
    ``translator.engine.used`` says which ones ran. ``precision`` other than float32
    may change words: bf16 is torch's, float16 and int8 are CTranslate2's.
    """
    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    if not folders:
        raise UsageError("no folder was named; name one, or several for an ensemble")
    _check_device(device)
    opened, *others = (
        open_model_folder(model_path(Path(each)), device=device) for each in folders
    )
    return Translator(opened, engine=engine, precision=precision, others=others)


def _check_device(device: torch.device | str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"device {str(device)!r} cannot be used here ({reason}); 'cpu' always works"
        ) from None


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
