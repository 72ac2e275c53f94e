"""The demo model behind the app of the inspection page, without a browser."""

import pytest
from starlette.testclient import TestClient
from tests.cli.conftest import headwise, start  # noqa: F401 - fixtures
from tests.serving.demo_requests import DEMO, TIRED

from headwise.serving.inspected_model import open_model
from headwise.serving.inspection_app import inspection_app


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
