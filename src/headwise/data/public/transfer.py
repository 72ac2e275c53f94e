"""Resumable transfers over HTTP and HTTPS, with the standard library alone.

A partial file stays after an interruption. The next transfer asks for the rest of it
(``Range``), on condition that the file is the same (``If-Range``, RFC 9110, Section
13.1.5), and starts over where a server cannot resume.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from headwise.errors import DataError, ResourceError
from headwise.storage import resource_error

Say = Callable[[str], None]

CHUNK = 1 << 20
"""Bytes that are read and written at a time."""

TIMEOUT = 60.0
"""Seconds without a byte after which a connection counts as lost."""

RETRIES = 5
"""Transfers in a row without a new byte, after which a file is given up."""

PROGRESS_SECONDS = 10.0
"""Seconds from one message of progress to the next."""

TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
"""HTTP status codes after which a later request may succeed."""


class Unavailable(ResourceError):  # noqa: N818 - a state of the server
    """The server does not give the file, or cannot be reached; a mirror may be."""


class _Lost(Exception):  # noqa: N818 - retried, and shown only at the end
    """The connection was lost, or the server is busy."""


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to HTTP and HTTPS only, and never from HTTPS to HTTP."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise Unavailable(
                f"{req.full_url} redirects to {newurl}, which is not followed: it "
                "must be HTTPS, or HTTP from HTTP"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def part_of(path: Path) -> Path:
    """Return the path of the partial file of a transfer to ``path``."""
    return path.with_name(f"{path.name}.part")


def state_of(path: Path) -> Path:
    """Return the path of the JSON file with URL and validator of a partial file."""
    return path.with_name(f"{path.name}.part.json")


def transfer(
    url: str,
    path: Path,
    *,
    num_bytes: int | None = None,
    say: Say = lambda _: None,
    pause: Callable[[float], object] = lambda seconds: time.sleep(seconds),
) -> bool:
    """Transfer ``url`` into the partial file of ``path``, and resume one that is there.

    Returns whether an earlier partial file was resumed. ``num_bytes`` is the size that
    the file must have. Raises ``Unavailable`` if the server does not have it or the
    network fails, ``DataError`` if it has another size, and ``ResourceError`` for a
    disk that fails; the partial file stays.
    """
    connection = _Transfer(url, path, num_bytes, say)
    resumed = connection.received > 0
    failures = 0
    while True:
        before = connection.received
        try:
            connection.receive()
            return resumed
        except _Lost as lost:
            failures = 0 if connection.received > before else failures + 1
            if failures >= RETRIES:
                raise Unavailable(
                    f"{url} could not be downloaded: {lost}. {connection.progress()}; "
                    "the same command resumes it"
                ) from None
            seconds = 2.0**failures
            say(f"{url}: {lost}; trying again in {seconds:.0f} s")
            pause(seconds)


class _Transfer:
    """One file: what has been received, and the identity of what is received."""

    def __init__(self, url: str, path: Path, num_bytes: int | None, say: Say) -> None:
        self.url = url
        self.path = path
        self.part = part_of(path)
        self.num_bytes = num_bytes
        self.say = say
        self.validator = self._read_validator()
        self.received = self.part.stat().st_size if self.part.exists() else 0
        self.total: int | None = num_bytes
        self._said_at = time.monotonic()
        self._opener = urllib.request.build_opener(_SafeRedirects)

    def progress(self) -> str:
        """Return how much has been received, as text."""
        of = "" if self.total is None else f" of {size_text(self.total)}"
        return f"{size_text(self.received)}{of} received"

    def receive(self) -> None:
        """Request what is missing, and append it to the partial file."""
        if self.num_bytes is not None and self.received == self.num_bytes:
            return
        if self.num_bytes is not None and self.received > self.num_bytes:
            self._start_over()
        with self._request() as response:
            if response is None:  # the partial file has all bytes
                return
            self._check_size()
            self._check_disk()
            self._write_validator(response)
            try:
                with self.part.open("ab") as file:
                    self._copy(response, file)
            except OSError as error:
                raise resource_error(error, self.path) from error
        if self.total is not None and self.received < self.total:
            raise _Lost("the connection was closed before the end")

    def _copy(self, response: http.client.HTTPResponse, file: IO[bytes]) -> None:
        while True:
            try:
                chunk = response.read1(CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _Lost(_reason(error)) from None
            if not chunk:
                return
            file.write(chunk)
            file.flush()
            self.received += len(chunk)
            if self.total is not None and self.received > self.total:
                raise DataError(
                    f"{self.url} sends more than the {size_text(self.total)} that it "
                    "announced; download it by other means, and name its folder with "
                    "--from"
                )
            if time.monotonic() - self._said_at >= PROGRESS_SECONDS:
                self._said_at = time.monotonic()
                self.say(f"{self.path.name}: {self.progress()}")

    def _request(self) -> Any:
        """Open the connection; a context manager of None if nothing is missing."""
        headers = {"User-Agent": "headwise", "Accept-Encoding": "identity"}
        if not self.validator and self.num_bytes is None:
            self._start_over()  # the rest might be that of another file
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
            if self.validator:
                headers["If-Range"] = self.validator
        request = urllib.request.Request(self.url, headers=headers)
        try:
            response = self._opener.open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                return self._after_error(error)
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(error) from None
        if response.status == 206:
            self._check_range(response.headers.get("Content-Range", ""))
        else:
            if self.received:
                self.say(f"{self.path.name}: the server cannot resume; starting over")
            self._start_over()
            length = response.headers.get("Content-Length", "")
            self.total = int(length) if length.isdigit() else self.num_bytes
            if self.total is None and not response.chunked:
                raise Unavailable(
                    f"{self.url}: the server does not say how long the file is, so "
                    "that a part of it would pass for all of it; download it by other "
                    "means, and name its folder with --from"
                )
        return response

    def _after_error(self, error: urllib.error.HTTPError) -> Any:
        if error.code == 416:  # nothing is left after the bytes that we have
            total = re.fullmatch(
                r"bytes \*/(\d+)", error.headers.get("Content-Range", "")
            )
            if total and int(total[1]) == self.received:
                self.total = self.received
                return _Nothing()
            self._start_over()
            raise _Lost("the partial file is longer than the file of the server")
        if error.code in TEMPORARY:
            raise _Lost(f"the server answers {error.code} {error.reason}")
        raise Unavailable(
            f"{self.url} cannot be downloaded: the server answers {error.code} "
            f"{error.reason}"
        )

    def _failure(self, error: Exception) -> Exception:
        reason = getattr(error, "reason", error)
        if isinstance(reason, Unavailable):
            return reason
        if isinstance(reason, ssl.SSLCertVerificationError):
            return Unavailable(
                f"{self.url} cannot be trusted: {reason.verify_message}; check the "
                "date of this machine and its certificates"
            )
        return _Lost(_reason(error))

    def _check_range(self, content_range: str) -> None:
        """Check that the answer continues the partial file."""
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range)
        if match is None or int(match[1]) != self.received:
            self._start_over()
            raise _Lost("the server sent another part than the one asked for")
        if match[2] != "*":
            self.total = int(match[2])

    def _check_size(self) -> None:
        if self.num_bytes is not None and self.total != self.num_bytes:
            raise DataError(
                f"{self.url} has {self.total or 0:,} bytes, but must have "
                f"{self.num_bytes:,}: it was replaced by its publisher; if you have "
                "the former file, name its folder with --from"
            )

    def _check_disk(self) -> None:
        """Raise before the transfer if the disk has no room for the whole file."""
        missing = (self.total or 0) - self.received
        free = shutil.disk_usage(self.path.parent).free
        if missing > free:
            raise ResourceError(
                f"{self.path} needs {size_text(missing)} more, and the disk has "
                f"{size_text(free)} free: free some space, or choose a folder on "
                "another disk"
            )

    def _start_over(self) -> None:
        self.part.unlink(missing_ok=True)
        self.received = 0
        self.validator = ""

    def _read_validator(self) -> str:
        try:
            state = json.loads(state_of(self.path).read_text(encoding="utf-8"))
            return str(state["validator"]) if state["url"] == self.url else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _write_validator(self, response: http.client.HTTPResponse) -> None:
        etag = response.headers.get("ETag", "")
        strong = "" if etag.startswith("W/") else etag  # If-Range takes strong ones
        self.validator = strong or response.headers.get("Last-Modified", "")
        text = json.dumps({"url": self.url, "validator": self.validator})
        try:
            state_of(self.path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise resource_error(error, self.path) from error


class _Nothing:
    """A context manager of None: the answer of a server that has nothing to add."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no byte came for {TIMEOUT:.0f} s"
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return f"the connection failed ({text})"


def size_text(num_bytes: int) -> str:
    """Return a size as text: 900 B, 1.5 KB, 650 MB, 2.6 GB."""
    size, unit = float(num_bytes), "B"
    for larger in ("KB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
