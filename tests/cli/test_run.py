"""``headwise run``, ``prepare`` and ``train``: from two files to a model."""

import gzip
import json
import os
import re
import resource
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.processes import busy_child, is_gone, write_slow_text
from tests.tiny import ASSIGNMENTS, write_text

from headwise import storage
from headwise.cli.build_recipe import recipe_from_options
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.prepared import PreparedCorpus
from headwise.recipe.preset_training import preset_for
from headwise.run_folder.lock import locked
from headwise.settings import read_toml

SHORT = [
    *("training.steps=4", "training.validate_every=2", "training.validation_pairs=2"),
    *("decoding.max_length_factor=0.0", "decoding.max_length_offset=4"),
]


def options(*assignments):
    chosen = [*ASSIGNMENTS, *SHORT, *assignments]
    return [part for each in chosen for part in ("--set", each)]


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path, num_pairs=60)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_languages_of_a_corpus_are_those_of_the_model(headwise, text, tmp_path):
    corpus, run, other = (tmp_path / name for name in ("corpus", "run", "other"))
    prepared = ("prepare", *text, "--out", corpus, "--languages", "en", "fr")

    headwise(*prepared, *options())
    headwise("train", corpus, "--out", run, *options())
    headwise(
        *("train", corpus, "--out", other, *options()),
        *("--set", "languages=['en','de']"),
    )

    assert read_toml(run / "recipe.toml")["languages"] == ["en", "fr"]
    assert read_toml(other / "recipe.toml")["languages"] == ["en", "de"]


def test_a_dry_run_prepares_and_estimates_and_the_same_command_trains(
    headwise, text, tmp_path
):
    run = tmp_path / "run"
    command = ("run", *text, "--out", run, *options())
    dry = headwise(*command, "--dry-run")

    assert dry.code == 0, dry.error
    assert "4 updates, 0." in dry.out
    assert "nothing was trained; the same command without --dry-run" in dry.error
    assert not (run / "best").exists()
    assert (run / "prepared").is_dir()
    found = headwise(*command)
    assert found.code == 0, found.error
    assert "prepared is up to date" in found.error
    assert (run / "best").is_dir()


def test_a_dry_run_of_run_as_json_and_json_of_nothing_else(headwise, text, tmp_path):
    command = ("run", *text, "--out", tmp_path / "run", "--json", *options())
    refused = headwise(*command)

    assert (refused.code, (tmp_path / "run").exists()) == (2, False)
    assert "--json works only with --dry-run" in refused.error
    assert json.loads(headwise(*command, "--dry-run").out)["updates"] == 4


def test_a_fine_tuned_model_can_be_averaged_as_the_run_says(headwise, text, tmp_path):
    first, tuned = tmp_path / "first", tmp_path / "my model"
    alone = headwise("run", *text, "--out", first, *options())
    found = headwise("run", *text, "--from", first, "--out", tuned, *options())
    by_steps = headwise(
        *("train", tuned / "prepared", "--from", first, "--out", tmp_path / "other"),
        *options(),
    )

    assert "headwise average" not in alone.error
    assert "forgets less: headwise average" in by_steps.error
    said = re.search(r"forgets less: headwise (average .*)", found.error)
    assert said, found.error
    averaged = headwise(*shlex.split(said[1]))
    assert averaged.code == 0, averaged.error
    assert headwise("doctor", f"{tuned}-average").code == 0


def test_other_languages_are_prepared_anew(headwise, text, tmp_path):
    prepared = ("prepare", *text, "--out", tmp_path / "corpus", "--languages")
    headwise(*prepared, "en", "fr", *options())

    again = headwise(*prepared, "en", "fr", *options())
    changed = headwise(*prepared, "en", "de", *options())

    assert "up to date" in again.error
    assert "up to date" not in changed.error
    fields = PreparedCorpus.open(tmp_path / "corpus").fields
    assert fields["settings"]["languages"] == ["en", "de"]


def test_two_text_files_become_an_evaluated_model(headwise, text, tmp_path):
    found = headwise("run", *text, "--out", tmp_path / "run", *options())

    assert found.code == 0
    bleu, chrf = found.out.splitlines()
    assert bleu.startswith("BLEU ")
    assert "nrefs:1" in bleu
    assert chrf.startswith("chrF ")
    assert f"60 pairs: preset {preset_for(60)}" in found.error
    assert f"headwise translate {tmp_path / 'run'}" in found.error
    out = headwise("translate", tmp_path / "run", stdin=b"one two.\n").out
    assert out.count("\n") == 1


def test_the_report_links_pages_that_look_inside_the_best_model(
    headwise, text, tmp_path
):
    folder = tmp_path / "run"
    found = headwise("run", *text, "--out", folder, *options())

    assert (found.code, "note: " in found.error) == (0, False)
    report = (folder / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]*)"', report)
    log = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    validations = [each for each in map(json.loads, log) if each.get("samples")]
    sources = {sample["source"] for sample in validations[-1]["samples"]}
    numbers = range(1, 1 + min(3, len(sources)))
    assert links == [f"inspection/sample-{number}.html" for number in numbers]
    for link in links:
        assert 'id="snapshot"' in (folder / link).read_text(encoding="utf-8")


def test_a_run_does_without_pages_that_cannot_be_written(
    headwise, text, tmp_path, monkeypatch
):
    def full(*arguments, **named):
        raise OSError("no space left")

    monkeypatch.setattr("headwise.serving.sample_pages.write_text", full)

    found = headwise("run", *text, "--out", tmp_path / "run", *options())

    assert found.code == 0
    assert "inspection could not be written: no space left" in found.error
    assert found.out.startswith("BLEU ")


def test_the_same_command_again_does_nothing_twice(headwise, text, tmp_path):
    command = ["run", *text, "--out", tmp_path / "run", *options()]
    first, second = headwise(*command), headwise(*command)

    assert second.code == 0
    assert second.out == first.out
    assert "is up to date: same text, same settings" in second.error
    assert "validation loss" in first.error
    assert "validation loss" not in second.error


def test_more_steps_go_on_from_where_it_ended(headwise, text, tmp_path):
    command = ["run", *text, "--out", tmp_path / "run", *options()]
    headwise(*command)
    found = headwise(*command, "--set", "training.steps=6")

    assert found.code == 0
    assert "going on from step 4: up to 6 steps" in found.error


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (["--set", "model.d_ff=64"], 3, "model.d_ff was 32 and is now 64"),
        (["--set", "text.vocab_size=45"], 3, "text.vocab_size was 50 and is now 45"),
        (["--set", "seed=2"], 3, "seed was 1 and is now 2"),
    ],
)
def test_another_run_in_the_same_folder_is_refused_and_spoils_nothing(
    headwise, tiny_run, tiny_text, tmp_path, change, code, said
):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    plain = [part for each in ASSIGNMENTS for part in ("--set", each)]
    before = (folder / "prepared" / "manifest.json").read_bytes()
    found = headwise("run", *tiny_text, "--out", folder, *plain, *change)

    assert found.code == code
    assert said in found.error
    assert (folder / "prepared" / "manifest.json").read_bytes() == before
    assert headwise("run", *tiny_text, "--out", folder, *plain).code == 0


def test_text_is_hashed_once(text, tmp_path, monkeypatch):
    hashed, sha256 = [], storage.sha256
    monkeypatch.setattr(
        storage, "sha256", lambda path: hashed.append(path) or sha256(path)
    )
    recipe = recipe_from_options(
        *text, assignments=[*ASSIGNMENTS, *SHORT], out=tmp_path / "run"
    )
    prepare_corpus(tmp_path / "run", recipe)

    assert [each for each in hashed if each in text] == [*text]


def test_text_that_changed_is_noticed_before_anything_is_replaced(
    headwise, tiny_run, tiny_text, tmp_path
):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    source, target = (shutil.copy(each, tmp_path) for each in tiny_text)
    for path in (source, target):
        with Path(path).open("a") as file:
            file.write("one six.\n")
    plain = [part for each in ASSIGNMENTS for part in ("--set", each)]
    found = headwise("run", source, target, "--out", folder, *plain)

    assert found.code == 4
    assert "contains a run on other text" in found.error
    facts = PreparedCorpus.open(folder / "prepared").facts
    assert facts == PreparedCorpus.open(tiny_run / "prepared").facts


def test_two_runs_in_one_folder_do_not_touch_each_other(
    headwise, tiny_run, tiny_text, tmp_path
):
    """The second would prepare its own text under the first one's feet."""
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    before = (folder / "prepared" / "manifest.json").read_bytes()
    with locked(folder):
        found = headwise("run", *tiny_text, "--out", folder, *options("seed=2"))

    assert found.code == 2
    assert f"another process is working in {folder}" in found.error
    assert (folder / "prepared" / "manifest.json").read_bytes() == before


def test_dev_and_test_text_can_be_given(headwise, text, tmp_path):
    dev = write_text(tmp_path / "dev", num_pairs=5, seed=5)
    test = write_text(tmp_path / "test", num_pairs=7, seed=6)
    found = headwise(
        *("run", *text, "--out", tmp_path / "run"),
        *("--dev", *dev, "--test", *test, *options()),
    )

    assert found.code == 0
    assert "translating 7 test lines" in found.error


def test_columns_are_those_of_the_validation_and_test_files_too(
    headwise, text, tmp_path
):
    tables = [tmp_path / "dev.tsv", tmp_path / "test.tsv"]
    for table in tables:  # the target first
        table.write_text("eins eins.\tone one.\nzwei.\ttwo.\n")
    command = ("run", *text, "--out", tmp_path / "run", "--dry-run", *options())
    for option, table in zip(("--dev-file", "--test-file"), tables, strict=True):
        found = headwise(*command, option, table, "--columns", 2, 1)
        assert found.code == 0, found.error
        settings = PreparedCorpus.open(tmp_path / "run" / "prepared").fields["settings"]
        if option == "--dev-file":
            assert settings["data"]["dev"]["source_column"] == 2


def test_a_test_text_that_cannot_be_used_is_said_before_the_training(
    headwise, text, tmp_path
):
    (tmp_path / "short").write_text("eins.\n")
    for reference in ("short", "missing"):
        found = headwise(
            *("run", *text, "--out", tmp_path / "run"),
            *("--test", text[0], tmp_path / reference, *options()),
        )

        assert found.code == (4 if reference == "short" else 2)
        assert reference in found.error
        assert not (tmp_path / "run").exists()


def test_a_recipe_file_is_enough(headwise, text, tmp_path):
    recipe = tmp_path / "my.toml"
    recipe.write_text(
        f"[[data.corpora]]\nsource = {str(text[0])!r}\ntarget = {str(text[1])!r}\n"
    )
    found = headwise("run", "--recipe", recipe, "--out", tmp_path / "run", *options())

    assert found.code == 0
    assert f"60 pairs: preset {preset_for(60)}" in found.error


@pytest.mark.parametrize("kind", ["tsv", "jsonl.gz"])
def test_one_file_may_hold_both_sides(headwise, text, tmp_path, kind):
    pairs = zip(*(path.read_text().splitlines() for path in text), strict=True)
    file = tmp_path / f"pairs.{kind}"
    if kind == "tsv":
        file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    else:
        rows = [json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs]
        file.write_bytes(gzip.compress("".join(rows).encode()))

    found = headwise("prepare", file, "--out", tmp_path / "corpus", *options())
    assert found.code == 0
    assert found.out == ""
    assert PreparedCorpus.open(tmp_path / "corpus").facts.train.pairs > 20


@pytest.mark.parametrize("nested", [False, True])
def test_json_lines_are_read_by_naming_the_languages(headwise, text, tmp_path, nested):
    pairs = zip(*(path.read_text().splitlines() for path in text), strict=True)
    rows = [{"en": a, "de": b} for a, b in pairs]
    rows = [{"translation": row} for row in rows] if nested else rows
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    how = ("prepare", file, "--out", tmp_path / "corpus", *options())
    unnamed = headwise(*how)
    named = headwise(*how, "--languages", "de", "en")

    assert unnamed.code == 4
    assert "--fields en de (for training also --languages en de)" in unnamed.error
    assert named.code == 0
    sources, targets = PreparedCorpus.open(tmp_path / "corpus").dev_text
    assert all(row in dict(zip(*map(lines_of, text), strict=True)) for row in targets)
    assert set(sources) <= {*lines_of(text[1])}


def lines_of(path):
    return path.read_text().splitlines()


def test_a_recipe_may_leave_the_languages_to_the_command_line(headwise, text, tmp_path):
    """And a corpus of it that names its fields keeps them."""
    rows = list(zip(*map(lines_of, text), strict=True))
    for name, keys in (("one", ("en", "de")), ("other", ("a", "b"))):
        tables = (json.dumps(dict(zip(keys, row, strict=True))) for row in rows)
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{e}\n" for e in tables))
    recipe = tmp_path / "my.toml"
    recipe.write_text(
        f"""
        [[data.corpora]]
        source = "{tmp_path / "one.jsonl"}"
        [[data.corpora]]
        source = "{tmp_path / "other.jsonl"}"
        source_field = "a"
        target_field = "b"
        """
    )
    found = headwise(
        *("prepare", "--recipe", recipe, "--languages", "en", "de"),
        *("--out", tmp_path / "corpus", *options()),
    )

    assert found.code == 0
    corpora = PreparedCorpus.open(tmp_path / "corpus").facts.corpora
    assert [each.read for each in corpora] == [60, 60]


def test_the_same_file_named_twice_is_said(headwise, text, tmp_path):
    found = headwise(
        *("prepare", text[0], text[0], "--out", tmp_path / "corpus", *options())
    )

    assert found.code == 0
    assert f"{text[0]} and {text[0]}: source and target are the same" in found.error
    assert "in 60 of 60 pairs" in found.error


def test_step_by_step_is_the_same_as_all_at_once(headwise, text, tmp_path):
    headwise("run", *text, "--out", tmp_path / "whole", *options())
    prepared = headwise("prepare", *text, "--out", tmp_path / "corpus", *options())
    trained = headwise(
        "train", tmp_path / "corpus", "--out", tmp_path / "steps", *options()
    )

    assert (prepared.code, trained.code) == (0, 0)
    assert (prepared.out, trained.out) == ("", "")
    one, other = (
        (tmp_path / name / "best" / "model.safetensors").read_bytes()
        for name in ("whole", "steps")
    )
    assert one == other


def test_a_model_is_chosen_by_data_and_not_by_settings_of_others(
    headwise, text, tmp_path
):
    """d_model = 100 suits tiny's 4 heads; base's 8 heads were asked, and refused."""
    found = headwise(
        *("prepare", *text, "--out", tmp_path / "corpus"),
        *("--set", "model.d_model=100", "--set", "text.vocab_size=50"),
    )

    assert found.code == 0


def test_training_cannot_change_what_was_prepared(headwise, tiny_run, tmp_path):
    for change in ("text.vocab_size=45", "data.max_tokens=9"):
        found = headwise(
            *("train", tiny_run / "prepared", "--out", tmp_path / "run"),
            *("--set", change),
        )

        assert found.code == 3
        assert f"{change.replace('=', ' is ')} here" in found.error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("time", ["5", "5x", "m", "", "-3m", "0s", "nanm", "infh"])
def test_an_invalid_max_time_is_a_usage_error(headwise, text, tmp_path, time):
    found = headwise("run", *text, "--out", tmp_path / "run", "--max-time", time)

    assert found.code == 2
    assert "--max-time must be a number above 0 with s, m or h" in found.error


def test_too_short_a_time_still_gives_a_model(headwise, text, tmp_path):
    found = headwise(
        *("run", *text, "--out", tmp_path / "run", "--max-time", "0.001s"),
        *options("training.steps=100000"),
    )

    assert found.code == 0
    assert "step 1 " in found.error
    assert found.out.startswith("BLEU ")


@pytest.mark.parametrize(
    ("source", "target", "code", "said"),
    [
        (None, b"eins.\n", 2, "train.en does not exist"),
        (b"one.\ntwo.\n", b"eins.\n", 4, "has 2 lines and"),
        (b"one.\nf\xfcnf\n" * 9, b"eins.\n" * 18, 4, "train.en, line 2, byte 2"),
        (b"", b"", 4, "is empty"),
        (b"\n \n", b"\n\n", 4, "have an empty side"),
        (b"one.\n", b"eins.\n", 4, "no training data would be left"),
    ],
)
@pytest.mark.parametrize("command", ["run", "prepare"])
def test_unusable_training_text_is_reported(
    headwise, tmp_path, command, source, target, code, said
):
    if source is not None:
        (tmp_path / "train.en").write_bytes(source)
    (tmp_path / "train.de").write_bytes(target)
    found = headwise(
        *(command, tmp_path / "train.en", tmp_path / "train.de"),
        *("--out", tmp_path / "out", *options()),
    )

    assert (found.code, found.out) == (code, "")
    assert said in found.error
    assert not list(tmp_path.glob("out/[!.]*"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "no training text"),
        (["a.en"], 2, "a.en does not exist"),
        (["/dev/null"], 2, "give TARGET too, or one file with both sides"),
        ([".", "."], 2, ". is a folder"),
        (["--preset", "huge", "/dev/null", "/dev/null"], 3, "'huge' is not a preset"),
        (["--device", "abacus", "a.en", "a.de"], 2, "abacus is not a device"),
    ],
)
def test_a_command_that_names_no_text_is_told_what_to_name(
    headwise, tmp_path, monkeypatch, arguments, code, said
):
    monkeypatch.chdir(tmp_path)
    found = headwise("run", *arguments, "--out", "out")

    assert (found.code, found.out) == (code, "")
    assert said in found.error
    assert names(tmp_path) == []


def test_a_folder_that_is_no_prepared_corpus_is_code_4(headwise, tmp_path):
    found = headwise("train", tmp_path, "--out", tmp_path / "run")

    assert found.code == 4
    assert "not a prepared corpus" in found.error


def test_a_folder_with_other_things_in_it_is_refused(headwise, text, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    found = headwise("prepare", *text, "--out", tmp_path / "mine", *options())

    assert found.code == 2
    assert "is not replaced" in found.error
    assert names(tmp_path / "mine") == ["thesis.tex"]


def test_a_recipe_of_the_users_own_is_not_written_over(headwise, text, tmp_path):
    (tmp_path / "recipe.toml").write_text("mine")
    found = headwise("run", *text, "--out", tmp_path, *options())

    assert found.code == 2
    assert "is not a run folder: it contains recipe.toml and 2 more" in found.error
    assert names(tmp_path) == ["recipe.toml", "train.de", "train.en"]


def test_an_unwritable_folder_is_code_6(headwise, text, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "run", Path("/proc/run")):
        found = headwise("run", *text, "--out", out, *options())

        assert found.code == 6
        assert str(out) in found.error
        assert "cannot be written" in found.error


def no_large_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_full_disk_is_code_6_and_leaves_no_partial_files(start, tiny_run, tmp_path):
    """A limit on file sizes fails as a full disk does: in the middle of a write."""
    process = start(
        *("train", tiny_run / "prepared", "--out", tmp_path / "run"),
        *options("model.d_model=64"),
        preexec_fn=no_large_files,
    )
    _, error = process.communicate(timeout=300)

    assert process.returncode == 6, error
    assert b"best cannot be written" in error
    assert not list((tmp_path / "run").rglob("*unfinished*"))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)]
)
def test_a_stop_signal_saves_and_the_same_command_resumes(
    start, headwise, tiny_run, tmp_path, number, code
):
    out = tmp_path / "run"
    command = ["train", tiny_run / "prepared", "--out", out]
    endless = options("training.steps=1000000", "training.validate_every=1000000")
    process = start(*command, *endless)
    log = out / "log.jsonl"
    deadline = time.monotonic() + 300
    while not (log.exists() and b'"update"' in log.read_bytes()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, number)
    data, error = process.communicate(timeout=300)

    assert process.returncode == code
    assert data == b""
    assert b"everything is saved" in error
    assert b"Traceback" not in error
    (checkpoint,) = names(out / "checkpoints")
    step = int(checkpoint.removeprefix("step-"))
    found = headwise(*command, *endless, "--set", f"training.steps={step + 1}")
    assert found.code == 0
    assert f"going on from step {step:,}" in found.error


def test_a_stop_signal_during_preparation_clears_up(start, text, tmp_path):
    """Before training there is nothing to save; the same command begins this anew."""
    pipe = tmp_path / "slow.en"
    shutil.copy(text[0], pipe)
    process = start("run", pipe, text[1], "--out", tmp_path / "run", *options())
    deadline = time.monotonic() + 300
    while b"SigCgt" in (status := signals_of(process)) and not catches_sigterm(status):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    process.communicate(timeout=300)

    assert process.returncode == 75
    assert not list(tmp_path.rglob("*unfinished*"))


@pytest.mark.skipif(sys.platform != "linux", reason="the child is found in /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)]
)
def test_a_stop_signal_while_a_tokenizer_is_learned_ends_that_too(
    start, tmp_path, number, code
):
    """To all processes at once, as Ctrl-C in a terminal sends it; no one complains."""
    text = write_slow_text(tmp_path / "slow.txt")
    process = start(
        *("prepare", text, text, "--out", tmp_path / "corpus"),
        *("--set", "text.tokenizer=unigram", "--set", "data.dev_pairs=1"),
        start_new_session=True,
    )
    child = busy_child(process)
    os.killpg(process.pid, number)
    _, error = process.communicate(timeout=30)

    assert process.returncode == code
    assert error.decode().splitlines()[-1].startswith("headwise: ")
    assert b"Traceback" not in error
    assert is_gone(child)
    assert names(tmp_path) == ["slow.txt"]


def signals_of(process):
    return Path(f"/proc/{process.pid}/status").read_bytes()


def catches_sigterm(status):
    (mask,) = [
        int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(b"SigCgt")
    ]
    return mask >> (signal.SIGTERM - 1) & 1


def test_under_torchrun_only_training_is_for_several_processes(
    headwise, text, tmp_path, monkeypatch
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    source, target = text
    done = headwise("run", source, target, "--out", tmp_path / "run")

    assert done.code == 2
    assert "headwise prepare" in done.error
    assert not (tmp_path / "run").exists()
