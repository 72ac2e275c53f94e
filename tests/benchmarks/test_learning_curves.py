"""The picture of the learning curves shows what the result files have."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

CURVE = {
    "measure": "accuracy",
    "loss": [[10, 2.0], [20, 1.0]],
    "validation": [[10, 50.0], [20, 75.0]],
}


@pytest.fixture
def learning_curves(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learning_curves

    monkeypatch.setattr(
        learning_curves,
        "TRAININGS",
        {"commands": ("scan", ("recipes", "runs")), "phones": ("g2p", ("runs",))},
    )
    return learning_curves


@pytest.fixture
def results(tmp_path):
    """Return a folder of result files, of which one has no curve."""
    files = {
        "scan": {"recipes": {"runs": [{"curve": CURVE}, {}]}},
        "g2p": {"runs": [{"seed": 1}]},
        "uses": {"uses": {"sums": {"runs": [{"curve": {**CURVE, "validation": []}}]}}},
    }
    for name, table in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    return tmp_path


def test_a_training_without_a_curve_has_no_panel(learning_curves, results):
    found = learning_curves.curves(results)

    assert [*found] == ["commands", "demo sums"]
    assert found["commands"] == CURVE


def test_each_panel_has_the_points_of_its_training(
    learning_curves, results, tmp_path, monkeypatch
):
    from matplotlib.axes import Axes

    drawn = []
    plot = Axes.plot

    def noted(axis, updates, values, *style, **settings):
        drawn.append([*map(list, zip(updates, values, strict=True))])
        return plot(axis, updates, values, *style, **settings)

    monkeypatch.setattr(Axes, "plot", noted)

    learning_curves.draw(learning_curves.curves(results), tmp_path / "curves.png")

    loss, validation = CURVE["loss"], CURVE["validation"]
    assert drawn == [loss, validation, loss]
    assert (tmp_path / "curves.png").is_file()


def test_every_training_that_is_to_be_drawn_is_in_a_result_file(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learning_curves

    for file, path in learning_curves.TRAININGS.values():
        assert learning_curves.runs(learning_curves.RESULT_FILES, file, path)
