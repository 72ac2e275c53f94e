"""Lines as a stream: blocks are cut and begun while others are being translated.

A block is read, cut into tokens and handed to the engine; where the engine has threads
of its own, the next ones are read meanwhile, and texts are made of what is done. What
is held in memory is a few blocks, however long the stream is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import NO_PREFIX, Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.decoding.warnings import once_a_line, warnings_of, without_loops
from headwise.documents.sentences import Piece, rejoin, split_long
from headwise.engines.engine import Engine, Search, begun
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.alignment import pharaoh
from headwise.tasks.translated import Candidate, Translated
from headwise.text.arriving import Pause
from headwise.text.vocabulary import UNKNOWN
from headwise.wording import count_of

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

Made = tuple[Sequence[Hypothesis], tuple[str, ...]]
"""What a search found for a piece of text, and what it warned of."""


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a line, to be searched."""

    text: str
    tokens: tuple[int, ...]
    settings: DecodingSettings
    prefix: Prefix = NO_PREFIX


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the translation of a stream is."""

    lines: int
    """Lines that are done."""

    characters: int = 0
    """Characters of the line after those whose pieces are done."""

    of_characters: int = 0
    """Characters of that line, or 0 where none of it is done."""


class LineTranslator:
    """A model and the engine that runs it, for lines of text."""

    def __init__(self, opened: ModelFolder, engine: Engine) -> None:
        self.opened = opened
        self.engine = engine
        self.texts = opened.texts

    def translated(
        self,
        asked: Iterator[Asked | Pause],
        on_progress: Callable[[Progress], object] = lambda _: None,
    ) -> Iterator[Translated]:
        """Read and cut line after line while others are being translated.

        Before a pause, all that was read is translated. ``on_progress`` is called
        whenever a block of lines or of pieces is done.
        """
        stream = _Stream(self, on_progress)
        try:
            yield from stream.translated(asked)
        finally:  # on the way out, whatever for, nobody is left to wait for the rest
            stream.give_up()

    def parts_of(
        self, line: str, settings: DecodingSettings, prefix: str
    ) -> Iterator[tuple[Piece, Part]]:
        """Cut a line into pieces that are short enough, and these into tokens."""
        task = self.texts
        longest = self.opened.facts.longest_source
        known: dict[str, list[int]] = {}  # so that nothing is cut twice

        def fits(text: str) -> bool:
            (known[text],) = task.encode([text])
            return len(known[text]) <= longest

        begun = task.prefix(prefix) if prefix else NO_PREFIX
        for piece in split_long(line, fits):
            tokens: list[int] = []
            if piece.text.strip():  # blank lines ask for nothing
                if piece.text not in known:
                    fits(piece.text)
                tokens = known[piece.text]
            yield piece, Part(piece.text, tuple(tokens), settings, begun)
            known.clear()
            if tokens:  # only what is said first begins the output
                begun = NO_PREFIX

    def begun(self, parts: Sequence[Part]) -> list[_BegunSearch]:
        """Begin the search for these parts of lines."""
        objects = {id(each.settings): each.settings for each in parts}  # mostly one
        distinct = dict.fromkeys(objects.values())
        return [self._begun_search(parts, settings) for settings in distinct]

    def _begun_search(
        self, parts: Sequence[Part], settings: DecodingSettings
    ) -> _BegunSearch:
        """Begin the search of all parts with these settings."""
        numbers = [n for n, part in enumerate(parts) if part.settings == settings]
        # What a search is does not depend on when it warns.
        plain = replace(settings, warnings=WarningSettings())
        chosen = [parts[number] for number in numbers]
        search = begun(
            self.engine,
            [part.tokens for part in chosen],
            plain,
            [part.prefix for part in chosen],
        )
        return _BegunSearch(numbers, chosen, plain, settings.warnings, search)

    def ended(self, begun: _BegunSearch) -> dict[int, Made]:
        """Wait for a search: outputs and warnings by number."""

        def search(
            places: Sequence[int], settings: DecodingSettings
        ) -> list[list[Hypothesis]]:
            chosen = [begun.parts[place] for place in places]
            sources = [part.tokens for part in chosen]
            prefixes = [part.prefix for part in chosen]
            return self.engine.search(sources, settings, prefixes)

        limits = begun.limits
        if not self.engine.can_search(replace(begun.settings, no_repeat_ngram=1)):
            limits = replace(limits, loop_no_repeat_ngram=0)  # warn of loops only
        found = begun.search.outputs()
        outputs, loops = without_loops(search, found, begun.settings, limits)
        return {
            number: (outputs[place], (loops[place],) if place in loops else ())
            for place, number in enumerate(begun.numbers)
        }

    def joined(
        self,
        line: str,
        pieces: Sequence[Piece],
        parts: Sequence[Part],
        made: Sequence[Made],
    ) -> Translated:
        """Make one line of the outputs of its pieces; blank pieces have none."""
        spoken = [
            (part, outputs, notes)
            for part, (outputs, notes) in zip(parts, made, strict=True)
            if outputs
        ]
        best_texts = {}
        of_pieces = []
        for part, outputs, notes in spoken:
            best_texts[id(part)] = self.text(outputs[0], part)
            found = warnings_of(
                part.text,
                part.tokens,
                best_texts[id(part)],
                outputs[0],
                unknown=UNKNOWN,
                limits=part.settings.warnings,
            )
            of_pieces.append([*notes, *found])
        warnings = [*self._why_in_pieces(line, len(spoken)), *once_a_line(of_pieces)]
        texts = [best_texts.get(id(part), "") for part in parts]
        if len(spoken) == 1:
            part, outputs, _ = spoken[0]
            others = [
                [self.text(each, part) if p is part else "" for p in parts]
                for each in outputs[1:]
            ]
            candidates = [
                self.candidate_of(rejoin(pieces, mine), each, part)
                for mine, each in zip([texts, *others], outputs, strict=True)
            ]
        else:
            # Of a line in several pieces only the best is given: their n-best lists
            # could be combined in very many ways.
            best = [outputs[0] for _, outputs, _ in spoken]
            candidates = [
                Candidate(
                    text=rejoin(pieces, texts),
                    score=sum(each.score for each in best),
                    log_probability=sum(each.log_probability for each in best),
                )
            ]
        return Translated(line, tuple(candidates), tuple(warnings))

    def _why_in_pieces(self, line: str, num_pieces: int) -> Iterator[str]:
        """Say why a line was not translated as a whole, if it was not."""
        if num_pieces < 2:
            return
        longest = count_of(self.opened.facts.longest_source, "token")
        why = f"is longer than the {longest} the model was trained for"
        if num_returns := line.count("\r"):
            why = (
                f"holds {num_returns:,} \\r without \\n, which ends no line here and "
                "ended one on old Macs"
            )
        yield f"the line {why}; it was translated in {num_pieces:,} pieces"

    def text(self, found: Hypothesis, part: Part) -> str:
        """Turn an output of this piece into text."""
        return self.texts.text(
            found, part.text, part.tokens, replace_unknown=part.settings.replace_unknown
        )

    def candidate_of(self, text: str, found: Hypothesis, part: Part) -> Candidate:
        """Return an output with what was asked for besides its text."""
        asked = part.settings.token_scores
        return Candidate(
            text=text,
            score=found.score,
            log_probability=found.log_probability,
            tokens=tuple(self.texts.scored_pieces(found)) if asked else (),
            alignment=(
                pharaoh(self.texts.word_alignment(found, part.tokens))
                if part.settings.alignments
                else ""
            ),
        )


@dataclass(frozen=True, slots=True)
class _BegunSearch:
    """The search of those parts of a block that have the same settings."""

    numbers: Sequence[int]
    parts: Sequence[Part]
    settings: DecodingSettings
    limits: WarningSettings
    search: Search


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
    searches: Sequence[_BegunSearch]

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
            if len(line.parts) % PIECES_AT_ONCE == PIECES_AT_ONCE - 1:
                yield from self._begun()
            elif len(line.parts) % LOOK_EVERY == LOOK_EVERY - 1:
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
