"""The files of the inspection page, as they are served and put into snapshots."""

from __future__ import annotations

import re
from importlib.resources import files

INDEX = "index.html"

HTML = "text/html; charset=utf-8"

MEDIA_TYPES = {
    "html": HTML,
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_COMMENT = re.compile(rb"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)[ \t]*\n", re.M)
"""A comment of CSS or JavaScript that has its lines for itself."""

_PATH = re.compile(r"(?:views/)?[\w-]+\.(\w+)", re.ASCII)


def read_page_file(path: str) -> tuple[str, bytes] | None:
    """Return the media type and content of a file; None if the page has no such file.

    ``path`` is relative to the page, such as ``views/beam.js``. Comments stay behind: a
    tenth of the bytes, and each saved page holds all of them.
    """
    match = _PATH.fullmatch(path)
    if match is None or match[1] not in MEDIA_TYPES:
        return None
    file = files("headwise.serving") / "inspection_page" / path
    if not file.is_file():
        return None
    return MEDIA_TYPES[match[1]], _COMMENT.sub(b"", file.read_bytes())
