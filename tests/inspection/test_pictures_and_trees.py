"""Pictures with their patches, and trees: of small untrained models."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image
from tests.inspection.test_every_task import BEAM, off, untrained
from tests.tasks.examples import PICTURES, pictures

from headwise.errors import DataError, UsageError
from headwise.inspection.attribution import leave_one_out
from headwise.inspection.json_form import to_json
from headwise.inspection.patch_grid import grid_of
from headwise.text.patch_tokenizer import PatchTokenizer, PictureSize
from headwise.text.trees import parse_tree


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    Image.fromarray(PICTURES[0]).save(folder / "bar.png")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "small.png")
    (folder / "text.png").write_text("no picture", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["captioning", "picture_classification"])
def inspector(request, tmp_path_factory):
    return untrained(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    return untrained("parsing", tmp_path_factory.mktemp("trees"))


def pixels_of(url):
    kind, written = url.split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(written))))


def test_patches_have_names_and_the_picture_is_there(inspector, folder):
    found = inspector.attention(str(folder / "bar.png"))

    first = int(inspector.task.name == "picture_classification")
    grid = to_json(found)["patches"]
    assert grid["first"] == first
    assert len(found.source) == first + grid["rows"] * grid["columns"]
    assert found.source[first] == "row 0, column 0"
    last = f"row {grid['rows'] - 1}, column {grid['columns'] - 1}"
    assert found.source[-1] == last
    np.testing.assert_array_equal(pixels_of(grid["image"]), PICTURES[0])
    if first:
        assert found.source[0] == "[class]"


def test_frames_stand_side_by_side():
    """By hand: two frames of 2 x 4 pixels, in patches of 2 x 2."""
    cutter = PatchTokenizer(PictureSize(2, 2, 4, 3), 2)
    video = np.arange(48, dtype=np.uint8).reshape(2, 2, 4, 3)

    grid = grid_of(cutter, cutter.patches(video), first=0)

    assert (grid.rows, grid.columns, grid.frames) == (1, 2, 2)
    assert grid.pieces == (
        "frame 0, row 0, column 0",
        "frame 0, row 0, column 1",
        "frame 1, row 0, column 0",
        "frame 1, row 0, column 1",
    )
    shown = pixels_of(grid.image)
    np.testing.assert_array_equal(shown[:, :4], video[0])
    np.testing.assert_array_equal(shown[:, 4:], video[1])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no.png", "no.png: it does not exist"),
        ("text.png", "not a PNG file"),
        ("small.png", "convert the picture to that size"),
    ],
)
def test_a_picture_that_cannot_be_read_is_refused(inspector, folder, name, said):
    with pytest.raises(DataError, match=said):
        inspector.output(str(folder / name))


def test_hidden_patches_are_those_that_the_output_never_sees(tmp_path):
    """Without positions a picture without a patch is one with fewer patches."""
    inspector = untrained("captioning", tmp_path, positions="none")
    image, _ = pictures(1, seed=5)
    path = tmp_path / "picture.png"
    Image.fromarray(image[0]).save(path)
    pair = inspector.pair(str(path), "a bar down")
    model = inspector.model
    found = leave_one_out(inspector._inspected.attributed(pair), range(2))
    inputs = torch.tensor([pair.decoder_input])

    def log_p(patches):
        is_real = torch.ones(1, len(patches)).bool()
        logits = model(patches[None], inputs, is_real)[0].log_softmax(-1)
        return logits[range(len(pair.target)), pair.target][:2]

    with torch.no_grad():
        whole = log_p(pair.values)
        for patch in range(len(pair.source)):
            kept = [n for n in range(len(pair.source)) if n != patch]
            lost = whole - log_p(pair.values[kept])
            torch.testing.assert_close(found[:, patch], lost, atol=1e-4, rtol=1e-4)


def test_the_tree_is_that_of_predict(parser):
    text = "one dog runs"
    (predicted,) = parser.task.predictions(parser.model, [text], parser.decoding)

    assert parser.attention(text).tree == predicted.output
    output = parser.output(text)
    assert (output.tree, output.text) == (predicted.output, predicted.output)
    assert parse_tree(output.tree).words == ["one", "dog", "runs"]


def test_the_beam_of_a_parser_writes_trees_only(parser):
    found = parser.beam("one dog runs", **BEAM)

    (best,) = found.results
    assert parse_tree(best.text).words == ["one", "dog", "runs"]
    assert all(node.piece.startswith("(") for node in found.nodes if node.step == 1)
    (before,) = parser.compare("one dog runs", *off(parser), **BEAM).before
    assert best.text == before.text
    assert best.log_probability == pytest.approx(before.log_probability, abs=1e-5)


def test_another_tree_can_be_looked_at(parser):
    tree = "(S (NP (CD one) (NN dog)) (VP (VB runs)))"
    found = parser.output("one dog runs", tree)

    assert found.tree == tree
    assert [each.piece for each in found.positions][:2] == ["(S", "(NP"]
    with pytest.raises(DataError, match="they must be the same"):
        parser.output("one cat runs", tree)
    with pytest.raises(UsageError, match="beginning cannot be forced"):
        parser.output("one dog runs", prefix="(S")
