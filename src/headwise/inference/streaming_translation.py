"""Streaming translation: lines are read and submitted ahead, in blocks.

A block of lines is tokenized and submitted to the engine. If the engine has threads of
its own, the next blocks are read meanwhile, and finished ones detokenized. Memory holds
a few blocks, however long the stream is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headwise.decoding.settings import DecodingSettings
from headwise.inference.line_translator import (
    EncodedPiece,
    LineTranslator,
    PendingSearch,
    PieceResult,
)
from headwise.tasks.translation.results import Translated
from headwise.text.nonblocking_lines import Pause
from headwise.text.sentence_splitter import Piece

BLOCK_LINES = 4000
"""Lines of a block: many, so that lines of similar length can be batched."""

BLOCK_CHARACTERS = 1_000_000
"""Characters at which a block is submitted earlier; one line may have more."""

BLOCK_PIECES = 512
"""Pieces of one line at which a block is submitted, before the whole line is split."""

PREFETCH_BLOCKS = 2
"""Blocks that are submitted while an earlier one is still being translated."""

POLL_EVERY = 16
"""Lines after which finished searches are looked for."""


LineRequest = tuple[str, DecodingSettings, str]
"""A line, the settings of its search, and the text its translation starts with."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a stream."""

    lines: int
    """Translated lines."""

    characters: int = 0
    """Translated characters of the next line, if it is translated in parts."""

    of_characters: int = 0
    """All characters of that line, or 0 if none of it is translated yet."""


def translate_stream(
    translator: LineTranslator,
    requests: Iterator[LineRequest | Pause],
    on_progress: Callable[[Progress], object] = lambda _: None,
) -> Iterator[Translated]:
    """Translate lines in order, reading ahead while others are being translated.

    Before a pause is passed, everything read so far is translated. ``on_progress`` is
    called after each block.
    """
    return _Stream(translator, on_progress).run(requests)


@dataclass(slots=True)
class _Line:
    """A line, its pieces, and the results of those that are translated."""

    text: str
    pieces: list[Piece] = field(default_factory=list)
    encoded: list[EncodedPiece] = field(default_factory=list)
    results: list[PieceResult] = field(default_factory=list)
    characters_done: int = 0
    is_split: bool = False
    """Whether all of its pieces are known."""

    def add_result(self, result: PieceResult) -> None:
        """Add the result of the next piece."""
        piece = self.pieces[len(self.results)]
        self.characters_done += len(piece.text) + len(piece.separator)
        self.results.append(result)

    @property
    def is_done(self) -> bool:
        """Whether all of its pieces are known and translated."""
        return self.is_split and len(self.results) == len(self.encoded)


@dataclass(frozen=True, slots=True)
class _Block:
    """Pieces of lines that were submitted together."""

    pieces: Sequence[tuple[_Line, EncodedPiece]]
    searches: Sequence[PendingSearch]

    def done(self) -> bool:
        """Return whether all of its searches are done."""
        return all(each.future.done() for each in self.searches)


class _Stream:
    """The queue of lines: the block being filled, and the blocks that are submitted."""

    def __init__(
        self, translator: LineTranslator, on_progress: Callable[[Progress], object]
    ) -> None:
        self.translator = translator
        self.on_progress = on_progress
        self.lines: deque[_Line] = deque()
        self.block: list[tuple[_Line, EncodedPiece]] = []
        self.block_characters = 0
        self.submitted: deque[_Block] = deque()
        self.num_done = 0

    def run(self, requests: Iterator[LineRequest | Pause]) -> Iterator[Translated]:
        """Yield the translations of all requests, in order."""
        try:
            while True:
                try:
                    request = next(requests, None)
                except Exception:  # lines that were read before it are not lost
                    self._submit_block()
                    yield from self._drain(0)
                    raise
                if request is None or isinstance(request, Pause):
                    self._submit_block()
                    yield from self._drain(0)
                else:
                    yield from self._add_line(*request)
                if request is None:
                    return
        finally:  # cancel outstanding searches on any exit
            for block in self.submitted:
                for search in block.searches:
                    search.future.cancel()

    def _add_line(
        self, text: str, settings: DecodingSettings, prefix: str
    ) -> Iterator[Translated]:
        """Split and encode a line, and yield lines that are done meanwhile."""
        line = _Line(text)
        self.lines.append(line)
        for piece, encoded in self.translator.encode(text, settings, prefix):
            count = len(line.pieces) + 1
            if count % BLOCK_PIECES == 0:
                self._submit_block()
                yield from self._drain(PREFETCH_BLOCKS)
            elif count % POLL_EVERY == 0:
                yield from self._drain(PREFETCH_BLOCKS)
            line.pieces.append(piece)
            line.encoded.append(encoded)
            self.block.append((line, encoded))
            self.block_characters += len(encoded.text)
        line.is_split = True
        if len(self.block) >= BLOCK_LINES or self.block_characters >= BLOCK_CHARACTERS:
            self._submit_block()
            yield from self._drain(PREFETCH_BLOCKS)
        elif len(self.block) % POLL_EVERY == 0:
            yield from self._drain(PREFETCH_BLOCKS)

    def _submit_block(self) -> None:
        """Submit the block that was being filled."""
        if self.block:
            pieces = [encoded for _, encoded in self.block if encoded.tokens]
            searches = self.translator.submit(pieces)
            self.submitted.append(_Block(self.block, searches))
            self.block, self.block_characters = [], 0

    def _drain(self, max_submitted: int) -> Iterator[Translated]:
        """Yield lines of blocks that are done; wait while too many are submitted."""
        while self.submitted and (
            len(self.submitted) > max_submitted or self.submitted[0].done()
        ):
            block = self.submitted[0]
            by_index: dict[int, PieceResult] = {}
            for search in block.searches:
                by_index.update(self.translator.collect(search))
            self.submitted.popleft()
            results = iter([by_index[index] for index in range(len(by_index))])
            for line, encoded in block.pieces:
                line.add_result(next(results) if encoded.tokens else ([], ()))
            while self.lines and self.lines[0].is_done:
                if self.submitted and self.num_done % POLL_EVERY == 0:
                    self.submitted[0].done()  # which keeps CTranslate2's queues filled
                self.num_done += 1
                yield self._assemble(self.lines.popleft())
            self._report_progress()

    def _assemble(self, line: _Line) -> Translated:
        """Join the results of a line's pieces."""
        found = self.translator.assemble(
            line.text, line.pieces, line.encoded, line.results
        )
        if line.encoded[-1].prefix and not any(each.tokens for each in line.encoded):
            warning = "a blank line stays blank; its prefix was ignored"
            found = replace(found, warnings=(*found.warnings, warning))
        return found

    def _report_progress(self) -> None:
        line = self.lines[0] if self.lines else _Line("")
        of_characters = len(line.text) if line.results else 0
        self.on_progress(Progress(self.num_done, line.characters_done, of_characters))
