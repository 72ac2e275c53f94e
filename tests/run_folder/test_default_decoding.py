"""Default decoding settings are read in one way, of old folders too."""

import json

import pytest

from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError
from headwise.run_folder.default_decoding import read_default_decoding
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import GENERATION


def test_the_settings_are_those_that_were_written(model_folder):
    written = json.loads((model_folder / GENERATION).read_text())

    assert read_default_decoding(model_folder).patience == written["patience"]
    opened = open_model_folder(model_folder)
    assert read_default_decoding(model_folder) == opened.decoding


def test_a_folder_older_than_patience_meant_1(tmp_path):
    (tmp_path / GENERATION).write_text('{"beam": 3}')

    assert read_default_decoding(tmp_path) == DecodingSettings(beam=3, patience=1.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"beam": 0}', "beam must be 1 or more"),
        ('{"beem": 5}', "did you mean beam?"),
        ("[]", "cannot be used"),
        ("5", "cannot be used"),
        ("{", "cannot be read as JSON"),
        (None, "is missing"),
    ],
)
def test_settings_that_cannot_be_are_named_with_their_file(tmp_path, content, said):
    if content is not None:
        (tmp_path / GENERATION).write_text(content)

    with pytest.raises(ModelError, match=rf"generation\.json .*(.|\n)*{said}"):
        read_default_decoding(tmp_path)
