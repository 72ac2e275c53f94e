"""A run killed at random moments ends as the run that was left alone.

``python -m benchmarks.durability.kills`` kills 1,000 times.
"""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.durability.kills import BEST, CHECKPOINTS, LOG, differences
from tests.processes import environment

ROOT = Path(__file__).parents[2]


def test_five_kills_of_a_run_change_no_weight(tmp_path):
    """In a process of its own: one that forks must have run no tensor operation."""
    out = tmp_path / "kills.json"
    module = "benchmarks.durability.kills"
    command = [sys.executable, "-m", module, "--kills", "5", "--out", str(out)]
    done = subprocess.run(
        [*command, "--scratch", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(out.read_text())
    assert facts["kills"] == sum(facts["kills while"].values()) == 5
    assert facts["problems"] == []


def test_what_differs_between_two_runs_is_seen(tmp_path):
    for name in ("one", "other"):
        checkpoint = tmp_path / name / CHECKPOINTS / "step-00000048"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").write_bytes(b"weights")
        (checkpoint / "state.json").write_text('{"step": 48, "seconds": 1.5}')
        (tmp_path / name / BEST).mkdir()
        (tmp_path / name / BEST / "model.safetensors").write_bytes(b"weights")
        updates = [{"what": "update", "step": n, "loss": 1 / n} for n in range(1, 49)]
        lines = [json.dumps({**each, "seconds": id(each)}) for each in updates]
        (tmp_path / name / LOG).write_text("\n".join(lines) + "\n")
    one, other = tmp_path / "one", tmp_path / "other"
    assert differences(one, other) == []

    (other / CHECKPOINTS / "step-00000048" / "model.safetensors").write_bytes(b"w")
    (other / CHECKPOINTS / "step-00000048" / "state.json").write_text('{"step": 47}')
    (other / BEST / "model.safetensors").unlink()
    with (other / LOG).open("a") as log:
        log.write(json.dumps(updates[0]) + "\n")
    assert len(differences(one, other)) == 4
