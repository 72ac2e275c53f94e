"""No damage goes unnoticed, and it costs what was learned since the last good one.

``python -m benchmarks.durability.damages`` does 2,000.
"""

from benchmarks.durability.damages import KINDS, ONLY_OF_CHECKPOINTS, damage_often

from headwise import storage
from headwise.run_folder import checkpoints


def test_damage_of_every_kind_is_noticed(tmp_path):
    outcome = damage_often(tmp_path, 5 * len(KINDS))

    assert outcome.problems == []
    assert outcome.checkpoints.keys() == KINDS.keys()
    assert outcome.models.keys() == KINDS.keys() - {*ONLY_OF_CHECKPOINTS}


def test_these_tests_would_see_damage_that_goes_unnoticed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_verify", storage.read_manifest)
    problems = damage_often(tmp_path, 5 * len(KINDS)).problems

    assert any("went on from step-00000040" in each for each in problems)
