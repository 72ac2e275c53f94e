"""What a reader of an output should know: where it may not be what it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.wording import count_of

CUT_OFF = (
    "the translation hit the length limit and may be cut off; a larger "
    "max_length_factor or max_length_offset allows more"
)


def loop_in(tokens: Sequence[int], limits: WarningSettings) -> tuple[int, ...]:
    """Return the shortest sequence that comes too often in a row, or nothing."""
    if not limits.loop_repeats or len(tokens) < limits.loop_tokens:
        return ()
    # Of a loop all rounds but the first hold no token that is new: quickly ruled out.
    repeated = len(tokens) - len(set(tokens))
    if repeated * limits.loop_repeats < limits.loop_tokens * (limits.loop_repeats - 1):
        return ()
    for size in range(1, len(tokens) // limits.loop_repeats + 1):
        needed = max(limits.loop_repeats * size, limits.loop_tokens)
        run = size  # tokens so far that are those ``size`` places before
        for place in range(size, len(tokens)):
            run = run + 1 if tokens[place] == tokens[place - size] else size
            if run >= needed:
                return tuple(tokens[place - size + 1 : place + 1])
    return ()


def without_loops(
    search: Callable[[Sequence[int], DecodingSettings], Sequence[Sequence[Hypothesis]]],
    found: Sequence[Sequence[Hypothesis]],
    settings: DecodingSettings,
    limits: WarningSettings,
) -> tuple[list[Sequence[Hypothesis]], dict[int, str]]:
    """Search again, by other rules, where the best output repeats itself.

    ``search`` takes numbers of sentences. What comes back are all outputs, and for
    each sentence that was searched again a warning.
    """
    outputs = list(found)
    looping = [
        number
        for number, each in enumerate(found)
        if each and loop_in(each[0].tokens, limits)
    ]
    size = limits.loop_no_repeat_ngram
    if not looping:
        return outputs, {}
    if not size or settings.no_repeat_ngram:
        return outputs, dict.fromkeys(looping, "the translation repeats itself")
    again = search(looping, replace(settings, no_repeat_ngram=size))
    for number, each in zip(looping, again, strict=True):
        outputs[number] = each
    note = (
        "the translation repeated itself; it was searched again with "
        f"no_repeat_ngram={size}"
    )
    return outputs, dict.fromkeys(looping, note)


def warnings_of(
    source: str,
    source_tokens: Sequence[int],
    output: str,
    found: Hypothesis,
    *,
    unknown: int,
    limits: WarningSettings,
) -> Iterator[str]:
    """Yield what a reader of ``output`` should know."""
    if not found.finished:
        yield CUT_OFF
    yield from _length(len(source_tokens), len(found.tokens), limits)
    yield from _copied(source.split(), output.split(), limits)
    if limits.unknown:
        for side, tokens in (("source", source_tokens), ("output", found.tokens)):
            if unknown in tokens:
                count = sum(each == unknown for each in tokens)
                yield (
                    f"the {side} has {count_of(count, 'unknown token')}: letters or "
                    "words that the vocabulary lacks"
                )


def once_a_line(of_pieces: Sequence[Sequence[str]]) -> list[str]:
    """Gather the warnings of a line's pieces: each kind once, and of how many."""
    return each_kind_once(of_pieces, "pieces")


def each_kind_once(of_pieces: Sequence[Sequence[str]], pieces: str) -> list[str]:
    """Gather the warnings of what is called ``pieces``: each kind once, of how many.

    Warnings are of one kind if only the numbers in them differ.
    """
    if len(of_pieces) == 1:
        return list(dict.fromkeys(of_pieces[0]))
    kinds: dict[str, list[str]] = {}
    for warnings in of_pieces:
        here = {_NUMBERS.sub("", each): each for each in warnings}
        for kind, each in here.items():
            kinds.setdefault(kind, []).append(each)
    return [
        f"in {len(each):,} of {len(of_pieces):,} {pieces}: {each[0]}"
        for each in kinds.values()
    ]


_NUMBERS = re.compile(r"\d[\d,.]*|(?<=token)s\b")
"""Numbers, and the plural of what is counted."""


def longest_copy(source: Sequence[str], output: Sequence[str]) -> int:
    """Return the words of the longest piece that both have."""
    best, before = 0, [0] * (len(source) + 1)
    for word in output:
        here = [0] * (len(source) + 1)
        for place, other in enumerate(source, start=1):
            if word == other:
                here[place] = before[place - 1] + 1
        best, before = max(best, *here), here
    return best


def _copied(
    source: Sequence[str], output: Sequence[str], limits: WarningSettings
) -> Iterator[str]:
    there = set(source)
    if not limits.copied or there.isdisjoint(output):  # which is quickly seen
        return
    enough = max(1, limits.copied_from, limits.copied * len(output))
    if sum(word in there for word in output) < enough:
        return
    piece = longest_copy(source, output)
    if piece >= enough:
        words = count_of(len(output), "word")
        yield f"{piece} of {words} stand in the source as they are"


def _length(source: int, output: int, limits: WarningSettings) -> Iterator[str]:
    if max(source, output) < limits.length_from or not source:
        return
    if limits.longer_than and output > limits.longer_than * source:
        tokens = count_of(output, "token")
        yield f"the translation is long: {tokens} for {source} of the source"
    if limits.shorter_than and output < limits.shorter_than * source:
        tokens = count_of(output, "token")
        yield (
            f"the translation is short: {tokens} for {source} of the source; "
            "something may be missing"
        )
