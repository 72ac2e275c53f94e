"""Lines as a stream: blocks are cut and begun while others are being translated.

A block is read, cut into tokens and handed to the engine; where the engine has threads
of its own, the next ones are read meanwhile, and texts are made of what is done. What
is held in memory is a few blocks, however long the stream is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import NO_PREFIX, Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.decoding.warnings import warnings_of, without_loops
from headwise.documents.sentences import Piece, rejoin, split_long
from headwise.engines.engine import Engine, Search, begun
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.alignment import pharaoh
from headwise.tasks.translated import Candidate, Translated
from headwise.text.vocabulary import UNKNOWN

LINES_AT_ONCE = 4000
"""Lines that are read before any is translated, so that similar lengths meet."""

CHARACTERS_AT_ONCE = 1_000_000
"""Characters of such lines; one line may have more."""

BLOCKS_AHEAD = 2
"""Blocks of lines that are read while others are being translated."""

LOOK_EVERY = 16
"""Lines that are read before somebody looks whether a translation has ended."""


Asked = tuple[str, DecodingSettings, str]
"""A line, how to search for its translation, and what that begins with."""


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a line, to be searched."""

    text: str
    tokens: tuple[int, ...]
    settings: DecodingSettings
    prefix: Prefix = NO_PREFIX


class LineTranslator:
    """A model and the engine that runs it, for lines of text."""

    def __init__(self, opened: ModelFolder, engine: Engine) -> None:
        self.opened = opened
        self.engine = engine

    def translated(self, asked: Iterator[Asked]) -> Iterator[Translated]:
        """Read and cut line after line while others are being translated."""
        ahead: deque[_Block] = deque()
        try:
            yield from self._translated(asked, ahead)
        finally:  # on the way out, whatever for, nobody is left to wait for the rest
            for block in ahead:
                block.give_up()

    def _translated(
        self, asked: Iterator[Asked], ahead: deque[_Block]
    ) -> Iterator[Translated]:
        block: list[_Cut] = []
        size = 0
        while True:
            try:
                one = next(asked, None)
            except Exception:  # what was read before it shall not be lost
                while ahead:
                    yield from _first_of(ahead)
                raise
            if one is not None:
                block.append(self._cut(*one))
                size += len(one[0])
            full = len(block) >= LINES_AT_ONCE or size >= CHARACTERS_AT_ONCE
            if block and (full or one is None):
                ahead.append(self._begun(block))
                block, size = [], 0
            if len(block) % LOOK_EVERY == 0 or one is None:
                while ahead and (
                    one is None or len(ahead) > BLOCKS_AHEAD or ahead[0].ready()
                ):
                    yield from _first_of(ahead)
            if one is None:
                return

    def _cut(self, line: str, settings: DecodingSettings, prefix: str) -> _Cut:
        """Cut a line into pieces that are short enough, and these into tokens."""
        task = self.opened.task
        longest = self.opened.facts.longest_source
        known: dict[str, list[int]] = {}  # so that nothing is cut twice

        def fits(text: str) -> bool:
            (known[text],) = task.encode([text])
            return len(known[text]) <= longest

        pieces = split_long(line, fits)
        begun = task.prefix(prefix) if prefix else NO_PREFIX
        parts = []
        for piece in pieces:
            tokens: list[int] = []
            if piece.text.strip():  # blank lines ask for nothing
                if piece.text not in known:
                    fits(piece.text)
                tokens = known[piece.text]
            parts.append(Part(piece.text, tuple(tokens), settings, begun))
            if tokens:  # only what is said first begins the output
                begun = NO_PREFIX
        return _Cut(line, pieces, parts)

    def _begun(self, lines: Sequence[_Cut]) -> _Block:
        """Begin the search for these lines."""
        spoken = [part for line in lines for part in line.parts if part.tokens]
        searches = [
            self._begun_search(spoken, settings) for settings in _distinct(spoken)
        ]
        return _Block(self, lines, searches)

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

    def ended(
        self, begun: _BegunSearch
    ) -> dict[int, tuple[Sequence[Hypothesis], tuple[str, ...]]]:
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
        best_texts = {}
        for part, outputs, notes in spoken:
            best_texts[id(part)] = self.text(outputs[0], part)
            warnings += notes
            warnings += warnings_of(
                part.text,
                part.tokens,
                best_texts[id(part)],
                outputs[0],
                unknown=UNKNOWN,
                limits=part.settings.warnings,
            )
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
        return Translated(line, tuple(candidates), tuple(dict.fromkeys(warnings)))

    def text(self, found: Hypothesis, part: Part) -> str:
        """Turn an output of this piece into text."""
        return self.opened.task.text(
            found, part.text, part.tokens, replace_unknown=part.settings.replace_unknown
        )

    def candidate_of(self, text: str, found: Hypothesis, part: Part) -> Candidate:
        """Return an output with what was asked for besides its text."""
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


@dataclass(frozen=True, slots=True)
class _BegunSearch:
    """The search of those parts of a block that have the same settings."""

    numbers: Sequence[int]
    parts: Sequence[Part]
    settings: DecodingSettings
    limits: WarningSettings
    search: Search


@dataclass(frozen=True, slots=True)
class _Cut:
    """A line, its pieces, and what is to be searched for each."""

    text: str
    pieces: Sequence[Piece]
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines whose translation was begun."""

    translator: LineTranslator
    cut: Sequence[_Cut]
    searches: Sequence[_BegunSearch]

    def ready(self) -> bool:
        """Tell whether nothing is left to wait for."""
        return all(each.search.ready() for each in self.searches)

    def give_up(self) -> None:
        """Tell that nobody will wait."""
        for each in self.searches:
            each.search.give_up()

    def lines(self) -> Iterator[Translated]:
        """Wait for the searches, and yield what became of each line."""
        found = {
            number: each
            for search in self.searches
            for number, each in self.translator.ended(search).items()
        }
        results = iter([found[number] for number in range(len(found))])
        for line in self.cut:
            made = [next(results) if part.tokens else ([], ()) for part in line.parts]
            joined = self.translator.joined(line.text, line.pieces, line.parts, made)
            if line.parts[-1].prefix and not any(part.tokens for part in line.parts):
                note = "a blank line stays blank, whatever it was to begin with"
                joined = replace(joined, warnings=(*joined.warnings, note))
            yield joined


def _first_of(ahead: deque[_Block]) -> Iterator[Translated]:
    """Yield the lines of the first block; the others go on meanwhile."""
    for number, line in enumerate(ahead[0].lines()):
        if len(ahead) > 1 and number % LOOK_EVERY == 0:
            ahead[1].ready()
        yield line
    ahead.popleft()


def _distinct(parts: Sequence[Part]) -> list[DecodingSettings]:
    return list(dict.fromkeys(part.settings for part in parts))
