"""Check that every figure in README.md and docs/*.md is what was measured.

    python benchmarks/check_figures.py

docs/figures.toml ties each figure to a value in a result file, or says why there is
none. Wrong, and the end with status 1, is: a value that the page does not have (any
more), a result file or script that is named and is not there, a result of a rehearsal,
and a number with a unit that is not accounted for. Told, without failing, are figures
whose sources have changed since they were measured, and those that were never written
to a file: measurements take hours, and are repeated when there is reason to.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from result_file import ROOT, digest

OWED, GIVEN = "owed", "given"
KINDS = (OWED, GIVEN)
"""Of a number without a result: it should have one; or it is a setting or citation."""

FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
MARKUP = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>")
NUMBER = r"(?<![\w.,/^-])\d+(?:,\d{3})*(?:\.\d+)?"
UNITS = (
    r"%|×|times\b|(?:ms|s|min|h)\b(?!')|milliseconds?\b|seconds?\b|minutes?\b|hours?\b|"
    r"[KMG]i?B\b|bytes\b|BLEU\b|chrF\b|percent\b|GFLOP|TFLOP|"
    r"(?:source |target )?(?:tokens|sentences|lines|pairs|words) a second|"
    r"(?:tokens|sentences|lines)/s\b|and [\d,.]+ times|to [\d,.]+ times"
)
FIGURE = re.compile(
    rf"(?:\b(?:BLEU|chrF|TER)\b[ |:of]* \**)({NUMBER})"
    rf"|({NUMBER})\**(?: |-)?(?:{UNITS})"
    r"|(?<=\| )\**(\d+(?:,\d{3})*\.\d+|\d+(?:,\d{3})+|\d{3,}|\d+(?= of))\**"
    r"(?= (?:of [\d,]+ )?\|)"
)
"""A number that seems to be measured: with a unit, or alone in a cell of a table and
not a small whole one."""

MOST_SHOWN = 5
"""Of the figures of a page that stand in no result file."""

NAMED = re.compile(r"(?<!tests/)benchmarks/(?:results/[\w.-]+\.json|[\w/]+\.py)")


@dataclass
class Report:
    """What was found, page by page."""

    errors: list[str] = field(default_factory=list)
    stale: dict[str, Counter[str]] = field(default_factory=dict)
    """Result files, with the reasons why, and how many figures that concerns."""

    owed: list[str] = field(default_factory=list)
    tied: int = 0

    def __str__(self) -> str:
        lines = [f"{self.tied} texts say what their result files say"]
        if self.stale:
            lines.append("to be measured again, when there is time:")
        for name, reasons in sorted(self.stale.items()):
            lines += [f"  {name} ({n} texts): {why}" for why, n in reasons.items()]
        if self.owed:
            lines.append("measured by nothing that wrote a file:")
        lines += [f"  {each}" for each in self.owed]
        if self.errors:
            lines.append("wrong:")
        return "\n".join([*lines, *(f"  {each}" for each in self.errors)])


class Page:
    """The text of a page, in one line, and which of its numbers are accounted for."""

    def __init__(self, text: str) -> None:
        self.text = flat(FENCE.sub(lambda found: "\n" * found[0].count("\n"), text))
        self._known: list[tuple[int, int]] = []

    def account_for(self, text: str) -> bool:
        """Note all places where ``text`` stands; False where there is none."""
        places = [found.span() for found in re.finditer(re.escape(text), self.text)]
        self._known += places
        return bool(places)

    def strangers(self) -> Iterator[str]:
        """Yield the other figures, each with what is around it."""
        masked = MARKUP.sub(lambda found: "·" * len(found[0]), self.text)
        for found in FIGURE.finditer(masked):
            start, end = found.span(found.lastindex or 0)
            if not any(first <= start and end <= last for first, last in self._known):
                yield f"…{self.text[max(0, start - 40) : end + 30]}…"


def main() -> None:
    """Check, tell, and end with status 1 where something is wrong."""
    report = checked(ROOT)
    print(report)
    sys.exit(1 if report.errors else 0)


def checked(root: Path) -> Report:
    """Compare the pages below ``root`` with its result files."""
    report = Report()
    ties = tomllib.loads((root / "docs" / "figures.toml").read_text("utf-8"))
    names = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    pages = {
        path.relative_to(root).as_posix(): Page(path.read_text("utf-8"))
        for path in names
    }
    for entry in ties.get("figure", []):
        try:
            check_figure(root, entry, pages[entry["page"]], report)
        except (KeyError, ValueError, TypeError, OSError) as error:
            what = f"{type(error).__name__}: {error}"
            report.errors.append(f"{entry.get('page')}: {entry.get('text')!r}: {what}")
    for entry in ties.get("table", []):
        for row in rows_of(root, entry):
            check_figure(root, row, pages[entry["page"]], report)
    for entry in ties.get("without", []):
        page, text, kind = entry["page"], flat(entry["text"]), entry["kind"]
        if kind not in KINDS or not entry["why"]:
            report.errors.append(f"{page}: {text!r}: kind must be one of {KINDS}")
        if page not in pages or not pages[page].account_for(text):
            report.errors.append(f"{page}: does not say {text!r} (any more)")
        elif kind == OWED:
            report.owed.append(f"{page}: {text!r}: {entry['why']}")
    exempt = {each["page"] for each in ties.get("exempt", []) if each["why"]}
    for name, page in pages.items():
        strangers = [] if name in exempt else list(page.strangers())
        report.errors += [
            f"{name}: {text}: this figure stands in no result file; tie it to one in "
            "docs/figures.toml, or say there what it is"
            for text in strangers[:MOST_SHOWN]
        ]
        if strangers[MOST_SHOWN:]:
            more = len(strangers) - MOST_SHOWN
            report.errors.append(f"{name}: and {more} more such figures")
    for path in [*names, *sorted((root / "docs").glob("*/*.md"))]:
        for each in sorted(set(NAMED.findall(path.read_text("utf-8")))):
            if not (root / each).is_file():
                where = path.relative_to(root).as_posix()
                report.errors.append(f"{where}: names {each}, which is not there")
    return report


def check_figure(
    root: Path, entry: Mapping[str, Any], page: Page, report: Report
) -> None:
    """See that a page says what a result file says; note whether that is stale."""
    name = f"benchmarks/results/{entry['result']}"
    result = read(root / name)
    pointers: list[str] = []
    values = {
        key: value_of(wanted, result, pointers)
        for key, wanted in entry.get("values", {}).items()
    }
    up = {key: by_hand(value) for key, value in values.items()}
    text, by_people = (flat(entry["text"]).format(**each) for each in (values, up))
    if not page.account_for(text) and not page.account_for(by_people):
        report.errors.append(
            f"{entry['page']}: does not say {text!r}, which is what {name} says"
        )
    for key, (least, most) in entry.get("within", {}).items():
        if not least <= values[key] <= most:
            report.errors.append(
                f"{entry['page']}: {text!r} is said where {key} is {least} to {most}; "
                f"by {name} it is {values[key]:.4g}"
            )
    report.tied += 1
    reasons = {why_stale(result, pointer) for pointer in pointers or [""]}
    for why in sorted(each for each in reasons if each):
        report.stale.setdefault(name, Counter())[why] += 1


def rows_of(root: Path, entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each row of a table as a figure: the parts of one object of a result.

    Each part is an object of numbers: its name, and they, stand in cells.
    """
    at = entry["at"]
    parts, _ = found_at(read(root / f"benchmarks/results/{entry['result']}"), at)
    for name, part in parts.items():
        cells = {
            f"cell{number}": {"quotient": [f"{at}/{name}/{key}", entry["divisor"]]}
            for number, key in enumerate(part)
        }
        holes = (f"{{{cell}:{entry['format']}}}" for cell in cells)
        text = f"| {name} | {' | '.join(holes)} |"
        yield {**entry, "text": text, "values": cells}


def value_of(wanted: Any, result: Any, pointers: list[str]) -> float:
    """Return a number of a result, or one that is computed of several.

    ``wanted`` is a pointer, a number, or a table with one operation on such.
    """
    if isinstance(wanted, int | float):
        return wanted
    if isinstance(wanted, str):
        pointers.append(wanted)
        found, _ = found_at(result, wanted)
        return found if isinstance(found, int) else float(found)
    ((operation, parts),) = wanted.items()
    numbers = [value_of(each, result, pointers) for each in parts]
    return OPERATIONS[operation](numbers)


def by_hand(number: float) -> float:
    """Return a number that is rounded as people do: 4.25 to 4.3; Python has 4.2."""
    return number if isinstance(number, int) else number * (1 + 1e-12)


OPERATIONS = {
    "min": min,
    "max": max,
    "sum": sum,
    "quotient": lambda numbers: numbers[0] / numbers[1],
    "product": lambda numbers: numbers[0] * numbers[1],
    "difference": lambda numbers: numbers[0] - numbers[1],
}
"""What may be computed of values, such as ``{quotient = ["/ours", "/theirs"]}``."""


def found_at(result: Any, pointer: str) -> tuple[Any, Mapping[str, Any]]:
    """Follow a pointer such as ``/rows/trainer=plain,size=tiny/seconds``.

    In a list, ``name=value`` picks the only entry that has these values. Returned is
    what stands there, and where it comes from: the nearest object around it that says.
    """
    around: Mapping[str, Any] = {}
    for part in ["", *pointer.split("/")[1:]]:
        if part and isinstance(result, list):
            wanted = [each.split("=", 1) for each in part.split(",")]
            fitting = [
                row
                for row in result
                if all(str(row.get(name)) == value for name, value in wanted)
            ]
            if len(fitting) != 1:
                raise ValueError(f"{part} in {pointer} fits {len(fitting)} entries")
            result = fitting[0]
        elif part:
            if part not in result:
                raise ValueError(f"{pointer}: there is no {part!r}")
            result = result[part]
        if isinstance(result, Mapping) and ("sources" in result or not part):
            around = result
    return result, around


def why_stale(result: Any, pointer: str) -> str | None:
    """Say why a figure may be another one today; None where nothing has changed.

    Raises ``ValueError`` where it was never one: that of a rehearsal.
    """
    _, around = found_at(result, pointer)
    if re.search(r"--(rehearse|quick)\b", str(around.get("command"))):
        raise ValueError("this is the result of a rehearsal")
    if "sources" not in around:
        return "made before result files had digests of sources"
    changed = [glob for glob, old in around["sources"].items() if _now(glob) != old]
    return f"changed since: {', '.join(changed)}" if changed else None


@cache
def _now(glob: str) -> str | None:
    try:
        return digest(glob)
    except ValueError:
        return None


@cache
def read(path: Path) -> Any:
    """Read a result file."""
    return json.loads(path.read_text("utf-8"))


def flat(text: str) -> str:
    """Write a text in one line: where lines break says nothing."""
    return " ".join(text.split())


if __name__ == "__main__":
    main()
