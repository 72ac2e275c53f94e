"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "skipped", "FAILED"]

OK: Status = "ok"
NOTE: Status = "note"
SKIPPED: Status = "skipped"
FAILED: Status = "FAILED"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    note: works, but could work better. skipped: not checked, or not present, which is
    not an error. FAILED: wrong.
    """

    what: str
    status: Status
    found: str
    advice: str | None = None
    """What to do about it; None if nothing need be done."""
