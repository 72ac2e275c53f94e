"""The demo model behind the app of the inspection page, and a browser that opens it."""

import shutil
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
import uvicorn
from starlette.testclient import TestClient
from tests.cli.conftest import headwise, start  # noqa: F401 - fixtures
from tests.serving.demo_requests import DEMO, TIRED
from tests.serving.opened_page import OpenedPage

from headwise.serving.inspected_model import open_model
from headwise.serving.inspection_app import inspection_app
from headwise.serving.run_server import address, bind


@pytest.fixture(scope="session")
def model():
    return open_model(DEMO, "cpu")


@pytest.fixture
def client(model):
    return TestClient(inspection_app(model), base_url="http://127.0.0.1:8765")


@pytest.fixture
def ask(client):
    """Return a function that asks a view, and its answer as a response."""

    def call(view, text=TIRED, **body):
        return client.post(f"/api/{view}", json={"text": text, **body})

    return call


@pytest.fixture(scope="session")
def demo_address(model) -> Iterator[str]:
    """Serve the demo model on a free port of loopback; return the address."""
    listening = bind("127.0.0.1", 0)
    app = inspection_app(model)
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
        for path, handler in (routes or {}).items():
            page.page.route(f"{demo_address}{path}", handler)
        page.goto(f"{demo_address}#{urlencode(state)}")
        return page

    yield open_at
    for page in opened:
        page.page.context.close()
    for page in opened:
        page.check()
