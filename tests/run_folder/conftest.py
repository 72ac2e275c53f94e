"""A model folder and a run that tests may damage."""

import shutil

import pytest

from headwise.run_folder.paths import BEST


@pytest.fixture
def model_folder(tiny_run, tmp_path):
    return shutil.copytree(tiny_run / BEST, tmp_path / "model")


@pytest.fixture
def run_folder(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "run")
