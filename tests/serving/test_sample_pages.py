"""Pages of a run's samples: bounded, replaced together, and never in the way."""

import shutil

import pytest
from tests.serving.demo_requests import DEMO, TIRED, WIDE

from headwise.errors import ModelError
from headwise.serving import sample_pages
from headwise.serving.inspected_model import open_model
from headwise.serving.sample_pages import write_sample_pages


@pytest.fixture
def run(tmp_path):
    """Return a run folder whose best model is the demo."""
    folder = tmp_path / "run"
    shutil.copytree(DEMO, folder / "best")
    return folder


def written(folder):
    return sorted(path.name for path in (folder / "inspection").glob("*"))


def test_each_source_has_a_page(run):
    found = write_sample_pages(run, [TIRED, WIDE, TIRED])

    assert found == {
        TIRED: "inspection/sample-1.html",
        WIDE: "inspection/sample-2.html",
    }
    assert written(run) == ["sample-1.html", "sample-2.html"]
    page = (run / found[WIDE]).read_text(encoding="utf-8")
    assert "because it was too wide." in page
    assert '"name":"run"' in page


def test_the_best_model_of_a_run_has_the_name_of_the_run(run):
    assert open_model(run / "best", "cpu").name == open_model(run, "cpu").name == "run"


def test_pages_are_few_and_earlier_ones_are_removed(run):
    write_sample_pages(run, ["One.", "Two.", "Three.", "Four."])
    assert written(run) == ["sample-1.html", "sample-2.html", "sample-3.html"]

    write_sample_pages(run, ["One."])

    assert written(run) == ["sample-1.html"]


def test_a_source_without_text_has_no_page(run):
    assert write_sample_pages(run, [" ", "One."]) == {
        "One.": "inspection/sample-2.html"
    }


def test_without_time_or_space_there_is_no_page(run, monkeypatch):
    assert write_sample_pages(run, [TIRED], max_seconds=0) == {}

    monkeypatch.setattr(sample_pages, "MAX_PAGE_BYTES", 1_000)
    assert write_sample_pages(run, [TIRED]) == {}

    monkeypatch.setattr(sample_pages, "MAX_MODEL_BYTES", 1_000)
    monkeypatch.setattr(sample_pages, "open_model", None)
    assert write_sample_pages(run, [TIRED]) == {}
    assert not (run / "inspection").exists()


def test_a_run_without_a_best_model_raises(tmp_path):
    with pytest.raises(ModelError):
        write_sample_pages(tmp_path, [TIRED])
