"""Patches and data URLs: by hand, back again, and every fault by name."""

import json

import numpy as np
import pytest

from headwise.errors import DataError, ModelError, SettingsError, UsageError
from headwise.text.patch_tokenizer import PatchTokenizer, PictureSize
from headwise.text.pixels import data_url, pixels_of_url
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import TOKENIZERS, digest

URL = "data:application/octet-stream;shape=1x1x2x1;base64,AP8="


def numbered(*shape):
    return np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)


def test_the_data_url_of_two_pixels_by_hand():
    pixels = np.array([0, 255], np.uint8).reshape(1, 1, 2, 1)

    assert data_url(pixels) == URL
    assert pixels_of_url(URL).tolist() == pixels.tolist()


@pytest.mark.parametrize("shape", [(1, 4, 6, 3), (2, 4, 2, 1), (1, 2, 2, 4)])
def test_pictures_and_videos_come_back(shape):
    pixels = numbered(*shape)
    tokenizer = PatchTokenizer(PictureSize(*shape), 2)
    url = data_url(pixels)

    assert (pixels_of_url(url) == pixels).all()
    assert tokenizer.decode(tokenizer.encode(url)) == url
    assert len(tokenizer.encode(url)) == tokenizer.num_patches * tokenizer.size


def test_patches_by_hand():
    tokenizer = PatchTokenizer(PictureSize(1, 2, 4, 1), 2)

    assert (tokenizer.num_patches, tokenizer.size) == (2, 4)
    assert tokenizer.patches(numbered(1, 2, 4, 1)).tolist() == [
        [0, 1, 4, 5],
        [2, 3, 6, 7],
    ]


def test_a_picture_of_another_size_is_refused_and_never_resized():
    tokenizer = PatchTokenizer(PictureSize(1, 4, 4, 1), 2)
    for shape, found in (
        ((1, 2, 4, 1), "4 x 2 pixels, L"),
        ((1, 4, 4, 3), "4 x 4 pixels, RGB"),
        ((2, 4, 4, 1), "2 frames of 4 x 4 pixels, L"),
    ):
        with pytest.raises(DataError, match=f"of 4 x 4 pixels, L, not {found};"):
            tokenizer.patches(numbered(*shape))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("one two", "not the data URL of a picture"),
        (URL.replace("1x1x2x1", "1x1x2x2"), "not the data URL of a picture"),
        (URL.replace("1x1x2x1", "0x1x2x1"), "not the data URL of a picture"),
        (URL.replace("1x1x2x1", "1x1x3x1"), "2 values, but its shape is 1x1x3x1"),
        (URL.replace("1x1x2x1", "999999x999999x999999x4"), "2 values, but its shape"),
        (URL[:-2] + "A", "base64 is damaged|2 values|3 values"),
        (URL[:-1], "base64 is damaged"),
    ],
)
def test_faults_of_data_urls(url, message):
    with pytest.raises(DataError, match=message):
        pixels_of_url(url)


def test_it_is_saved_and_opened(tmp_path):
    tokenizer = PatchTokenizer(PictureSize(2, 4, 8, 3), 4)
    tokenizer.save(tmp_path / "patches.json")
    opened = PatchTokenizer.open(tmp_path / "patches.json", TextSettings())

    assert opened.picture_size == tokenizer.picture_size
    assert opened.patch_size == 4
    assert digest(opened) == digest(tokenizer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 0}, "height must be from 1"),
        ({"height": 10**9}, "height must be from 1"),
        ({"channels": 2}, "channels must be 1, 3 or 4"),
        ({"patch_size": 3}, "cannot be cut into patches of 3 x 3"),
        ({"patch_size": "4"}, "patch_size"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "patches.json"
    sizes = {"frames": 1, "height": 4, "width": 4, "channels": 1, "patch_size": 4}
    path.write_text(json.dumps({**sizes, **change}), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        PatchTokenizer.open(path, TextSettings())


def test_it_is_not_trained_on_text():
    with pytest.raises(SettingsError, match="'patches' is for pictures"):
        TOKENIZERS["patches"].train([], vocab_size=9, settings=TextSettings())


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 3, 1), np.uint8), np.zeros((1, 2, 3, 1))],
    ids=["no frames", "float64"],
)
def test_arrays_of_another_form_have_no_data_url(pixels):
    with pytest.raises(UsageError, match=r"must be an array \[frames, height, width"):
        data_url(pixels)
