"""Warnings about an output: loops, lengths, copied source, unknown tokens."""

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

REPEATS = "the translation repeats itself"
SEARCHED_AGAIN = "the translation repeated itself; it was searched again with "

WARNING_KINDS = {
    "unfinished": CUT_OFF,
    "loop": REPEATS,
    "loop, searched again": SEARCHED_AGAIN,
    "long": "the translation is long: ",
    "short": "the translation is short: ",
    "copied": " were copied from the source",
    "unknown": " unknown token",
}
"""What each kind of warning about an output says, besides its numbers."""


def kind_of(warning: str) -> str | None:
    """Return the kind of a warning about one output; None if it is another warning."""
    return next((kind for kind, text in WARNING_KINDS.items() if text in warning), None)


def find_loop(tokens: Sequence[int], limits: WarningSettings) -> tuple[int, ...]:
    """Return the shortest sequence that repeats too often in a row, or ()."""
    if not limits.loop_repeats or len(tokens) < limits.loop_tokens:
        return ()
    # A fast way out: all repetitions but the first contain no new token.
    repeated = len(tokens) - len(set(tokens))
    if repeated * limits.loop_repeats < limits.loop_tokens * (limits.loop_repeats - 1):
        return ()
    for size in range(1, len(tokens) // limits.loop_repeats + 1):
        needed = max(limits.loop_repeats * size, limits.loop_tokens)
        run = size  # tokens so far that equal those ``size`` positions before
        for position in range(size, len(tokens)):
            run = run + 1 if tokens[position] == tokens[position - size] else size
            if run >= needed:
                return tuple(tokens[position - size + 1 : position + 1])
    return ()


def search_loops_again(
    search: Callable[[Sequence[int], DecodingSettings], Sequence[Sequence[Hypothesis]]],
    found: Sequence[Sequence[Hypothesis]],
    settings: DecodingSettings,
    limits: WarningSettings,
) -> tuple[list[Sequence[Hypothesis]], dict[int, str]]:
    """Search sentences whose best output is a loop again, without repeated n-grams.

    ``search`` takes the indices of sentences. Returns the outputs of all sentences, and
    a warning for each index with a loop.
    """
    outputs = list(found)
    looping = [
        index
        for index, each in enumerate(found)
        if each and find_loop(each[0].tokens, limits)
    ]
    size = limits.loop_no_repeat_ngram
    if not looping:
        return outputs, {}
    if not size or settings.no_repeat_ngram:
        return outputs, dict.fromkeys(looping, REPEATS)
    again = search(looping, replace(settings, no_repeat_ngram=size))
    for index, each in zip(looping, again, strict=True):
        outputs[index] = each
    warning = f"{SEARCHED_AGAIN}no_repeat_ngram={size}"
    return outputs, dict.fromkeys(looping, warning)


def warnings_of(
    source: str,
    source_tokens: Sequence[int],
    output: str,
    found: Hypothesis,
    *,
    unknown: int,
    limits: WarningSettings,
) -> Iterator[str]:
    """Yield the warnings about one output of a source."""
    if not found.finished:
        yield CUT_OFF
    yield from _length_warnings(len(source_tokens), len(found.tokens), limits)
    yield from _copy_warnings(source.split(), output.split(), limits)
    if limits.unknown:
        for side, tokens in (("source", source_tokens), ("output", found.tokens)):
            if unknown in tokens:
                count = sum(each == unknown for each in tokens)
                yield (
                    f"the {side} has {count_of(count, 'unknown token')}: letters or "
                    "words that the vocabulary lacks"
                )


def merge_warnings(of_parts: Sequence[Sequence[str]], parts: str) -> list[str]:
    """Merge the warnings of several ``parts``, such as "lines": each kind once.

    Each says how many parts have it. Two warnings are of one kind if they differ in
    numbers only.
    """
    if len(of_parts) == 1:
        return list(dict.fromkeys(of_parts[0]))
    kinds: dict[str, list[str]] = {}
    for warnings in of_parts:
        by_kind = {_NUMBERS.sub("", each): each for each in warnings}
        for kind, each in by_kind.items():
            kinds.setdefault(kind, []).append(each)
    return [
        f"in {len(each):,} of {len(of_parts):,} {parts}: {each[0]}"
        for each in kinds.values()
    ]


_NUMBERS = re.compile(r"\d[\d,.]*|(?<=token)s\b")
"""Numbers, and the plural s of the noun that they count."""


def longest_copy(source: Sequence[str], output: Sequence[str]) -> int:
    """Return the number of words in the longest common span."""
    # lengths[i] is the longest common span that ends at source word i and this word.
    best, previous = 0, [0] * (len(source) + 1)
    for word in output:
        lengths = [0] * (len(source) + 1)
        for index, other in enumerate(source, start=1):
            if word == other:
                lengths[index] = previous[index - 1] + 1
        best, previous = max(best, *lengths), lengths
    return best


def _copy_warnings(
    source: Sequence[str], output: Sequence[str], limits: WarningSettings
) -> Iterator[str]:
    words = set(source)
    if not limits.copied or words.isdisjoint(output):  # the fast way out
        return
    threshold = max(1, limits.copied_from, limits.copied * len(output))
    if sum(word in words for word in output) < threshold:
        return
    span = longest_copy(source, output)
    if span >= threshold:
        total = count_of(len(output), "word")
        yield f"{span} of {total}{WARNING_KINDS['copied']}"


def _length_warnings(
    source: int, output: int, limits: WarningSettings
) -> Iterator[str]:
    if max(source, output) < limits.length_from or not source:
        return
    if limits.longer_than and output > limits.longer_than * source:
        tokens = count_of(output, "token")
        yield f"{WARNING_KINDS['long']}{tokens} for {source} of the source"
    if limits.shorter_than and output < limits.shorter_than * source:
        tokens = count_of(output, "token")
        yield (
            f"{WARNING_KINDS['short']}{tokens} for {source} of the source; "
            "something may be missing"
        )
