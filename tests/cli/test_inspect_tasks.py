"""``headwise inspect`` of models of other tasks than translation."""

import json
from pathlib import Path

import pytest
from PIL import Image

from headwise.sample_data.scenes import scenes

MODELS = Path(__file__).parents[1] / "models"
WORDS = "the girl found the guest with a beard ."


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Return an input of each model; of captioning the path of a picture."""
    path = tmp_path_factory.mktemp("scene") / "scene.png"
    Image.fromarray(scenes().test[0].pixels()).save(path)
    reviews = "The lid was not unreliable."
    return {"reviews": reviews, "trees": WORDS, "scenes": str(path)}


VIEWS = {
    "reviews": ["output", "attention", "attribution", "word", "compare"],
    "trees": ["output", "attention", "attribution", "beam", "word", "lens", "compare"],
    "scenes": ["output", "attention", "attribution", "beam", "word", "lens", "compare"],
}
OPTIONS = {
    "word": ["--head", "encoder.1.1", "--position", "2"],
    "compare": ["--off", "encoder.1.1"],
    "beam": ["--search", "beam=2"],
}
SHOWN = [(model, view) for model, views in VIEWS.items() for view in views]


@pytest.mark.parametrize(("model", "view"), SHOWN)
def test_every_view_prints_a_summary_and_writes_files(
    headwise, inputs, model, view, tmp_path
):
    given = [MODELS / model, inputs[model], "--show", view, *OPTIONS.get(view, [])]

    printed = headwise("inspect", *given)

    assert (printed.code, printed.error) == (0, "")
    assert len(printed.out.splitlines()) > 1
    for suffix in ("json", "svg", "png"):
        out = tmp_path / f"found.{suffix}"
        written = headwise("inspect", *given, "--out", out)
        if view == "compare" and suffix != "json":
            assert "is not drawn" in written.error
            continue
        assert written.code == 0
        start = {"json": b'{"format": 1', "svg": b"<svg ", "png": b"\x89PNG"}[suffix]
        assert out.read_bytes().startswith(start)


def test_the_picture_is_in_the_drawing(headwise, inputs, tmp_path):
    out = tmp_path / "attention.svg"
    given = [MODELS / "scenes", inputs["scenes"], "--show", "attention", "--out", out]
    headwise("inspect", *given)
    drawing = out.read_text(encoding="utf-8")

    assert 'href="data:image/png;base64,' in drawing
    assert 'fill-opacity="0.8"' in drawing


def test_the_tree_is_drawn_beside_its_tokens(headwise):
    done = headwise("inspect", MODELS / "trees", WORDS)

    assert "└" in done.out or "┴" in done.out
    assert done.out.startswith("(S (NP (XX the) (XX girl)) (VP ")


def test_the_heads_of_a_classifier_are_ranked_and_pruned(headwise, tmp_path):
    texts, labels = tmp_path / "texts.txt", tmp_path / "labels.txt"
    texts.write_text("The lid was wonderful.\nThe lid was terrible.\n", "utf-8")
    labels.write_text("positive\nnegative\n", "utf-8")
    out = tmp_path / "pruned"

    given = ["--rank-heads", texts, labels, "--prune", 1, "--out", out]
    done = headwise("inspect", MODELS / "reviews", *given)

    assert done.code == 0
    assert len([x for x in done.out.splitlines() if x.startswith("encoder.")]) == 4
    assert headwise("doctor", out).code == 0


@pytest.mark.parametrize(
    ("model", "given", "code", "said"),
    [
        ("reviews", ["fine", "--show", "beam"], 2, "classification has no view beam"),
        ("reviews", ["fine", "--show", "lens"], 2, "it has output, attention, "),
        ("reviews", ["fine", "--target", "good"], 4, "the label 'good' is not among"),
        ("reviews", ["fine", "--search", "beam=2"], 2, "leave it out"),
        ("reviews", ["fine", "--prefix", "pos"], 2, "so there is no forced beginning"),
        ("reviews", ["fine", "--off", "cross.0.0"], 2, "no attention layer cross.0"),
        ("trees", [WORDS, "--target", "(S (NN dog))"], 4, "they must be the same"),
        ("trees", [WORDS, "--target", "dog"], 4, "dog"),
        ("trees", [WORDS, "--prefix", "(S"], 2, "beginning cannot be forced"),
        ("scenes", ["no.png"], 4, "no.png: it does not exist"),
        ("scenes", ["a red circle"], 4, "it does not exist"),
    ],
)
def test_mistakes_are_named(headwise, model, given, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = headwise("inspect", MODELS / model, *given)

    assert (done.code, done.out) == (code, "")
    assert said in done.error


def test_statistics_and_bleu_are_of_translations(headwise, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("fine\n", encoding="utf-8")

    for option in (["--head-statistics"], ["--bleu", "1", "--rank-heads"]):
        done = headwise("inspect", MODELS / "reviews", *option, path, path)
        assert done.code == 2
        assert "is a model of classification, not of translation" in done.error


def test_json_has_the_grid_of_the_patches(headwise, inputs, tmp_path):
    out = tmp_path / "found.json"
    headwise(
        *("inspect", MODELS / "scenes", inputs["scenes"], "--show", "attribution"),
        *("--out", out),
    )

    grid = json.loads(out.read_text(encoding="utf-8"))["patches"]
    assert (grid["rows"], grid["columns"], grid["frames"], grid["first"]) == (
        4,
        4,
        1,
        0,
    )
