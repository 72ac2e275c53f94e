"""What a server without a password must refuse: other sites' pages, and other hosts.

A page of another site that is open in the same browser can send requests to loopback.
It may not read the answers, but computes and, if its name is made to point to loopback
(DNS rebinding), reads. So the Host must be loopback, the Origin of what is posted our
own, and its type one that a form cannot send.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1 << 20
"""Bytes of a body."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def error_response(
    message: str, status: int, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error in the form that all of ours have."""
    return JSONResponse({"error": {"message": message}}, status, headers=headers)


def is_loopback(host: str) -> bool:
    """Return whether a host, without its port, is loopback: a name or an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class LocalOnly:
    """ASGI middleware that refuses what this page did not ask for, with 403 or 415.

    Bodies are limited to ``MAX_BODY``: 413. It adds headers that keep the page from
    fetching anything elsewhere.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the app do so."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        refused = _refused(headers) or _refused_post(scope, headers)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)


def _refused(headers: Headers) -> JSONResponse | None:
    host = headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if is_loopback(name):
        return None
    return error_response(
        f"this page is served on loopback alone, not as {host!r}; open it as 127.0.0.1 "
        "or localhost",
        403,
    )


def _refused_post(scope: Scope, headers: Headers) -> JSONResponse | None:
    if scope["method"] != "POST":
        return None
    origin = headers.get("origin")
    if origin is not None and origin not in _own_origins(headers.get("host", "")):
        return error_response(f"requests from pages of {origin} are refused", 403)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return error_response(
            f"the Content-Type must be application/json, not {media_type!r}", 415
        )
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY:
        return too_large()
    return None


def _own_origins(host: str) -> Iterable[str]:
    return f"http://{host}", f"https://{host}"


def too_large() -> JSONResponse:
    """Return the answer to a body of more than ``MAX_BODY``."""
    return error_response(f"the body has more than {MAX_BODY:,} bytes", 413)
