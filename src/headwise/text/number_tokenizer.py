"""Number tokenizer: each line is one number, stored as the halves of its float32.

Numbers are standardised: their mean over the training text is 0, their standard
deviation 1. So a model starts near the right ones, whatever their unit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.errors import DataError, ModelError
from headwise.storage import read_json, write_json
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, PAD, START
from headwise.wording import count_of

HALF = 2**16
DIGITS = 6
"""Significant digits of a number that is written, or of its distance from the mean
where all numbers are far from 0. It is a float32, which has about seven."""

MOST_DIGITS = 16
"""Digits of a number that is written at most: a double has no more."""


class NumberTokenizer:
    """Whole lines are numbers, of two tokens each: the high half of the bits first."""

    notes: tuple[str, ...] = ()

    def __init__(self, mean: float, deviation: float) -> None:
        self.mean = mean
        self.deviation = deviation

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> NumberTokenizer:
        """Take mean and deviation of the numbers; ``vocab_size`` means nothing here.

        A line that is no number is left for ``encode`` to refuse, as its caller knows
        the place. Raises ``DataError`` if all numbers are the same.
        """
        count, mean, squares = 0, 0.0, 0.0
        refused = False
        for line in lines:
            if line.strip():
                try:
                    value = parse_number(line)
                except DataError:
                    refused = True
                    continue
                count += 1
                before, mean = mean, mean + (value - mean) / count  # Welford (1962)
                squares += (value - before) * (value - mean)
        deviation = math.sqrt(squares / count) if count else 0.0
        if refused and not count:
            return cls(0.0, 1.0)  # encode refuses the first line
        if not deviation:
            raise DataError(
                f"the only number of {count_of(count, 'example')} is {mean:g}; there "
                "is nothing to learn"
            )
        if not math.isfinite(deviation):
            raise DataError("the numbers are too far apart for a float: rescale them")
        return cls(mean, deviation)

    @property
    def size(self) -> int:
        """Number of different tokens: all halves of a float32."""
        return HALF

    def encode(self, text: str) -> list[int]:
        """Return the two tokens of a number, none for a blank line.

        Raises ``DataError`` for what is no number.
        """
        if not text.strip():
            return []
        standardised = (parse_number(text) - self.mean) / self.deviation
        try:
            (bits,) = struct.unpack("<I", struct.pack("<f", standardised))
        except OverflowError:
            raise DataError(
                f"{text.strip()!r} is too far from the mean of the training examples, "
                f"{self.mean:g}"
            ) from None
        return list(divmod(bits, HALF))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the number of two tokens as text; nothing for others."""
        if len(ids) != 2:
            return ""
        (value,) = struct.unpack("<f", struct.pack("<I", ids[0] * HALF + ids[1]))
        return self.text(value)

    def text(self, standardised: float) -> str:
        """Return a standardised number as text, in the unit of the training text."""
        value = self.mean + self.deviation * standardised
        before = math.log10(max(abs(value) / self.deviation, 1))
        digits = min(DIGITS - 1 + max(1, math.ceil(before)), MOST_DIGITS)
        written = f"{value:.{digits}g}"
        if "e" in written and abs(value) < 10**MOST_DIGITS and abs(value) >= 1:
            return f"{float(written):.0f}"
        return written

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token in hexadecimal."""
        names = {PAD: "<pad>", START: "<s>", END: "</s>"}
        return [names.get(each, f"{each:04x}") for each in ids]

    def save(self, file: Path) -> None:
        """Write mean and deviation to ``file``."""
        write_json(file, {"mean": self.mean, "deviation": self.deviation})

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> NumberTokenizer:
        """Read what ``save`` wrote; raise ``ModelError`` if it is not that."""
        table = read_json(file)
        try:
            mean, deviation = float(table["mean"]), float(table["deviation"])
        except (TypeError, KeyError, ValueError):
            mean = deviation = math.nan
        if not (math.isfinite(mean) and 0 < deviation < math.inf):
            raise ModelError(f"{file} does not hold a mean and a deviation above 0")
        return cls(mean, deviation)


def parse_number(text: str) -> float:
    """Return the number that ``text`` is; raise ``DataError`` if it is none."""
    shown = text.strip()[:40]
    try:
        value = float(text) if "_" not in text else None  # 1_5 would be 15 to Python
    except ValueError:
        value = None
    if value is None:
        raise DataError(f"{shown!r} is not a number; write it like 3, -0.25 or 1e6")
    if not math.isfinite(value):
        raise DataError(f"{shown!r} is not a finite number")
    return value
