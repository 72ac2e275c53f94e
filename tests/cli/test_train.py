"""``headwise train``: dry run, ``--until`` and automatic batch size."""

import json
import re

import pytest
from tests.tiny import ASSIGNMENTS

from headwise.backends.native.library import why_unavailable
from headwise.settings import read_toml
from headwise.training import memory_estimate
from headwise.training.memory_usage import ProcessMemory

MIB = 2**20
SHORT = ["training.steps=4", "training.validate_every=2", "training.validation_pairs=2"]


def options(*assignments):
    sizes = [each for each in ASSIGNMENTS if "batch_tokens" not in each]
    return [part for each in [*sizes, *SHORT, *assignments] for part in ("--set", each)]


@pytest.fixture
def train(headwise, tiny_run, tmp_path):
    """Train on the small corpus; return what was said."""

    def call(*arguments, name="run"):
        out = tmp_path / name
        return headwise("train", tiny_run / "prepared", "--out", out, *arguments)

    return call


def batch_tokens(folder):
    return read_toml(folder / "recipe.toml")["training"]["batch_tokens"]


def test_a_dry_run_says_what_training_would_be_and_writes_nothing(train, tmp_path):
    found = train("--dry-run", "--batch-tokens", "512", *options())

    assert found.code == 0
    rows = [line.split("  ")[0] for line in found.out.splitlines() if line[0] != " "]
    assert rows == [
        *("parameters", "memory", "batches", "an epoch", "longest", "left out"),
        *("learning rate", "time"),
    ]
    assert "batches        at most 512 target tokens; " in found.out
    assert " of memory at most of the " in found.out
    assert "4 updates, 0." in found.out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_how_many_updates_fit_a_time_limit(train):
    """Not all that were asked for beside a time in which they cannot be done."""
    few = train("--dry-run", "--max-time", "0.05s", *options("training.steps=90000"))
    assert "time           0.05 s, the time limit\n" in few.out
    assert re.search(r"about \d+ updates?, 0.* each; without the limit 90,000", few.out)
    assert re.search(r"about \d+ validations?, at most", few.out)

    all_ = train("--dry-run", "--max-time", "5h", *options())
    assert ", within the limit of 5 h\n" in all_.out
    assert "    4 updates, 0." in all_.out


def test_a_dry_run_as_json_says_the_same(train):
    found = train("--dry-run", "--json", "--until", 3, *options())

    facts = json.loads(found.out)
    assert (facts["updates"], facts["updates_done"], facts["validations"]) == (3, 0, 2)
    assert set(facts["longest"][0]) == {
        *("index", "source_tokens", "target_tokens", "corpus")
    }
    assert facts["learning_rates"][0][0] == 1
    assert facts["seconds"] > 0
    assert facts["share_in_time"] == 1


def test_a_dry_run_of_a_run_that_has_begun_counts_what_is_left(train, tmp_path):
    train("--batch-tokens", "512", "--until", 3, *options())
    before = sorted(path.name for path in (tmp_path / "run").rglob("*"))
    found = train("--batch-tokens", "512", "--dry-run", *options())

    assert "1 update after 3 done" in found.out
    assert sorted(path.name for path in (tmp_path / "run").rglob("*")) == before


def test_a_dry_run_refuses_what_the_run_would_refuse(train):
    train("--batch-tokens", "512", "--until", 2, *options())
    found = train("--batch-tokens", "256", "--dry-run", *options())

    assert found.code == 3
    assert "training.batch_tokens was 512 and is now 256" in found.error


def test_a_file_of_pairs_is_refused_with_what_takes_one(headwise, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("one\teins\n")

    found = headwise("train", pairs, "--out", tmp_path / "run")

    assert found.code == 2
    assert "pairs.tsv is a file" in found.error
    assert "headwise run" in found.error


def test_until_stops_for_now_and_may_be_raised(train, tmp_path):
    first = train("--until", 1, *options())
    second = train("--until", 3, *options())

    assert first.code == second.code == 0
    assert "going on from step 1" in second.error
    assert (tmp_path / "run" / "checkpoints" / "step-00000003").is_dir()


def test_a_batch_may_be_named_in_short(train, tmp_path):
    assert train("--batch-tokens", "300", "--until", 1, *options()).code == 0
    assert batch_tokens(tmp_path / "run") == 300


BY = {
    "as it comes": ("auto", "auto"),
    "kernels in C": ("on", "auto"),
    "PyTorch": ("auto", "torch"),
}
"""What learns: the wish for kernels, and the setting."""


@pytest.mark.parametrize("by", BY)
def test_a_fitted_batch_is_said_and_kept(train, tmp_path, monkeypatch, by):
    """Memory is scarce at first and abundant later; the run goes on as it began.

    PyTorch needs more memory for more tokens; kernels in C hardly do, so that for them
    the largest batch that is tried may fit.
    """
    monkeypatch.setenv("HEADWISE_NATIVE", BY[by][0])
    if by == "kernels in C":
        monkeypatch.setattr(
            memory_estimate, "MAX_BATCH_TOKENS", 5000
        )  # not to wait for long
    monkeypatch.setattr(ProcessMemory, "free", lambda self: 100 * MIB)
    asked = *options(), "--set", f"training.backend={BY[by][1]}"
    first = train("--batch-tokens", "auto", "--until", 1, *asked)
    assert first.code == 0, first.error
    chosen = batch_tokens(tmp_path / "run")
    monkeypatch.setattr(ProcessMemory, "free", lambda self: 100_000 * MIB)
    second = train("--batch-tokens", "auto", "--until", 2, *asked)

    assert f"--batch-tokens auto: {chosen:,}, which takes " in first.error
    assert 18 <= chosen <= memory_estimate.MAX_BATCH_TOKENS
    if by == "PyTorch":
        assert chosen < memory_estimate.MAX_BATCH_TOKENS
    if by == "kernels in C" and not why_unavailable():
        assert "training by the native backend, with " in first.error
    assert second.code == 0
    assert (
        f"auto: {chosen:,}, as in the run to be resumed, {tmp_path / 'run'}"
        in second.error
    )
    assert batch_tokens(tmp_path / "run") == chosen


def test_where_memory_abounds_the_papers_batch_is_the_largest(train, monkeypatch):
    """Or a smaller one, not to keep the tests waiting."""
    monkeypatch.setattr(memory_estimate, "MAX_BATCH_TOKENS", 2000)
    monkeypatch.setattr(ProcessMemory, "free", lambda self: 100_000 * MIB)
    found = train("--batch-tokens", "auto", "--dry-run", *options())

    assert "--batch-tokens auto: 2,000, which takes " in found.error
    assert "an epoch has only about 1 update of that size" in found.error
    assert "batches        at most 2,000 target tokens" in found.out


def test_where_nothing_fits_is_code_6(train, tmp_path, monkeypatch):
    monkeypatch.setattr(ProcessMemory, "free", lambda self: 0)
    found = train("--batch-tokens", "auto", *options())

    assert found.code == 6
    assert "not even a single pair of the longest" in found.error
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_everything_fits_its_batches_too(
    headwise, tiny_text, tmp_path, monkeypatch
):
    monkeypatch.setattr(memory_estimate, "MAX_BATCH_TOKENS", 2000)
    found = headwise(
        *("run", *tiny_text, "--out", tmp_path / "run", "--batch-tokens", "auto"),
        *options("training.steps=1", "decoding.beam=1"),
    )

    assert found.code == 0, found.error
    assert batch_tokens(tmp_path / "run") == 2000
    assert "--batch-tokens auto: 2,000" in found.error


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--batch-tokens", "0"], 2, "whole number above 0, such as 4096, or auto"),
        (["--batch-tokens", "many"], 2, "not 'many'"),
        (["--batch-tokens", "-4"], 2, "not '-4'"),
        (["--batch-tokens", "²"], 2, "not '²'"),
        (
            ["--batch-tokens", "9", "--set", "training.batch_tokens=8"],
            2,
            "give one of them",
        ),
        (
            ["--batch-tokens", "auto", "--set", "training.batch_pairs=8"],
            3,
            "no effect with training.batch_pairs = 8",
        ),
        (
            ["--batch-tokens", "auto", "--set", "training.backend=torch_compile"],
            2,
            "compiles the model for each",
        ),
        (["--json"], 2, "only with --dry-run"),
        (["--until", "0"], 2, "--until"),
    ],
)
def test_what_has_no_meaning_is_refused(train, tmp_path, arguments, code, said):
    found = train(*arguments)

    assert (found.code, found.out) == (code, "")
    assert said in found.error
    assert list(tmp_path.iterdir()) == []


def test_several_processes_are_told_to_settle_the_batch_first(train, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = train("--batch-tokens", "auto", *options())

    assert found.code == 2
    assert "--dry-run --batch-tokens auto" in found.error
    assert train("--dry-run", *options()).code == 2
