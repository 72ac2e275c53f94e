"""``headwise sweep``: several values and seeds, killed and resumed."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import environment, is_gone
from tests.tiny import write_text

from headwise.cli.sweep import default_jobs, parse_seeds
from headwise.errors import UsageError
from headwise.run_folder.lock import locked
from headwise.sweep.ledger import TRIALS, read_ledger

RECIPE = """
[data]
corpora = [{{source = "{source}", target = "{target}"}}]
[text]
vocab_size = 50
[model]
encoder_layers = 1
decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
[training]
steps = 30
batch_tokens = 256
warmup_steps = 5
learning_rate = 0.03
weight_decay = 0.0
validate_every = 10
validation_pairs = 3
average_last = 2
[decoding]
max_length_factor = 0.0
max_length_offset = 4
"""

RATE = "training.learning_rate"
VARY = ["--vary", f"{RATE}=0.01,0.03"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    source, target = write_text(folder / "text", num_pairs=60)
    file = folder / "tiny.toml"
    file.write_text(RECIPE.format(source=source, target=target), encoding="utf-8")
    return file


def command(recipe, out, *more, vary=VARY):
    options = ["--device", "cpu", "--jobs", "1", "--out", out, *vary, *more]
    return ["sweep", recipe, *options]


@pytest.fixture(scope="module")
def done(recipe, tmp_path_factory):
    """Return the folder of a sweep that was never interrupted; not to be changed."""
    folder = tmp_path_factory.mktemp("sweep") / "done"
    subprocess.run(
        [sys.executable, "-m", "headwise", *map(str, command(recipe, folder))],
        env=environment(),
        capture_output=True,
        check=True,
        timeout=300,
    )
    return folder


@pytest.fixture
def copied(done, tmp_path):
    """Return a copy of that folder, which may be changed."""
    return Path(shutil.copytree(done, tmp_path / "copy"))


def without_times(folder):
    rows = [vars(each).copy() for each in read_ledger(folder).trials]
    for row in rows:
        del row["minutes"]
    return rows


def weights(folder):
    """Return the bytes of all weights, and of the state of Adam, of all trials."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted((folder / "trials").rglob("*.safetensors"))
    }


def test_a_finished_sweep_prints_its_table_and_runs_nothing_again(
    headwise, recipe, done
):
    found = headwise(*command(recipe, done))

    assert found.code == 0
    head, *rows = (line.split("\t") for line in found.out.splitlines())
    assert head[:3] == [RATE, "mean_bleu", "sd"]
    assert {row[0] for row in rows} == {"0.01", "0.03"}
    assert {row[-1] for row in rows} == {"1 finished"}
    assert "2 trials, 0 to run" in found.error
    assert "note: one seed" in found.error
    assert "started" not in found.error


def test_each_trial_is_a_run_folder_and_the_text_is_prepared_once(headwise, done):
    found = headwise("runs", done)

    assert found.code == 0
    assert found.out.count("ended") == 2
    assert len([*(done / "corpora").iterdir()]) == 1
    assert not (done / "trials" / "001" / "prepared").exists()
    assert (done / "report.html").is_file()


def test_the_table_as_json(headwise, recipe, done):
    found = json.loads(headwise(*command(recipe, done, "--json")).out)

    assert [each["state"] for each in found["trials"]] == ["finished"] * 2
    assert {each["settings"][RATE] for each in found["combinations"]} == {0.01, 0.03}


def test_a_sweep_that_was_stopped_and_killed_ends_as_one_that_was_not(
    start, recipe, done, tmp_path
):
    """Stopped in its first trial and killed in its second: the same bits."""
    folder = tmp_path / "killed"

    stopped = start(*command(recipe, folder))
    wait_for(folder, 0, stopped)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(60) == 75
    assert read_ledger(folder).trials[0].state == "waiting"

    killed = start(*command(recipe, folder))
    wait_for(folder, 1, killed)
    (child,) = children(killed)
    killed.kill()
    killed.wait()
    assert is_gone(child)
    assert read_ledger(folder).trials[1].state == "running"

    again = start(*command(recipe, folder))
    assert again.wait(120) == 0, again.stderr.read()
    assert without_times(folder) == without_times(done)
    assert weights(folder) == weights(done)


def wait_for(folder, place, process):
    """Wait until a trial has been validated once."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        ledger = read_ledger(folder) if (folder / TRIALS).is_file() else None
        if ledger and ledger.trials[place].updates:
            return
        time.sleep(0.01)
    raise AssertionError("it was never validated")


def children(process):
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(each) for each in path.read_text(encoding="ascii").split()]


@pytest.mark.parametrize(
    ("more", "vary", "said"),
    [
        (["--set", "model.d_ff=64"], VARY, "model.d_ff was 32 and is now 64"),
        (["--max-time", "9m"], VARY, "training.max_minutes was not set and is now 9"),
        (["--threads", "2"], VARY, "threads was 1 and is now 2"),
        (["--seeds", "2,3"], VARY, "seeds 1 were there and are not any more"),
        (
            [],
            ["--vary", f"{RATE}=0.03,0.05"],
            f"{RATE} = 0.01 was varied and is not any more",
        ),
        ([], ["--vary", "model.norm=pre,post"], "was varied, and now model.norm"),
    ],
)
def test_another_command_is_refused_with_what_differs(
    headwise, recipe, done, more, vary, said
):
    before = (done / TRIALS).read_bytes()
    found = headwise(*command(recipe, done, *more, vary=vary))

    assert found.code == 3
    assert said in found.error
    assert (done / TRIALS).read_bytes() == before


def test_text_that_has_changed_is_refused(headwise, recipe, copied, tmp_path):
    text = recipe.parent / "text" / "train.de"
    before = text.read_bytes()
    text.write_bytes(before.replace(b"eins", b"ans"))
    try:
        found = headwise(*command(recipe, copied))
    finally:
        text.write_bytes(before)

    assert found.code == 4
    assert "the text of trial 1" in found.error


def test_two_sweeps_do_not_work_in_one_folder(headwise, recipe, copied):
    with locked(copied):
        found = headwise(*command(recipe, copied))

    assert found.code == 2
    assert "another process is working in" in found.error


def test_a_value_is_added_and_one_that_diverges_fails_alone(headwise, recipe, copied):
    vary = ["--vary", f"{RATE}=1e30,0.01,0.03"]
    found = headwise(*command(recipe, copied, vary=vary))

    assert found.code == 0
    states = [(each.settings[RATE], each.state) for each in read_ledger(copied).trials]
    assert states == [(0.01, "finished"), (0.03, "finished"), (1e30, "failed")]
    assert found.out.splitlines()[-1].split("\t")[-1] == "1 failed"
    assert "not finite" in found.error or "nan" in found.error.lower()

    again = headwise(*command(recipe, copied, vary=vary))
    assert "3 trials, 0 to run" in again.error


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "nothing is varied"),
        (["--vary", "seed=1,2"], 2, "use --seeds"),
        (["--vary", "model.nrom=pre,post"], 3, "did you mean model.norm?"),
        (["--vary", f"{RATE}=0.1,-1"], 3, "more than 0 and finite, not -1.0"),
        (["--vary", f"{RATE}=1e-4..1e-2"], 2, "add --search optuna"),
        ([*VARY, "--seeds", "0"], 2, "from 1 to 1000"),
        ([*VARY, "--seeds", "1,1"], 2, "a seed twice"),
        ([*VARY, "--seeds", "many"], 2, "--seeds takes their number"),
        ([*VARY, "--trials", "3"], 2, "--trials is for --search optuna"),
        ([*VARY, "--search", "optuna"], 2, "needs --trials N"),
        ([*VARY, "--search", "random"], 2, "must be grid or optuna"),
        ([*VARY, "--baseline", "worst"], 2, "must be best or first"),
        ([*VARY, "--set", f"{RATE}=0.1"], 2, "both in --set and in --vary"),
        ([*VARY, "--max-time", "soon"], 2, "--max-time must be a number"),
        ([*VARY, "--jobs", "0"], 2, "--jobs"),
        ([*VARY, "--preset", "huge"], 3, "'huge' is not a preset"),
    ],
)
def test_a_wrong_command_line_starts_nothing(
    headwise, recipe, tmp_path, options, code, said
):
    out = tmp_path / "out"
    found = headwise("sweep", recipe, "--out", out, *options)

    assert found.code == code
    assert said in found.error
    assert found.out == ""
    assert not out.exists()


def test_wrong_paths_are_usage_errors(headwise, recipe, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work", encoding="utf-8")

    for arguments, said in (
        (command(tmp_path / "none.toml", tmp_path / "a"), "does not exist"),
        (command(other, tmp_path / "a"), "is a folder; give a file"),
        (command(recipe, other), "contains thesis.txt"),
        (command(recipe, other / "thesis.txt"), "is a file"),
    ):
        found = headwise(*arguments)
        assert (found.code, said in found.error) == (2, True), found.error


def test_a_folder_that_cannot_be_made_is_a_resource_error(headwise, recipe):
    found = headwise(*command(recipe, "/proc/sweep"))

    assert found.code == 6
    assert "cannot be written" in found.error


def test_seeds_are_a_number_or_a_list():
    assert parse_seeds("3") == [1, 2, 3]
    assert parse_seeds("1, 5,7") == [1, 5, 7]
    for text in ("", "-1", "1.5", "1,", "1001", "4,4"):
        with pytest.raises(UsageError):
            parse_seeds(text)


def test_as_many_trials_at_a_time_as_have_cores(monkeypatch):
    monkeypatch.setattr("headwise.cli.sweep.cores", lambda: 8)

    assert default_jobs("cpu", 1) == 8
    assert default_jobs("cpu", 3) == 2
    assert default_jobs("cpu", 16) == 1
    assert default_jobs("cuda", 1) == 1
