"""Lines as a stream: blocks are cut and begun while others are being translated.

A block is read, cut into tokens and handed to the engine; where the engine has threads
of its own, the next ones are read meanwhile, and texts are made of what is done. What
is held in memory is a few blocks, however long the stream is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headwise.decoding.settings import DecodingSettings
from headwise.documents.sentences import Piece
from headwise.inference.line_translator import BegunSearch, LineTranslator, Made, Part
from headwise.tasks.translation.results import Translated
from headwise.text.arriving import Pause

LINES_AT_ONCE = 4000
"""Lines that are read before any is translated, so that similar lengths meet."""

CHARACTERS_AT_ONCE = 1_000_000
"""Characters of such lines; one line may have more."""

PIECES_AT_ONCE = 512
"""Pieces of such a line: of a very long one some are done while others are cut."""

BLOCKS_AHEAD = 2
"""Blocks of lines that are read while others are being translated."""

LOOK_EVERY = 16
"""Lines that are read before somebody looks whether a translation has ended."""


Asked = tuple[str, DecodingSettings, str]
"""A line, how to search for its translation, and what that begins with."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the translation of a stream is."""

    lines: int
    """Lines that are done."""

    characters: int = 0
    """Characters of the line after those whose pieces are done."""

    of_characters: int = 0
    """Characters of that line, or 0 where none of it is done."""


def translated(
    translator: LineTranslator,
    asked: Iterator[Asked | Pause],
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Iterator[Translated]:
    """Read and cut line after line while others are being translated.

    Before a pause, all that was read is translated. ``on_progress`` is called whenever
    a block of lines or of pieces is done.
    """
    stream = _Stream(translator, on_progress)
    try:
        yield from stream.translated(asked)
    finally:  # cancel outstanding searches on any exit
        stream.give_up()


@dataclass(slots=True)
class _Line:
    """A line with what became of its pieces so far."""

    text: str
    pieces: list[Piece] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    characters_done: int = 0
    is_cut: bool = False

    def add(self, made: Made) -> None:
        """Take in what was made of the next piece."""
        piece = self.pieces[len(self.made)]
        self.characters_done += len(piece.text) + len(piece.separator)
        self.made.append(made)

    @property
    def is_done(self) -> bool:
        """All of its pieces are known, and translated."""
        return self.is_cut and len(self.made) == len(self.parts)


@dataclass(frozen=True, slots=True)
class _Block:
    """Pieces of lines whose translation was begun."""

    parts: Sequence[tuple[_Line, Part]]
    searches: Sequence[BegunSearch]

    def ready(self) -> bool:
        """Tell whether nothing is left to wait for."""
        return all(each.search.ready() for each in self.searches)


class _Stream:
    """Lines on their way: read and cut, begun in blocks, done."""

    def __init__(
        self, translator: LineTranslator, on_progress: Callable[[Progress], object]
    ) -> None:
        self.translator = translator
        self.on_progress = on_progress
        self.lines: deque[_Line] = deque()
        self.block: list[tuple[_Line, Part]] = []
        self.size = 0
        self.ahead: deque[_Block] = deque()
        self.num_done = 0

    def translated(self, asked: Iterator[Asked | Pause]) -> Iterator[Translated]:
        while True:
            try:
                one = next(asked, None)
            except Exception:  # what was read before it shall not be lost
                yield from self._finished()
                raise
            if one is None or isinstance(one, Pause):
                yield from self._finished()
            else:
                yield from self._taken(*one)
            if one is None:
                return

    def give_up(self) -> None:
        """Tell the searches that were begun that nobody will wait."""
        for block in self.ahead:
            for each in block.searches:
                each.search.give_up()

    def _taken(
        self, text: str, settings: DecodingSettings, prefix: str
    ) -> Iterator[Translated]:
        """Add a line, and yield those that are done meanwhile."""
        line = _Line(text)
        self.lines.append(line)
        for piece, part in self.translator.parts_of(text, settings, prefix):
            count = len(line.parts) + 1
            if count % PIECES_AT_ONCE == 0:
                yield from self._begun()
            elif count % LOOK_EVERY == 0:
                yield from self._ready()
            line.pieces.append(piece)
            line.parts.append(part)
            self.block.append((line, part))
            self.size += len(part.text)
        line.is_cut = True
        if len(self.block) >= LINES_AT_ONCE or self.size >= CHARACTERS_AT_ONCE:
            yield from self._begun()
        elif len(self.block) % LOOK_EVERY == 0:
            yield from self._ready()

    def _begun(self) -> Iterator[Translated]:
        """Begin a block with what was cut, and yield what is done meanwhile."""
        if self.block:
            spoken = [part for _, part in self.block if part.tokens]
            self.ahead.append(_Block(self.block, self.translator.begun(spoken)))
            self.block, self.size = [], 0
        yield from self._ready()

    def _ready(self) -> Iterator[Translated]:
        while len(self.ahead) > BLOCKS_AHEAD or (self.ahead and self.ahead[0].ready()):
            yield from self._first_of_ahead()

    def _finished(self) -> Iterator[Translated]:
        """Yield all that was read."""
        yield from self._begun()
        while self.ahead:
            yield from self._first_of_ahead()

    def _first_of_ahead(self) -> Iterator[Translated]:
        """Wait for the first block and yield its lines; the others go on meanwhile."""
        block = self.ahead[0]
        found = {
            number: each
            for search in block.searches
            for number, each in self.translator.ended(search).items()
        }
        self.ahead.popleft()
        results = iter([found[number] for number in range(len(found))])
        for line, part in block.parts:
            line.add(next(results) if part.tokens else ([], ()))
        while self.lines and self.lines[0].is_done:
            if self.ahead and self.num_done % LOOK_EVERY == 0:
                self.ahead[0].ready()
            self.num_done += 1
            yield self._joined(self.lines.popleft())
        self._say_progress()

    def _joined(self, line: _Line) -> Translated:
        joined = self.translator.joined(line.text, line.pieces, line.parts, line.made)
        if line.parts[-1].prefix and not any(part.tokens for part in line.parts):
            note = "a blank line stays blank, whatever it was to begin with"
            joined = replace(joined, warnings=(*joined.warnings, note))
        return joined

    def _say_progress(self) -> None:
        line = self.lines[0] if self.lines else _Line("")
        of = len(line.text) if line.made else 0
        self.on_progress(Progress(self.num_done, line.characters_done, of))
