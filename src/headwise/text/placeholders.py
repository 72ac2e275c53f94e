"""Placeholders: what a translation copies from its source as it stands.

URLs, e-mail addresses, words in characters that the vocabulary does not have and, if
asked for, numbers and unknown names are replaced by one symbol before a text is
translated, and put back in its place in the output (Crego et al. 2016, "SYSTRAN's Pure
Neural Machine Translation Systems"; Post et al. 2019, "An Exploration of Placeholding
in Neural Machine Translation"). A model learns where the symbol goes from training
pairs in which a word that both sides share, such as a name or a number, is replaced by
it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import groupby
from typing import NamedTuple

from headwise.text.known_words import KnownWords

PLACEHOLDER = "<copy>"

IsUnknown = Callable[[str], bool]
"""Tells whether a vocabulary lacks a character."""

Span = tuple[int, int]

TWO_WORDS = 0.25
"""Share of the masked training pairs in which two words are replaced, if they can."""

MAX_LOCAL = 64
"""Most characters before the @ of an address (RFC 5321). Without a limit, the time for
a long line without spaces would grow with the square of its length."""


class Masked(NamedTuple):
    """A text with placeholders, and what they stand for, in their order."""

    text: str
    values: tuple[str, ...]

    def as_written(self, text: str) -> Masked:
        """Return it with the values at the same places of ``text``.

        ``text`` is what was masked, in another case, of which some
        change their length: then the values stay.
        """
        parts = self.text.split(PLACEHOLDER)
        if len(text) != sum(map(len, [*parts, *self.values])):
            return self
        values, end = [], 0
        for part, value in zip(parts, self.values, strict=False):
            start = end + len(part)
            end = start + len(value)
            values.append(text[start:end])
        return self._replace(values=tuple(values))


def mask_copied(
    text: str,
    is_unknown: IsUnknown,
    *,
    numbers: bool = False,
    known_words: KnownWords | None = None,
) -> Masked:
    """Replace what is to be copied by placeholders.

    A word with an unknown character is copied as a whole, and its neighbours that have
    one too together with it. With ``numbers``, so are numbers of two or more digits or
    with a sign; with ``known_words``, names that are none of them.
    """
    spans = [*_exact_spans(text)]
    if known_words is not None:
        spans = _with_others(spans, known_words.name_spans(text))
    if numbers:
        spans = _with_others(spans, _number_spans(text))
    unknown = {each for each in {*text} if not each.isspace() and is_unknown(each)}
    if unknown:
        stops = [start for start, _ in spans]
        starts = [0, *(end for _, end in spans)]
        for start, stop in zip(starts, [*stops, len(text)], strict=True):
            spans += [
                (start + first, start + last)
                for first, last in _unknown_spans(text[start:stop], unknown)
            ]
    return _mask(text, sorted(spans))


def mask_addresses(text: str) -> Masked:
    """Replace URLs and e-mail addresses by placeholders, and nothing else."""
    return _mask(text, [*_exact_spans(text)])


def restore(text: str, values: Sequence[str]) -> str:
    """Put ``values`` in the place of the placeholders of an output, in their order.

    Placeholders without a value are removed; values without a placeholder stand at the
    end, so that none is lost.
    """
    before, *after = text.split(PLACEHOLDER)
    for number, part in enumerate(after):
        if number < len(values):
            before += values[number] + part
        else:
            before = before.rstrip(" ") + part
    return " ".join(filter(None, [before, *values[len(after) :]]))


def has_no_words(text: str) -> bool:
    """Tell whether placeholders, and no words beside them, are in ``text``."""
    rest = text.replace(PLACEHOLDER, "")
    return rest != text and not any(each.isalpha() for each in rest)


def mask_shared(source: str, target: str, *, rate: float, seed: int) -> tuple[str, str]:
    """Replace in both sides of a training pair what they share.

    URLs and e-mail addresses that stand once on both sides are always replaced. Of
    other pairs a share ``rate``, drawn by a hash of seed and pair, has a word replaced,
    some of them two: a word that stands once on each side and has a capital letter or a
    digit. What both sides have in another order stays as it is, since placeholders look
    the same.
    """
    exact = _shared(source, target, _exact_spans)
    if exact:
        return _mask_both(source, target, exact)
    draws = _draws(f"{seed}\t{source}\t{target}")
    if next(draws) >= rate:
        return source, target
    count = 2 if next(draws) < TWO_WORDS else 1
    words = _shared(source, target, _name_spans)
    ranked = sorted(words, key=lambda _: next(draws))
    return _mask_both(source, target, sorted(ranked[:count]))


_EXACT = re.compile(
    rf"""
    (?: (?: https? | ftp )://  |  \b www\. ) [^\s<>"«»“”]+  # URLs
    | \b [\w.+-]{{1,{MAX_LOCAL}}} @ [\w-]+ (?: \. [\w-]+ )+   # e-mail addresses
    | {re.escape(PLACEHOLDER)}                              # a text may have it too
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SPACE = "[ \u00a0\u202f]"
_SIGNS = "[%‰°€$£¥]"
_NUMBER = re.compile(
    rf"""
    (?<! [\w.,:/-] )
    [-\u2212]? (?: [€$£¥] {_SPACE}? )?
    (?: \+ \d+ (?: [ /.-] \d+ | [ ]? \( \d+ \) [ ]? \d+ )*  # telephone numbers
    | 0 \d+ (?: [ /-] \d\d+ )+
    | \( [+0] \d+ \) (?: [ /-]? \d+ )+
    | \( \d{{3}} \) [ ]? \d{{3}} - \d{{4}}
    | \d{{1,3}} (?: {_SPACE} \d{{3}} )+ (?: [.,] \d+ )? (?! \w | [.,:/-] \d )
    | \d+ (?: [.,:/-] \d+ )*                                # decimals, times, dates
    )
    (?: {_SPACE}? {_SIGNS} [CF]? (?! \w ) )?
    (?! [\w/] | - \w )
    """,
    re.VERBOSE,
)
"""A number with its sign, and with what stands between its digits; not in words."""

_MARKS_AFTER = ".,;:!?'’…"
_OPENING = {")": "(", "]": "[", "}": "{"}


def _exact_spans(text: str) -> Iterator[Span]:
    """Yield URLs and e-mail addresses, without the marks of the sentence after them."""
    for match in _EXACT.finditer(text):
        start, end = match.span()
        while end > start and _stands_after(text[start:end]):
            end -= 1
        if end > start:
            yield start, end


def _number_spans(text: str) -> Iterator[Span]:
    """Yield numbers of two or more digits or with a sign."""
    for match in _NUMBER.finditer(text):
        digits = [each for each in match.group() if each.isdigit()]
        if len(digits) > 1 or re.search(_SIGNS, match.group()):
            yield match.span()


def _with_others(spans: Sequence[Span], others: Iterable[Span]) -> list[Span]:
    """Return ``spans``, and those of ``others`` that are outside of them, in order."""
    apart = (
        (start, end)
        for start, end in others
        if all(end <= first or last <= start for first, last in spans)
    )
    return sorted([*spans, *apart])


def _stands_after(address: str) -> bool:
    """Tell whether the last character of an address is none of it."""
    last = address[-1]
    if last in _OPENING:
        return address.count(last) > address.count(_OPENING[last])
    return last in _MARKS_AFTER


def _unknown_spans(text: str, unknown: Set[str]) -> Iterator[Span]:
    """Yield the words with unknown characters, and other unknown characters, joined."""
    last: Span | None = None
    for start, end in _words_and_characters(text):
        if unknown.isdisjoint(text[start:end]):
            continue
        if last is not None and all(map(_joins, text[last[1] : start])):
            last = last[0], end
            continue
        if last is not None:
            yield _with_modifiers(text, last)
        last = start, end
    if last is not None:
        yield _with_modifiers(text, last)


def _words_and_characters(text: str) -> Iterator[Span]:
    """Yield the spans of words, and of each character between them."""
    start = 0
    for is_word, group in groupby(text, _is_of_word):
        length = len([*group])
        step = length if is_word else 1
        for place in range(start, start + length, step):
            yield place, place + step
        start += length


def _is_of_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _joins(character: str) -> bool:
    """Tell whether a character between two spans joins them: a space, a modifier."""
    return character.isspace() or _is_modifier(character)


def _is_modifier(character: str) -> bool:
    """Tell whether a character modifies others, as those inside of emoji do."""
    return unicodedata.category(character) in ("Cf", "Mn", "Me")


def _with_modifiers(text: str, span: Span) -> Span:
    start, end = span
    while end < len(text) and _is_modifier(text[end]):
        end += 1
    return start, end


_WORD = re.compile(r"\w+(?:[-'’.]\w+)*")


def _name_spans(text: str) -> Iterator[Span]:
    """Yield the words that have a capital letter or a digit."""
    for match in _WORD.finditer(text):
        if any(each.isupper() or each.isdigit() for each in match.group()):
            yield match.span()


def _shared(
    source: str, target: str, spans_of: Callable[[str], Iterator[Span]]
) -> list[tuple[Span, Span]]:
    """Return the spans of what stands once on both sides, in the source's order."""
    left, right = (_once(text, [*spans_of(text)]) for text in (source, target))
    return [(left[each], right[each]) for each in left if each in right]


def _once(text: str, spans: Sequence[Span]) -> dict[str, Span]:
    """Return the spans by their text, of those whose text no other one has."""
    counts = Counter(text[start:end] for start, end in spans)
    by_text = {text[start:end]: (start, end) for start, end in spans}
    return {each: span for each, span in by_text.items() if counts[each] == 1}


def _mask_both(
    source: str, target: str, chosen: Sequence[tuple[Span, Span]]
) -> tuple[str, str]:
    """Replace pairs of spans, which are in the source's order, unless it differs."""
    of_source, of_target = [each for each, _ in chosen], [each for _, each in chosen]
    if of_target != sorted(of_target):
        return source, target
    return _mask(source, of_source).text, _mask(target, of_target).text


def _mask(text: str, spans: Sequence[Span]) -> Masked:
    """Replace spans, in order, by placeholders."""
    masked, position = "", 0
    for start, end in spans:
        masked += text[position:start] + PLACEHOLDER
        position = end
    values = tuple(text[start:end] for start, end in spans)
    return Masked(masked + text[position:], values)


def _draws(key: str) -> Iterator[float]:
    """Yield numbers in [0, 1) that depend on ``key`` alone."""
    number = 0
    while True:
        digest = hashlib.sha256(f"{number}\t{key}".encode(errors="replace")).digest()
        for place in range(0, len(digest), 4):
            yield int.from_bytes(digest[place : place + 4], "big") / 2**32
        number += 1
