"""Pictures on the command line: run, predict, evaluate, prepare and train."""

import json
import re

import numpy as np
import pytest
from PIL import Image
from tests.cli.test_tasks import TINY
from tests.tasks.examples import pictures, train_example

from headwise import load
from headwise.errors import DataError
from headwise.text.pixels import data_url


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return train_example("picture_classification", tmp_path_factory.mktemp("bars"))


def write_folder(folder, count, seed):
    images, labels = pictures(count, seed)
    paths = []
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        paths.append(folder / str(label) / f"{number:03}.png")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(paths[-1])
    return paths


def test_a_folder_with_a_sub_folder_for_each_label(headwise, tmp_path):
    for name, seed in (("train", 1), ("dev", 2), ("test", 3)):
        write_folder(tmp_path / name, 60, seed)
    found = headwise(
        *("run", tmp_path / "train", "--task", "picture_classification"),
        *("--dev-file", tmp_path / "dev", "--test-file", tmp_path / "test"),
        *("--out", tmp_path / "run", *TINY),
    )

    assert found.code == 0, found.error
    assert found.out.splitlines()[0].startswith("accuracy ")
    assert "60 pictures read: 60 for training" in found.error
    assert "predicting 60 test lines" in found.error
    assert "base64" not in found.error
    trained = headwise(
        *("train", tmp_path / "run" / "prepared", "--out", tmp_path / "other", *TINY)
    )
    for name, each in (("run", found), ("other", trained)):
        assert f"next: headwise predict {tmp_path / name} < PATHS" in each.error


def test_paths_line_by_line(headwise, classifier, tmp_path):
    paths = write_folder(tmp_path, 6, 5)
    lines = [*map(str, paths[:2]), "", *map(str, paths[2:])]
    found = headwise("predict", classifier, stdin="\n".join(lines).encode() + b"\n")
    rows = found.out.splitlines()

    assert found.code == 0, found.error
    assert len(rows) == 7
    assert rows[2] == ""
    assert rows == load(classifier).predict(lines)


def test_files_of_pictures_are_lines(headwise, classifier, tmp_path):
    """A PNG file is one line, a .npz file has one for each picture, labels or not."""
    paths = write_folder(tmp_path, 6, 5)
    images, labels = pictures(6, 5)
    np.savez(tmp_path / "plain.npz", images=images)
    np.savez(tmp_path / "labelled.npz", images=images, labels=labels)
    (tmp_path / "list.txt").write_text(f"{paths[0]}\n\n{paths[1]}\n")
    wanted = load(classifier).predict([str(each) for each in paths])

    for files in (paths, [tmp_path / "plain.npz"], [tmp_path / "labelled.npz"]):
        found = headwise("predict", classifier, *files)
        assert found.code == 0, found.error
        assert found.out.splitlines() == wanted

    mixed = (paths[2], tmp_path / "list.txt", tmp_path / "plain.npz")
    rows = headwise("predict", classifier, *mixed).out.splitlines()
    assert rows == [wanted[2], wanted[0], "", wanted[1], *wanted]
    vectors = [
        headwise("embed", classifier, *files).out
        for files in (paths, [tmp_path / "plain.npz"])
    ]
    assert vectors[0] == vectors[1]
    assert len(vectors[0].splitlines()) == 6


def test_a_file_of_pictures_that_cannot_be_used_is_named(
    headwise, classifier, tmp_path
):
    (good,) = write_folder(tmp_path, 1, 5)
    (tmp_path / "bad.png").write_bytes(good.read_bytes()[:50])
    np.savez(tmp_path / "none.npz", labels=np.zeros(2))
    dark = np.full((2, 8, 8), np.nan)
    np.savez(tmp_path / "dark.npz", images=dark, maximum=1)
    np.savez(tmp_path / "objects.npz", images=np.array([dark[0], None], object))
    for name, reason in (
        ("bad.png", f"line 2: {tmp_path / 'bad.png'}: it cannot be read"),
        ("none.npz", "must have one of the arrays images and videos"),
        ("dark.npz", "dark.npz, images[0]: 64 pixels NaN or infinite"),
        ("objects.npz", "images: an array of objects, which would need pickle"),
    ):
        found = headwise("predict", classifier, good, tmp_path / name)
        assert found.code == DataError.exit_code, found.error
        assert reason in found.error


def test_a_path_and_a_data_url_of_the_same_pixels_are_the_same(classifier, tmp_path):
    (path,) = write_folder(tmp_path, 1, 5)
    image = pictures(1, 5)[0][0]
    by_path, by_url = load(classifier).predictions(
        [str(path), data_url(image[None, :, :, None])]
    )

    assert by_path == by_url
    assert by_path.ranked[0][0] == by_path.output


def test_a_picture_that_cannot_be_used_is_named_with_its_line(
    headwise, classifier, tmp_path
):
    (good,) = write_folder(tmp_path, 1, 5)
    small, text = tmp_path / "small.png", tmp_path / "text.png"
    Image.fromarray(np.zeros((4, 8), np.uint8)).save(small)
    text.write_text("no picture")
    for bad, reason in (
        (
            small,
            "the model was trained on pictures of 8 x 8 pixels, L, not 8 x 4 pixels, L",
        ),
        (text, "not a PNG file"),
        (tmp_path / "none.png", "it does not exist"),
    ):
        found = headwise("predict", classifier, stdin=f"{good}\n{bad}\n".encode())

        assert found.code == DataError.exit_code
        assert f"line 2: {bad}: {reason}" in found.error


def test_the_line_is_counted_over_all_that_were_read_before(classifier, monkeypatch):
    monkeypatch.setattr("headwise.inference.predictor.READ_AHEAD", 2)
    with pytest.raises(DataError, match=r"line 6: none\.png: it does not exist"):
        list(load(classifier).lines([*[""] * 5, "none.png"]))


def test_arrays_and_folders_are_evaluated_alike(headwise, classifier, tmp_path):
    images, labels = pictures(30, 7)
    np.savez(tmp_path / "test.npz", images=images, labels=labels)
    write_folder(tmp_path / "test", 30, 7)
    scores = []
    for name in ("test.npz", "test"):
        found = headwise("evaluate", classifier, tmp_path / name, "--json")
        assert found.code == 0, found.error
        scores.append({x["name"]: x["value"] for x in json.loads(found.out)})

    assert scores[0] == scores[1]
    assert scores[0]["accuracy"] > 60


@pytest.mark.parametrize("surplus", [["more"], ["--fields", "a", "b"]])
def test_what_does_not_go_with_pictures_is_named(headwise, tmp_path, surplus):
    for name in ("bars.jsonl", "more"):
        (tmp_path / name).touch()
    surplus = [tmp_path / each if each == "more" else each for each in surplus]

    found = headwise(
        *("prepare", tmp_path / "bars.jsonl", *surplus),
        *("--task", "picture_classification", "--out", tmp_path / "corpus"),
    )

    assert found.code == 2
    assert "pictures and their labels come from one place" in found.error
    assert f"leave {surplus[0]} out" in found.error


def test_a_reference_beside_pictures_is_refused(headwise, classifier, tmp_path):
    np.savez(tmp_path / "a.npz", images=pictures(3)[0], labels=pictures(3)[1])
    found = headwise("evaluate", classifier, tmp_path / "a.npz", tmp_path / "a.npz")

    assert found.code == 2
    assert "leave out REFERENCE" in found.error


def test_a_dry_run_of_prepared_pictures(headwise, tmp_path):
    write_folder(tmp_path / "train", 60, 1)
    size = ("--set", "picture_classification.patch_size=2")
    task = ("--task", "picture_classification")
    found = headwise(
        "prepare", tmp_path / "train", *task, *size, "--out", tmp_path / "c", *TINY
    )
    assert found.code == 0, found.error
    said = re.search(r": (\d+) training pictures, (\d+) for validation", found.error)
    assert said, found.error
    train, held_out = map(int, said.groups())
    assert train + held_out == 60
    found = headwise(
        "train", tmp_path / "c", "--out", tmp_path / "r", "--dry-run", *TINY
    )
    assert found.code == 0, found.error
    assert re.search(rf"an epoch .* over {train} pictures\n", found.out), found.out
    assert "pair" not in found.out


def test_a_folder_is_no_text(headwise, tmp_path):
    write_folder(tmp_path / "train", 3, 1)
    found = headwise(
        "run", tmp_path / "train", "--task", "classification", "--out", tmp_path / "r"
    )

    assert found.code == 2
    assert "is a folder; give a file" in found.error


def test_the_tokenizer_of_pictures_is_refused_for_text(headwise, tmp_path):
    (tmp_path / "a.tsv").write_text("one\tx\ntwo\ty\n" * 50)
    found = headwise(
        *("run", tmp_path / "a.tsv", "--task", "classification"),
        *("--set", "text.tokenizer=patches", "--out", tmp_path / "r", *TINY),
    )

    assert found.code == 3
    assert "text.tokenizer must be another than 'patches'" in found.error


def test_a_vector_for_each_picture(classifier, tmp_path):
    paths = [str(each) for each in write_folder(tmp_path, 3, 5)]
    vectors = load(classifier).embed([*paths, ""])

    assert vectors.shape == (4, 16)
    assert not vectors[3].any()
    assert np.isfinite(vectors).all()


def test_captions_from_a_list_of_png_files(headwise, tmp_path):
    images, labels = pictures(90, 3)
    lines = []
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png\ta bar, it lies {label}\n")
    (tmp_path / "list.tsv").write_text("".join(lines), encoding="utf-8")
    found = headwise(
        *("run", tmp_path / "list.tsv", "--task", "captioning"),
        *("--test-file", tmp_path / "list.tsv", "--out", tmp_path / "run", *TINY),
    )
    assert found.code == 0, found.error
    assert found.out.startswith("BLEU ")

    lines = [str(tmp_path / "0.png"), "", str(tmp_path / "1.png")]
    found = headwise("predict", tmp_path / "run", stdin="\n".join(lines).encode())
    rows = found.out.splitlines()
    assert found.code == 0, found.error
    assert [bool(row) for row in rows] == [True, False, True]
    assert rows == load(tmp_path / "run").predict(lines)
    found = headwise("evaluate", tmp_path / "run", tmp_path / "list.tsv")
    assert found.code == 0, found.error
    command = ("evaluate", tmp_path / "run", tmp_path / "list.tsv")
    found = headwise(*command, "--beam", 2, "--search", "temperature=0.5")
    assert found.code == 0, found.error
    assert found.out.splitlines()[0].endswith("  search:temperature=0.5,beam=2")
    assert "note: " in found.error
    assert "temperature" in found.error
    assert headwise(*command, "--search", "bean=2").code == 3
