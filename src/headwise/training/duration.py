"""Durations as people write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Write a duration as people read it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
