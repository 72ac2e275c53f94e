"""A small HTTP server on the loopback interface, which misbehaves as it is told to."""

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headwise.data.public.corpus import Download

CONTENT = bytes(range(256)) * 4000


@dataclass
class Behaviour:
    """What the server does; tests change it."""

    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    """Answers given to the next requests, instead of files."""
    cuts: list[int] = field(default_factory=list)
    """Bytes of the body after which the next answers are broken off."""
    has_ranges: bool = True
    shifts_ranges: bool = False
    says_length: bool = True
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path and Range of each request."""
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def log_message(self, *_):
        pass

    def do_GET(self):
        how = self.behaviour
        asked = self.headers.get("Range", "")
        how.requests.append((self.path, asked))
        if how.statuses:
            return self._end(how.statuses.pop(0))
        if self.path in how.redirects:
            return self._end(302, Location=how.redirects[self.path])
        if self.path not in how.files:
            return self._end(404)
        body = how.files[self.path]
        etag = how.etags.get(self.path, f'"{hashlib.md5(body).hexdigest()}"')
        headers, status, start = {"ETag": etag}, 200, 0
        same = self.headers.get("If-Range", etag) == etag
        if asked and how.has_ranges and same:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return self._end(416, **{"Content-Range": f"bytes */{len(body)}"})
            status = 206
            start += how.shifts_ranges
            last = len(body) - 1
            headers["Content-Range"] = f"bytes {start}-{last}/{len(body)}"
        rest = body[start:]
        if how.says_length:
            headers["Content-Length"] = str(len(rest))
        self._start(status, headers)
        if how.cuts:
            rest = rest[: how.cuts.pop(0)]
        with suppress(OSError):
            self.wfile.write(rest)
        self.close_connection = True
        return None

    def _start(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _end(self, status, **headers):
        self._start(status, {"Content-Length": "0", **headers})


@pytest.fixture
def server():
    """A server of one file, /file.bin."""
    behaviour = Behaviour(files={"/file.bin": CONTENT})
    handler = type("BehavingHandler", (Handler,), {"behaviour": behaviour})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    httpd.daemon_threads = True
    behaviour.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield behaviour
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def pinned(server):
    """A download of that file whose SHA-256 is stated."""
    return Download(
        name="set/file.bin",
        urls=(f"{server.url}/file.bin",),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        num_bytes=len(CONTENT),
        stated_by="this test",
    )


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """Reach the loopback interface directly."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
