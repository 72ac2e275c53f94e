"""A model folder and a run that tests may damage."""

import hashlib
import json
import shutil

import pytest

from headwise.run_folder.paths import BEST
from headwise.storage.manifests import manifest_sha256


@pytest.fixture
def model_folder(tiny_run, tmp_path):
    return shutil.copytree(tiny_run / BEST, tmp_path / "model")


@pytest.fixture
def run_folder(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "run")


@pytest.fixture
def rewrite():
    """Change a file of a folder and make the manifest agree, as an attacker would."""

    def change(folder, name, content):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"][name] = {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        manifest["sha256"] = manifest_sha256(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return change
