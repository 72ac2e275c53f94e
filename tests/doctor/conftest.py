"""A model folder and a run that the doctor's tests may damage."""

import hashlib
import json
import shutil

import pytest

from headwise.storage.manifests import manifest_sha256


@pytest.fixture
def folder(tiny_run, tmp_path):
    return shutil.copytree(tiny_run / "best", tmp_path / "model")


@pytest.fixture
def run(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "run")


@pytest.fixture
def agree():
    """Return what makes a manifest say what a file now holds."""

    def rewrite(folder, name):
        manifest = json.loads((folder / "manifest.json").read_text())
        content = (folder / name).read_bytes()
        manifest["files"][name] = {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        manifest["sha256"] = manifest_sha256(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return rewrite


@pytest.fixture
def faults():
    """Return what picks the checks that are faults, by what they are about."""

    def pick(checks):
        return {each.what: each for each in checks if each.status == "FAILED"}

    return pick
