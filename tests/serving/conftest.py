"""The demo model behind the app of the inspection page, without a browser."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.cli.conftest import headwise, start  # noqa: F401 - fixtures

from headwise.serving.inspected_model import open_model
from headwise.serving.inspection_app import inspection_app

DEMO = Path(__file__).parents[1] / "models" / "demo"
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
IL = "L'animal n'a pas traversé la rue parce qu'il"
ELLE = "L'animal n'a pas traversé la rue parce qu'elle"

BODIES = {
    "word": {"heads": ["encoder.1.1"], "position": 9},
    "patch": {"donor": WIDE, "target": IL, "other": ELLE},
    "compare": {"changes": [{"off": "cross.0.3"}]},
}
"""View -> what it needs besides the text."""

ARGUMENTS = {
    "word": ["--head", "encoder.1.1", "--position", "9"],
    "patch": ["--donor", WIDE, "--target", IL, "--other", ELLE],
    "compare": ["--off", "cross.0.3"],
}
"""The same for the command line."""


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
