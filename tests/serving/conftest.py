"""A server of the demo model, and a browser that opens its page."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.serving.opened_page import OpenedPage

DEMO = Path(__file__).parents[1] / "models" / "demo"


@pytest.fixture(scope="session")
def demo_address() -> Iterator[str]:
    """Serve the demo model on a free port of loopback; return the address."""
    uvicorn = pytest.importorskip("uvicorn")
    from headwise.serving.inspected_model import open_model
    from headwise.serving.inspection_app import inspection_app
    from headwise.serving.run_server import address, bind

    listening = bind("127.0.0.1", 0)
    app = inspection_app(open_model(DEMO, "cpu"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield address(listening)
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def browser():
    """Start a headless Chromium, which draws in software."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on the PATH to open pages with")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, demo_address) -> Iterator[Callable[..., OpenedPage]]:
    """Return a function that opens the page at a state, such as ``text=...``.

    At the end no page may have asked another server, or complained on its console.
    """
    opened: list[OpenedPage] = []

    def open_at(
        *,
        width: int = 1280,
        dark: bool = False,
        routes: dict[str, Callable] | None = None,
        **state: object,
    ) -> OpenedPage:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(20_000)
        page = OpenedPage(context.new_page(), demo_address)
        opened.append(page)
        for address, handler in (routes or {}).items():
            page.page.route(f"{demo_address}{address}", handler)
        page.goto(f"{demo_address}#{urlencode(state)}")
        return page

    yield open_at
    for page in opened:
        page.page.context.close()
    for page in opened:
        page.check()
