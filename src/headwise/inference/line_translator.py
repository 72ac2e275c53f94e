"""Translation of single lines: split, encode, search, decode and rejoin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headwise.decoding.forced_prefix import NO_PREFIX, Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.decoding.warnings import (
    merge_warnings,
    search_loops_again,
    warnings_of,
)
from headwise.inference.engines.engine import Engine, Outputs, SearchFuture, submit
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.translation.alignment import pharaoh_format
from headwise.tasks.translation.results import Candidate, Translated
from headwise.text.normalization import count_undecodable
from headwise.text.placeholders import (
    Masked,
    has_no_words,
    mask_addresses,
    restore,
)
from headwise.text.recasing import Casing, casing_of, in_capitals, recase
from headwise.text.sentence_splitter import (
    Piece,
    has_several_sentences,
    rejoin,
    split_long,
)
from headwise.text.vocabulary import UNKNOWN
from headwise.wording import count_of

PieceResult = tuple[Sequence[Hypothesis], tuple[str, ...]]
"""The hypotheses of a piece of a line (none if blank), and warnings of its search."""


class EncodedPiece(NamedTuple):
    """One piece of a line, ready to be searched; without tokens if it is blank."""

    text: str
    tokens: tuple[int, ...]
    settings: DecodingSettings
    prefix: Prefix = NO_PREFIX
    copied: tuple[str, ...] = ()
    """What the placeholders in ``text`` stand for."""
    in_capitals: bool = False
    """Whether ``text`` was written in capitals, as its output is to be."""

    @property
    def untranslated(self) -> str:
        """The output of a piece without tokens: what it has to copy, else nothing."""
        return restore(self.text, self.copied) if self.copied else ""


@dataclass(frozen=True, slots=True)
class PendingSearch:
    """The search of those pieces of a block that share their settings."""

    indices: Sequence[int]
    """Of the pieces in their block."""
    pieces: Sequence[EncodedPiece]
    settings: DecodingSettings
    thresholds: WarningSettings
    future: SearchFuture


def splits_sentences(settings: DecodingSettings) -> bool:
    """Tell whether each sentence of a line is translated by itself.

    Outputs of several pieces have no n-best lists, token scores and alignments.
    """
    whole = settings.num_best > 1 or settings.token_scores or settings.alignments
    return bool(settings.split_sentences) and not whole


class LineTranslator:
    """A model folder's text codec and an engine, for lines of text."""

    def __init__(self, opened: ModelFolder, engine: Engine) -> None:
        self.opened = opened
        self.engine = engine
        self.codec = opened.texts
        self.longest_source = opened.facts.longest_source

    def encode(
        self, line: str, settings: DecodingSettings, prefix: str
    ) -> Iterator[tuple[Piece, EncodedPiece]]:
        """Split a line into pieces that are short enough, and encode them.

        What is to be copied is replaced by placeholders; pieces with nothing else are
        not searched, like blank ones.
        """
        cache: dict[str, EncodedPiece] = {}  # so that no text is tokenized twice
        forced = self.codec.prefix(prefix) if prefix else NO_PREFIX
        of_line = Casing.ORDINARY
        if settings.recase:
            of_line = self._mask(line, settings, prefix)[1]

        def encode(text: str) -> EncodedPiece:
            if text not in cache:
                (masked, copied), casing = self._mask(text, settings, prefix, of_line)
                (tokens,) = self.codec.encode([masked])
                cache[text] = EncodedPiece(
                    masked,
                    tuple(tokens),
                    settings,
                    copied=copied,
                    in_capitals=casing is Casing.CAPITALS,
                )
            return cache[text]

        def fits(text: str) -> bool:
            return len(encode(text).tokens) <= self.longest_source

        apart = splits_sentences(settings) and has_several_sentences(line)
        pieces: Iterable[Piece] = [Piece(line, "")]  # nearly always
        if apart or "\r" in line or not fits(line):
            pieces = split_long(line, fits, sentences=apart)
        for piece in pieces:
            encoded = encode(piece.text)
            is_blank = not encoded.text.strip()
            is_copied = has_no_words(encoded.text) and not forced
            tokens = () if is_blank or is_copied else encoded.tokens
            yield piece, encoded._replace(tokens=tokens, prefix=forced)
            cache.clear()
            if tokens:  # only the first piece that is searched has the prefix
                forced = NO_PREFIX

    def _mask(
        self,
        text: str,
        settings: DecodingSettings,
        prefix: str = "",
        of_line: Casing = Casing.ORDINARY,
    ) -> tuple[Masked, Casing]:
        """Replace what is to be copied, and capitals where they are recased.

        A short sentence may not show its casing; that of its line comes first.
        """
        casing, written = Casing.ORDINARY, text
        if settings.recase and not prefix:
            # Before words are copied: the vocabulary may have é alone, and not É.
            addresses = mask_addresses(text)
            casing = of_line
            if of_line is Casing.ORDINARY:
                casing = casing_of(addresses.text)
            if casing is not Casing.ORDINARY:
                text = restore(recase(addresses.text), addresses.values)
        masked = self.codec.mask_copied(text, settings)
        return masked.as_written(written), casing

    def submit(self, pieces: Sequence[EncodedPiece]) -> list[PendingSearch]:
        """Start the searches of these pieces, one for each different settings."""
        by_identity = {id(each.settings): each.settings for each in pieces}
        if len(by_identity) == 1:  # mostly, and faster than comparing settings
            (settings,) = by_identity.values()
            return [self._submit_equal(range(len(pieces)), pieces, settings)]
        by_settings: dict[DecodingSettings, list[int]] = {}
        for index, piece in enumerate(pieces):
            by_settings.setdefault(piece.settings, []).append(index)
        return [
            self._submit_equal(indices, [pieces[each] for each in indices], settings)
            for settings, indices in by_settings.items()
        ]

    def _submit_equal(
        self,
        indices: Sequence[int],
        pieces: Sequence[EncodedPiece],
        settings: DecodingSettings,
    ) -> PendingSearch:
        """Start the search of pieces that share their settings."""
        # Thresholds of warnings, and what is done to the text, are no part of a search.
        of_search = replace(
            settings,
            warnings=WarningSettings(),
            split_sentences=None,
            recase=False,
            copy_numbers=False,
            copy_names=False,
        )
        future = submit(
            self.engine,
            [piece.tokens for piece in pieces],
            of_search,
            [piece.prefix for piece in pieces],
        )
        return PendingSearch(indices, pieces, of_search, settings.warnings, future)

    def collect(self, search: PendingSearch) -> dict[int, PieceResult]:
        """Wait for a search; return the results by the index of their piece."""

        def search_again(indices: Sequence[int], settings: DecodingSettings) -> Outputs:
            chosen = [search.pieces[index] for index in indices]
            sources = [piece.tokens for piece in chosen]
            prefixes = [piece.prefix for piece in chosen]
            return self.engine.search(sources, settings, prefixes)

        thresholds = search.thresholds
        if not self.engine.can_search(replace(search.settings, no_repeat_ngram=1)):
            thresholds = replace(thresholds, loop_no_repeat_ngram=0)  # warn only
        found = search.future.result()
        outputs, loops = search_loops_again(
            search_again, found, search.settings, thresholds
        )
        return {
            index: (outputs[n], (loops[n],) if n in loops else ())
            for n, index in enumerate(search.indices)
        }

    def assemble(
        self,
        line: str,
        pieces: Sequence[Piece],
        encoded: Sequence[EncodedPiece],
        results: Sequence[PieceResult],
    ) -> Translated:
        """Decode and rejoin the pieces of a line; blank pieces have no hypotheses."""
        undecodable = _undecodable_warning(line)
        translated = [n for n, (hypotheses, _) in enumerate(results) if hypotheses]
        if len(translated) == 1:
            candidates, warnings = self._assemble_one(
                translated[0], pieces, encoded, results
            )
            return Translated(line, candidates, (*undecodable, *warnings))
        texts = [each.untranslated for each in encoded]
        of_pieces = []
        for n in translated:
            (best, *_), notes = results[n]
            texts[n] = self.decode(best, encoded[n])
            of_pieces.append(self._warnings(encoded[n], best, texts[n], notes))
        warnings = [
            *undecodable,
            *self._split_warning(line, [encoded[n] for n in translated]),
            *merge_warnings(of_pieces, "pieces"),
        ]
        # Only the best: n-best lists of pieces could be combined in too many ways.
        bests = [results[n][0][0] for n in translated]
        candidate = Candidate(
            text=rejoin(pieces, texts),
            score=sum(each.score for each in bests),
            log_probability=sum(each.log_probability for each in bests),
        )
        return Translated(line, (candidate,), tuple(warnings))

    def _assemble_one(
        self,
        n: int,
        pieces: Sequence[Piece],
        encoded: Sequence[EncodedPiece],
        results: Sequence[PieceResult],
    ) -> tuple[tuple[Candidate, ...], list[str]]:
        """Return candidates and warnings if only the ``n``-th piece has text."""
        piece, (hypotheses, notes) = encoded[n], results[n]
        texts = [self.decode(each, piece) for each in hypotheses]
        warnings = self._warnings(piece, hypotheses[0], texts[0], notes)
        if len(encoded) > 1 or pieces[0].separator:
            others = [each.untranslated for each in encoded]
            texts = [
                rejoin(pieces, [*others[:n], each, *others[n + 1 :]]) for each in texts
            ]
        candidates = tuple(
            self.candidate_of(text, each, piece)
            for text, each in zip(texts, hypotheses, strict=True)
        )
        return candidates, merge_warnings([warnings], "pieces")

    def _warnings(
        self, piece: EncodedPiece, best: Hypothesis, text: str, notes: Sequence[str]
    ) -> list[str]:
        """Return the warnings of the search, and those about its best output."""
        found = warnings_of(
            *(piece.text, piece.tokens, text, best),
            unknown=UNKNOWN,
            limits=piece.settings.warnings,
        )
        return [*notes, *found]

    def _split_warning(
        self, line: str, pieces: Sequence[EncodedPiece]
    ) -> Iterator[str]:
        """Yield a warning that says why a line was split, if nobody asked for it."""
        if len(pieces) < 2:
            return
        longest = count_of(self.longest_source, "token")
        why = f"is longer than the {longest} the model was trained for"
        if num_returns := line.count("\r"):
            why = (
                f"holds {num_returns:,} \\r without \\n, which ends no line here and "
                "ended one on old Macs"
            )
        elif self._is_short(line, pieces[0].settings):
            return
        settings = pieces[0].settings
        given_up = {
            "alignment": settings.alignments,
            "token scores": settings.token_scores,
            "translations but the best": settings.num_best > 1,
        }
        lost = "".join(f", without {what}" for what, asked in given_up.items() if asked)
        yield f"the line {why}; it was translated in {len(pieces):,} pieces{lost}"

    def _is_short(self, line: str, settings: DecodingSettings) -> bool:
        """Tell whether a line that was split has no more tokens than a model is for."""
        if not splits_sentences(settings):
            return False
        (masked, _), _ = self._mask(line, settings)
        (tokens,) = self.codec.encode([masked])
        return len(tokens) <= self.longest_source

    def decode(self, hypothesis: Hypothesis, piece: EncodedPiece) -> str:
        """Detokenize an output of this piece."""
        text = self.codec.text(
            hypothesis,
            piece.text,
            piece.tokens,
            replace_unknown=piece.settings.replace_unknown,
        )
        if piece.in_capitals:
            text = in_capitals(text)
        return restore(text, piece.copied) if piece.copied else text

    def candidate_of(
        self, text: str, hypothesis: Hypothesis, piece: EncodedPiece
    ) -> Candidate:
        """Return a candidate with the token scores and alignments asked for."""
        token_scores = piece.settings.token_scores
        return Candidate(
            text=text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(self.codec.scored_pieces(hypothesis)) if token_scores else (),
            alignment=(
                pharaoh_format(self.codec.word_alignment(hypothesis, piece.tokens))
                if piece.settings.alignments
                else ""
            ),
        )


def _undecodable_warning(line: str) -> Iterator[str]:
    """Yield a warning about what undecodable bytes left behind in a line."""
    if count := count_undecodable(line):
        what = count_of(count, "U+FFFD or lone surrogate", "U+FFFD or lone surrogates")
        yield f"{what}, which undecodable bytes leave behind, cannot be translated"
