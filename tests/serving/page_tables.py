"""The tables behind the pictures of the page, and what the server answers."""

from __future__ import annotations

import math
from typing import Any

from tests.serving.opened_page import OpenedPage

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
IL = "L'animal n'a pas traversé la rue parce qu'il"
ELLE = "L'animal n'a pas traversé la rue parce qu'elle"


def asked(page: OpenedPage, view: str, text: str = TIRED, **body: object) -> Any:
    """Return the answer of a view, asked by itself."""
    address = f"{page.address}api/{view}"
    response = page.page.request.post(address, data={"text": text, **body})
    assert response.ok, response.text()
    return response.json()


def table(page: OpenedPage, summary: str) -> list[list[str]]:
    """Unfold a table; return the texts of its rows without the header."""
    found = page.page.locator("#panel details.numbers").filter(
        has=page.page.locator("summary", has_text=summary)
    )
    if found.get_attribute("open") is None:
        found.locator("summary").click()
    found.locator("tbody tr").first.wait_for()
    rows: list[list[str]] = found.locator("tbody").evaluate(
        "body => [...body.rows].map(row => [...row.cells].map(x => x.textContent))"
    )
    return rows


def number(text: str) -> float:
    """Read a number as the page writes it: with minus, infinity, percent."""
    plain = text.replace("\u2212", "-").replace("\u221e", "inf").replace(",", "")
    return float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)


def same(text: str, value: float | None) -> bool:
    """Tell whether a text is a number of JSON to the digits that are written."""
    if value is None:
        return number(text) == -math.inf
    return math.isclose(number(text), value, rel_tol=0.03, abs_tol=6e-4)


def assert_same(rows: list[list[str]], values: list[list[float]]) -> None:
    """Fail unless a table of numbers is a matrix of JSON."""
    assert [len(row) for row in rows] == [len(row) for row in values]
    for texts, numbers in zip(rows, values, strict=True):
        for text, value in zip(texts, numbers, strict=True):
            assert same(text, value), (text, value)


def shown(piece: str) -> str:
    """Write a piece as the page does."""
    return piece.replace("\u2581", "\u00b7")
