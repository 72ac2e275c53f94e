"""One line of text: cut into pieces and tokens, searched for, and made text again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import NO_PREFIX, Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.decoding.warnings import once_a_line, warnings_of, without_loops
from headwise.documents.sentences import Piece, rejoin, split_long
from headwise.inference.engines.engine import Engine, Search, begun
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.translation.alignment import pharaoh
from headwise.tasks.translation.results import Candidate, Translated
from headwise.text.vocabulary import UNKNOWN
from headwise.wording import count_of

Made = tuple[Sequence[Hypothesis], tuple[str, ...]]
"""What a search found for a piece of text, and what it warned of."""


class Part(NamedTuple):
    """One piece of a line, to be searched."""

    text: str
    tokens: tuple[int, ...]
    settings: DecodingSettings
    prefix: Prefix = NO_PREFIX


@dataclass(frozen=True, slots=True)
class BegunSearch:
    """The search of those parts of a block that have the same settings."""

    numbers: Sequence[int]
    parts: Sequence[Part]
    settings: DecodingSettings
    limits: WarningSettings
    search: Search


class LineTranslator:
    """A model and the engine that runs it, for lines of text."""

    def __init__(self, opened: ModelFolder, engine: Engine) -> None:
        self.opened = opened
        self.engine = engine
        self.texts = opened.texts
        self.longest = opened.facts.longest_source

    def parts_of(
        self, line: str, settings: DecodingSettings, prefix: str
    ) -> Iterator[tuple[Piece, Part]]:
        """Cut a line into pieces that are short enough, and these into tokens."""
        known: dict[str, list[int]] = {}  # so that nothing is encoded twice
        begun = self.texts.prefix(prefix) if prefix else NO_PREFIX
        if "\r" not in line:
            (known[line],) = self.texts.encode([line])
            if len(known[line]) <= self.longest:  # as nearly all lines are
                tokens = known[line] if line.strip() else []
                yield Piece(line, ""), Part(line, tuple(tokens), settings, begun)
                return

        def fits(text: str) -> bool:
            if text not in known:
                (known[text],) = self.texts.encode([text])
            return len(known[text]) <= self.longest

        for piece in split_long(line, fits):
            tokens = []
            if piece.text.strip():  # blank lines ask for nothing
                fits(piece.text)
                tokens = known[piece.text]
            yield piece, Part(piece.text, tuple(tokens), settings, begun)
            known.clear()
            if tokens:  # only what is said first begins the output
                begun = NO_PREFIX

    def begun(self, parts: Sequence[Part]) -> list[BegunSearch]:
        """Begin the search for these parts of lines."""
        objects = {id(each.settings): each.settings for each in parts}
        if len(objects) == 1:  # as mostly
            (settings,) = objects.values()
            return [self._begun_search(range(len(parts)), parts, settings)]
        by_settings: dict[DecodingSettings, list[int]] = {}
        for number, part in enumerate(parts):
            by_settings.setdefault(part.settings, []).append(number)
        return [
            self._begun_search(numbers, [parts[each] for each in numbers], settings)
            for settings, numbers in by_settings.items()
        ]

    def _begun_search(
        self, numbers: Sequence[int], parts: Sequence[Part], settings: DecodingSettings
    ) -> BegunSearch:
        """Begin the search of parts that all have these settings."""
        # What a search is does not depend on when it warns.
        plain = replace(settings, warnings=WarningSettings())
        search = begun(
            self.engine,
            [part.tokens for part in parts],
            plain,
            [part.prefix for part in parts],
        )
        return BegunSearch(numbers, parts, plain, settings.warnings, search)

    def ended(self, begun: BegunSearch) -> dict[int, Made]:
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
        spoken = [place for place, (outputs, _) in enumerate(made) if outputs]
        if len(spoken) == 1:
            return self._joined_around(spoken[0], line, pieces, parts, made)
        texts = [""] * len(parts)
        of_pieces = []
        for place in spoken:
            (best, *_), notes = made[place]
            texts[place] = self.text(best, parts[place])
            of_pieces.append(self._warnings(parts[place], best, texts[place], notes))
        warnings = [*self._why_in_pieces(line, len(spoken)), *once_a_line(of_pieces)]
        # Of a line in several pieces only the best is given: their n-best lists could
        # be combined in very many ways.
        bests = [made[place][0][0] for place in spoken]
        candidate = Candidate(
            text=rejoin(pieces, texts),
            score=sum(each.score for each in bests),
            log_probability=sum(each.log_probability for each in bests),
        )
        return Translated(line, (candidate,), tuple(warnings))

    def _joined_around(
        self,
        place: int,
        line: str,
        pieces: Sequence[Piece],
        parts: Sequence[Part],
        made: Sequence[Made],
    ) -> Translated:
        """Make one line of the outputs of the only piece that is not blank."""
        part, (outputs, notes) = parts[place], made[place]
        texts = [self.text(each, part) for each in outputs]
        warnings = self._warnings(part, outputs[0], texts[0], notes)
        if len(parts) > 1 or pieces[0].separator:
            before, behind = [""] * place, [""] * (len(parts) - place - 1)
            texts = [rejoin(pieces, [*before, each, *behind]) for each in texts]
        candidates = [
            self.candidate_of(text, each, part)
            for text, each in zip(texts, outputs, strict=True)
        ]
        return Translated(line, tuple(candidates), tuple(once_a_line([warnings])))

    def _warnings(
        self, part: Part, best: Hypothesis, text: str, notes: Sequence[str]
    ) -> list[str]:
        """Return what the search warned of, and what is to be said of its output."""
        found = warnings_of(
            *(part.text, part.tokens, text, best),
            unknown=UNKNOWN,
            limits=part.settings.warnings,
        )
        return [*notes, *found]

    def _why_in_pieces(self, line: str, num_pieces: int) -> Iterator[str]:
        """Say why a line was not translated as a whole, if it was not."""
        if num_pieces < 2:
            return
        longest = count_of(self.longest, "token")
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
