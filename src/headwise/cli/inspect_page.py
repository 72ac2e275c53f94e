"""``headwise inspect`` as a page: served on loopback, or written as one file."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from headwise.cli.argument_checks import check_search
from headwise.cli.options import resolve_device, say
from headwise.cli.out_files import write_out_file
from headwise.errors import UsageError
from headwise.inspection.views import VIEWS
from headwise.run_folder.paths import model_path, task_of_folder
from headwise.tasks import TASKS
from headwise.wording import without_surrogates

EXTRA = ("starlette", "uvicorn")
"""What the extra ``serve`` installs."""


HOST, PORT = "127.0.0.1", 8765


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page begins with."""

    text: str | None = None
    view: str | None = None
    target: str | None = None
    prefix: str = ""
    donor: str | None = None
    other: str | None = None
    heads: Sequence[str] = ()
    position: int | None = None
    off: Sequence[str] = ()
    no_residual: Sequence[str] = ()
    search: dict[str, Any] = field(default_factory=dict)

    def check_view(self) -> None:
        """Raise ``UsageError`` if there is no such view."""
        if self.view is not None and self.view not in VIEWS:
            names = "; ".join(f"{name}: {each.summary}" for name, each in VIEWS.items())
            raise UsageError(f"--show must be one of these, not {self.view!r}: {names}")

    def check_search(self, folder: Path) -> None:
        """Raise for decoding settings that are refused, or given without a search."""
        task = task_of_folder(model_path(folder))
        if TASKS[task].searches:
            check_search(folder, self.search)
        elif self.search:
            raise UsageError(
                "--search is for outputs that are searched for, and a model of "
                f"{task} chooses its own at once; leave it out"
            )

    def state(self) -> dict[str, Any]:
        """Return what is set, under the names that it has in the page's address."""
        state = {
            "text": self.text,
            "view": self.view,
            "target": self.target,
            "prefix": self.prefix,
            "donor": self.donor,
            "other": self.other,
            "head": self.heads[0] if self.heads else None,
            "query": self.position,
            "off": list(self.off),
            "noResidual": list(self.no_residual),
        }
        return {key: each for key, each in state.items() if each not in (None, "", [])}

    def fragment(self) -> str:
        """Return the state as the end of an address, from ``#``."""
        given = {
            key: ",".join(value) if isinstance(value, list) else value
            for key, value in self.state().items()
        }
        return f"#{urlencode(given, quote_via=quote, safe=',')}" if given else ""

    def request(self) -> dict[str, Any]:
        """Return what is asked of the model: the body of a request."""
        changes = [{"off": name} for name in self.off]
        changes += [{"no_residual": name} for name in self.no_residual]
        return {
            "text": self.text,
            "target": self.target,
            "prefix": self.prefix,
            "donor": self.donor,
            "other": self.other,
            "heads": list(self.heads),
            "position": self.position,
            "changes": changes,
        }


def serve_page(
    folder: Path, page: Page, device: str, *, host: str | None, port: int | None
) -> None:
    """Serve the page until it is stopped, by default on ``HOST`` and ``PORT``.

    Raises ``UsageError`` for a host that others can reach, and without the extra.
    """
    host = HOST if host is None else host
    port = PORT if port is None else port
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
            "no password; to open it on another computer, forward a port there: ssh -L "
            f"{port or PORT}:{HOST}:{port or PORT} THIS-COMPUTER"
        )
    page.check_search(folder)
    from headwise.serving.inspected_model import open_model
    from headwise.serving.inspection_app import inspection_app
    from headwise.serving.run_server import address, bind, serve

    with bind(host, port) as listening:
        model = open_model(folder, resolve_device(device), search=page.search)
        link = address(listening) + page.fragment()
        serve(inspection_app(model), listening, lambda: say(f"{link}\nCtrl-C stops"))
    say("stopped")


def write_page(folder: Path, page: Page, device: str, out: Path) -> None:
    """Write the page with its answers as one file, and name the views it is without."""
    from headwise.serving.inspected_model import open_model
    from headwise.serving.recorded_questions import record_page

    content = record_page(
        open_model(folder, resolve_device(device), search=page.search),
        page.request(),
        page.state(),
        on_left_out=lambda view, error: say(f"note: {out} is without {view}: {error}"),
    )
    write_out_file(out, without_surrogates(content))
    say(f"{out}: open it in a browser")
