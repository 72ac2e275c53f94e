"""Formatting of counts, durations and names of files in messages."""

from __future__ import annotations


def count_of(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: 1 pair, 2 pairs, 1,000 pairs."""
    return f"1 {noun}" if count == 1 else f"{count:,} {plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """Return a duration as text: 0.06 s, 30 s, 1 min, 1 min 05 s, 2 h 10 min."""
    if 0 < seconds < 1:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    return f"{rest} s"


def excerpt(text: str) -> str:
    """Return the first 80 characters of a text, quoted."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")


def without_surrogates(text: str) -> str:
    """Return text that UTF-8 can encode; other characters become question marks.

    Bytes of a file name that are not UTF-8 are lone surrogates in Python.
    """
    return text.encode("utf-8", "replace").decode("utf-8")
