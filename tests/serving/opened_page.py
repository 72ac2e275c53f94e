"""A page of the inspection in a browser, and what is done with it again and again."""

from __future__ import annotations

import re
from typing import Any

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


class OpenedPage:
    """A page, what it asked for, and what it wrote on its console."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        self.elsewhere: list[str] = []
        self.complaints: list[str] = []
        page.on("request", self._note_request)
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def _note_message(self, message: Any) -> None:
        expected = re.search("status of 4..", message.text)  # an error that is shown
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)

    def check(self) -> None:
        """Fail if the page asked elsewhere, or if the browser complained."""
        assert self.elsewhere == []
        assert self.complaints == [], self.complaints

    def goto(self, url: str) -> None:
        """Open an address, and wait until all of it is shown."""
        self.page.goto(url)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is computed any more."""
        self.page.wait_for_selector("#panel > *")
        self.page.wait_for_selector(".busy", state="detached")

    def click(self, selector: str) -> None:
        """Click, and wait until what follows is shown."""
        self.page.click(selector)
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys one after the other, and wait until what follows is shown."""
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def text(self, selector: str) -> str:
        """Return the text of the first element."""
        return str(self.page.text_content(selector))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements."""
        return [each.text_content() for each in self.page.query_selector_all(selector)]

    def violations(self) -> list[str]:
        """Return what axe-core finds wrong with the page as it is shown."""
        from axe_playwright_python.sync_playwright import Axe

        options = {"runOnly": {"type": "tag", "values": list(RULES)}}
        found = Axe().run(self.page, options=options)
        return [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in found.response["violations"]
            for node in each["nodes"]
        ]
