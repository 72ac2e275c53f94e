"""``headwise inspect`` as a page: served on loopback, or written as one file."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from headwise.cli.options import say
from headwise.errors import UsageError

EXTRA = ("starlette", "uvicorn")
"""What the extra ``serve`` installs."""


def serve_page(
    folder: Path,
    device: str,
    *,
    host: str,
    port: int,
    state: Mapping[str, object],
) -> None:
    """Serve the page until it is stopped; its link starts with ``state``.

    Raises ``UsageError`` for a host that others can reach, and without the extra.
    """
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--serve needs {' and '.join(missing)}: pip install 'headwise[serve]'; "
            "--out page.html writes a page without"
        )
    from headwise.serving.local_only import is_loopback

    if not is_loopback(host):
        raise UsageError(
            f"--host {host} is not an address of this computer alone, and the page has "
            "no password; for another computer forward a port, such as ssh -L "
            f"{port or 8765}:127.0.0.1:{port or 8765} NAME"
        )
    from headwise.serving.inspected_model import open_model
    from headwise.serving.inspection_app import inspection_app
    from headwise.serving.run_server import address, bind, serve

    listening = bind(host, port)
    with listening:
        app = inspection_app(open_model(folder, device))
        link = address(listening) + fragment(state)
        serve(app, listening, lambda: say(f"{link}\nCtrl-C stops"))
    say("stopped")


def fragment(state: Mapping[str, object]) -> str:
    """Return what is set of a state as the end of an address, from ``#``."""
    given = {
        key: ",".join(value) if isinstance(value, list) else value
        for key, value in state.items()
        if value
    }
    return f"#{urlencode(given, quote_via=quote, safe=',')}" if given else ""
