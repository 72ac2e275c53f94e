"""One thing that was looked at, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "skipped", "FAILED"]

OK: Status = "ok"
NOTE: Status = "note"
SKIPPED: Status = "skipped"
FAILED: Status = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    note: it works, and could work better. skipped: it was not looked at, or is not
    there, which is no fault. FAILED: it is wrong.
    """

    what: str
    status: Status
    found: str
    advice: str | None = None
    """What to do about it; ``None`` where nothing need be done."""
