"""An HTML page in one file, with a content security policy: nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import time
from functools import cache
from html import escape
from importlib.resources import files

RELOAD_SECONDS = 30
"""How often an open page reloads while what it reports is running."""


def page(title: str, body: str, *, written: float, reload_seconds: int = 0) -> str:
    """Return an HTML page around ``body``, which reloads every ``reload_seconds``.

    ``written`` is the Unix time of the page.
    """
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{content_hash(style)}'; "
        f"script-src '{content_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    running = f' data-running="{reload_seconds}"' if reload_seconds else ""
    without_script = (
        f'<noscript><meta http-equiv="refresh" content="{reload_seconds}"></noscript>'
        if reload_seconds
        else ""
    )
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"{without_script}<title>{escape(title)}</title>\n"
        f"<style>{style}</style></head>\n"
        f'<body data-written="{written:.0f}"{running}>\n{body}\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


def facts(table: dict[str, tuple[str, str]]) -> str:
    """Return large numbers as HTML, each with a name above and a remark below."""
    entries = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}"
        f"{f'<small>{escape(remark)}</small>' if remark else ''}</dd></div>"
        for name, (value, remark) in table.items()
    )
    return f'<dl class="facts">{entries}</dl>'


@cache
def _asset(name: str) -> str:
    return (files("headwise.reports") / name).read_text(encoding="utf-8")


def content_hash(text: str) -> str:
    """Return the hash that names a style or a script in a security policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def moment(now: float) -> str:
    """Return a Unix time as local date and time with its offset."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
