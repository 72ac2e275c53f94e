"""A disk that refuses any one operation of a save takes nothing that was there.

``python -m benchmarks.durability.refusals`` refuses the models' operations too, alone
and for good, with both errors.
"""

import pytest
from benchmarks.durability.refusals import CODES, WAYS, refuse_everything
from benchmarks.durability.saves import SAVES

from headwise.run_folder.checkpoints import Checkpoints
from headwise.storage import disk

QUICK = [name for name in SAVES if "model" not in name]
CASES = [
    (name, way, code)
    for number, name in enumerate(QUICK)
    for place, (way, code) in enumerate((way, code) for way in WAYS for code in CODES)
    if place == number % 4 or "a recipe" in name
]


@pytest.mark.parametrize(("name", "way", "code"), CASES)
def test_what_the_disk_refuses_takes_nothing(name, way, code, tmp_path):
    outcome = refuse_everything(SAVES[name], tmp_path, way, code)

    assert outcome.problems == []
    assert outcome.refusals >= outcome.errors > 2


def test_the_oldest_goes_only_after_the_new_one_stands(tmp_path, monkeypatch):
    """These tests would see it: a rotation before the save loses what stood there."""
    name = "a checkpoint, after which the oldest goes"
    save = Checkpoints.save

    def rotate_first(checkpoints, *arguments, **more):
        for path in checkpoints.paths():
            disk.delete_temporary(path)
        return save(checkpoints, *arguments, **more)

    monkeypatch.setattr(Checkpoints, "save", rotate_first)
    assert refuse_everything(
        SAVES[name], tmp_path, "only it", next(iter(CODES))
    ).problems
