"""A trained model, ready to use from Python: ``headwise.load(folder)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.documents.sentences import Piece, rejoin, split_long
from headwise.engines import ENGINES
from headwise.errors import UsageError
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.run import model_path
from headwise.settings import as_table, read

LINES_AT_ONCE = 2000
"""Lines that are read before any is translated, so that similar lengths meet."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One output for a line."""

    text: str

    score: float
    """Log probability divided by the length penalty; of a line that was split, the
    sum over its pieces. Comparable between candidates of one line only."""

    log_probability: float
    """Sum of ln p over the tokens of the output, END counted."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What became of one line."""

    source: str
    candidates: tuple[Candidate, ...]
    """Best first: one, or ``num_best`` where they were asked for."""

    warnings: tuple[str, ...] = ()
    """What a reader of the translation should know."""

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.candidates[0].text


class Translator:
    """A model folder, opened: raw text in, raw text out."""

    def __init__(
        self,
        opened: ModelFolder,
        *,
        engine: str = "auto",
        precision: str = "float32",
    ) -> None:
        if engine not in ENGINES:
            known = ", ".join(ENGINES)
            raise UsageError(f"{engine!r} is not an engine; known: {known}")
        self.opened = opened
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

    def lines(self, lines: Iterable[str], **search: Any) -> Iterator[Translated]:
        """Yield what becomes of each line, in order; N lines in, N lines out."""
        settings = read(DecodingSettings, {**as_table(self.decoding), **search})
        waiting = map(checked_text, lines)
        while chosen := list(islice(waiting, LINES_AT_ONCE)):
            yield from self._some(chosen, settings)

    def _some(
        self, lines: Sequence[str], settings: DecodingSettings
    ) -> list[Translated]:
        encode = self.opened.tokenizers.source.encode
        split = [split_long(line, self._fits) for line in lines]
        tokens = [encode(piece.text) for pieces in split for piece in pieces]
        spoken = [each for each in tokens if each]  # nothing is asked of a blank line
        found = iter(self.engine.search(spoken, settings))
        outputs = iter([next(found) if each else [] for each in tokens])
        return [
            self._joined(line, pieces, [next(outputs) for _ in pieces])
            for line, pieces in zip(lines, split, strict=True)
        ]

    def _fits(self, text: str) -> bool:
        longest = self.opened.facts.longest_source
        return len(self.opened.tokenizers.source.encode(text)) <= longest

    def _joined(
        self,
        line: str,
        pieces: Sequence[Piece],
        outputs: Sequence[Sequence[Hypothesis]],
    ) -> Translated:
        """Make one line of the outputs of its pieces; blank pieces have none."""
        spoken = [each for each in outputs if each]
        warnings = []
        if len(spoken) > 1:
            longest = self.opened.facts.longest_source
            warnings.append(
                f"the line is longer than the {longest} tokens the model was trained "
                f"for; it was translated in {len(spoken)} pieces"
            )
        if any(not each[0].finished for each in spoken):
            warnings.append("the translation hit the length limit and may be cut off")
        # Of a line in several pieces only the best is given: their n-best lists
        # could be combined in very many ways.
        count = len(spoken[0]) if len(spoken) == 1 else 1
        candidates = [
            self._candidate(pieces, [each[rank] if each else None for each in outputs])
            for rank in range(count)
        ]
        return Translated(line, tuple(candidates), tuple(warnings))

    def _candidate(
        self, pieces: Sequence[Piece], chosen: Sequence[Hypothesis | None]
    ) -> Candidate:
        decode = self.opened.tokenizers.target.decode
        texts = [decode(each.tokens) if each else "" for each in chosen]
        spoken = [each for each in chosen if each]
        return Candidate(
            text=rejoin(pieces, texts),
            score=sum(each.score for each in spoken),
            log_probability=sum(each.log_probability for each in spoken),
        )


def load(
    folder: str | Path,
    *,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    precision: str = "float32",
) -> Translator:
    """Open a run folder or a model folder; anything amiss is a ``ModelError``.

    ``engine`` is a key of ``ENGINES``; ``translator.engine.used`` says which ones ran.
    ``precision`` other than float32 is CTranslate2's, and may change words.
    """
    opened = open_model_folder(model_path(Path(folder)), device=device)
    return Translator(opened, engine=engine, precision=precision)


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
