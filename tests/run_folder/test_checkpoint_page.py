"""docs/checkpoints.md says what is there: its program reads what we write."""

import json
import re
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
import torch

from headwise.run_folder.checkpoints import Checkpoints
from headwise.training.state import TrainingState

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
OLD = Path(__file__).parent / "old_checkpoints" / "step-00000003"


@pytest.fixture
def checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path, print)
    return checkpoints.save(
        TrainingState(step=12),
        {"w": torch.ones(2), "b": torch.ones(1)},
        {"updates": torch.tensor(11)},
        corpus="fingerprint of é",
    )


def read_without_us(folder):
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_its_program_needs_nothing_of_ours():
    assert "headwise" not in PROGRAM


def test_its_program_reads_a_checkpoint(checkpoint):
    assert read_without_us(checkpoint).stdout == "12 2 11\n"


def test_its_program_reads_one_of_format_1():
    assert read_without_us(OLD).stdout == "3 1 3\n"


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_its_program_notices_damage(checkpoint, name):
    path = checkpoint / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    assert "AssertionError" in read_without_us(checkpoint).stderr


def test_every_field_of_the_state_is_there_with_its_default():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", PAGE, re.MULTILINE))
    for field in fields(TrainingState):
        assert field.default is not MISSING, "a state without it could not be opened"
        said = "not set" if field.default is None else json.dumps(field.default)
        assert rows[field.name] == said


def test_the_tests_and_scripts_it_names_are_there():
    named = re.findall(r"`(tests/\S+)`", PAGE)
    named += [
        f"{each.replace('.', '/')}.py" for each in re.findall(r"-m (bench[\w.]+)", PAGE)
    ]
    assert len(named) == 8
    for path in named:
        assert (ROOT / path).is_file(), path
