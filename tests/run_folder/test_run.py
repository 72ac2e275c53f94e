"""A run resumes where it stopped, and other settings or data are refused."""

import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save
from tests.tiny import SETTINGS, write_text

from headwise.data.prepare import prepare
from headwise.data.prepared import PreparedCorpus
from headwise.errors import DataError, ModelError, SettingsError, Stopped, UsageError
from headwise.inference.translator import load
from headwise.recipe import resolve
from headwise.run_folder.paths import model_path
from headwise.run_folder.run import _check_same_corpus, check_run, open_task, train_run
from headwise.settings import read_toml
from headwise.training.distributed import Ranks
from headwise.training.state import TrainingState

SHORT = {
    **SETTINGS,
    "training": {
        **SETTINGS["training"],
        "steps": 8,
        "validate_every": 4,
        "validation_pairs": 1,
        "schedule": "constant",
        "measure": "loss",
    },
    "decoding": {"beam": 2, "max_length_factor": 0.0, "max_length_offset": 4},
}


class Recorder:
    """Notes what is said, and stops the run by a signal after some step."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.said = []
        self.losses = []
        self.began = None

    def on_start(self, state, settings, epoch_batches):
        self.began = state.step

    def on_step(self, update, state):
        self.losses.append(update.loss)
        if state.step == self.stop_after:
            raise Stopped("stopped")

    def on_validation(self, validation, state, name, best):
        pass

    def on_message(self, text):
        self.said.append(text)

    def on_end(self, state, reason):
        pass


@pytest.fixture(scope="module")
def corpus(tiny_run):
    return PreparedCorpus.open(tiny_run / "prepared")


@pytest.fixture
def recipe(corpus):
    return a_recipe(corpus)


def a_recipe(corpus, **training):
    settings = corpus.fields["settings"]
    changed = {**SHORT, "training": {**SHORT["training"], **training}}
    return resolve(extra={**changed, **settings})


def weights(folder, step):
    return load_file(folder / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_finished_run_holds_all_that_its_docstring_lists(tiny_run):
    found = {path.name for path in tiny_run.iterdir()}

    assert found == {
        *("recipe.toml", "prepared", "checkpoints", "best", "log.jsonl", ".lock")
    }
    assert [path.name for path in sorted((tiny_run / "checkpoints").iterdir())] == [
        *("step-00000030", "step-00000060")
    ]


def test_the_recipe_is_written_whole_and_read_back_equal(tmp_path, corpus, recipe):
    train_run(tmp_path / "run", recipe, corpus)

    assert resolve(file=tmp_path / "run" / "recipe.toml") == recipe


def test_an_interrupted_run_is_the_same_run_bit_for_bit(tmp_path, corpus, recipe):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    calm, first, rest = Recorder(), Recorder(stop_after=3), Recorder()
    train_run(whole, recipe, corpus, callbacks=[calm])
    with pytest.raises(Stopped):
        train_run(stopped, recipe, corpus, callbacks=[first])
    state = train_run(stopped, recipe, corpus, callbacks=[rest])

    assert first.losses + rest.losses == calm.losses
    assert rest.began == 3
    assert state.step == 8
    assert_same(weights(whole, 8), weights(stopped, 8))
    one, other = (
        load_file(each / "best" / "model.safetensors") for each in (whole, stopped)
    )
    assert_same(one, other)


def test_after_a_crash_the_last_intact_checkpoint_is_resumed(tmp_path, corpus, recipe):
    folder = tmp_path / "run"
    train_run(folder, recipe, corpus)
    before = weights(folder, 8)
    file = folder / "checkpoints" / "step-00000008" / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    callback = Recorder()
    train_run(folder, recipe, corpus, callbacks=[callback])

    assert callback.began == 4
    assert "step-00000008 cannot be used" in callback.said[0]
    assert_same(before, weights(folder, 8))


def test_an_ema_of_another_shape_in_a_checkpoint_is_refused(tmp_path, corpus, rewrite):
    recipe = a_recipe(corpus, ema_decay=0.9)
    train_run(tmp_path / "run", recipe, corpus)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000008"
    ema = load_file(checkpoint / "ema.safetensors")
    name = next(iter(ema))
    wrong = {**ema, name: torch.zeros(3, 3)}
    rewrite(checkpoint, "ema.safetensors", save(wrong))

    with pytest.raises(ModelError, match=r"has shape \[3, 3\], not"):
        train_run(tmp_path / "run", recipe, corpus)


def test_a_finished_run_may_be_made_longer(tmp_path, corpus, recipe):
    folder = tmp_path / "run"
    train_run(folder, recipe, corpus)
    longer = replace(recipe, training=replace(recipe.training, steps=12))
    state = train_run(folder, longer, corpus)
    straight = train_run(tmp_path / "straight", longer, corpus)

    assert (state.step, straight.step) == (12, 12)
    assert_same(weights(folder, 12), weights(tmp_path / "straight", 12))
    assert read_toml(folder / "recipe.toml")["training"]["steps"] == 12


def test_running_a_finished_run_again_changes_no_file_but_the_log(run_folder, corpus):
    def contents():
        return {
            path: path.read_bytes()
            for path in run_folder.rglob("*")
            if path.is_file() and path.name != "log.jsonl"
        }

    before = contents()
    recipe = resolve(file=run_folder / "recipe.toml")
    train_run(run_folder, recipe, corpus)

    assert contents() == before


def test_other_settings_make_another_run_and_are_all_named(run_folder, corpus):
    before = resolve(file=run_folder / "recipe.toml")
    other = replace(
        before,
        model=replace(before.model, d_ff=64),
        training=replace(before.training, learning_rate=0.5, steps=100),
    )
    with pytest.raises(SettingsError) as caught:
        train_run(run_folder, other, corpus)

    assert caught.value.problems[:2] == [
        "model.d_ff was 32 and is now 64",
        "training.learning_rate was 0.03 and is now 0.5",
    ]
    assert "choose another folder" in caught.value.problems[2]
    assert resolve(file=run_folder / "recipe.toml") == before


def test_a_setting_whose_name_begins_with_one_that_may_change_may_not(
    run_folder, corpus
):
    """``data.dev`` may lie elsewhere; ``data.dev_pairs`` holds out other pairs."""
    before = resolve(file=run_folder / "recipe.toml")
    now = replace(before, data=replace(before.data, dev_pairs=7))

    with pytest.raises(SettingsError, match=r"data\.dev_pairs was .* and is now 7"):
        check_run(run_folder, now, corpus.facts.fingerprint)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 61},
        {"max_minutes": 1.0},
        {"patience": 3},
        {"validation_pairs": 2},
        {"processes": 1},
        {"data_workers": 2},
    ],
)
def test_how_long_and_with_how_many_to_train_may_change(run_folder, corpus, change):
    before = resolve(file=run_folder / "recipe.toml")
    now = replace(before, training=replace(before.training, **change))

    check_run(run_folder, now, corpus.facts.fingerprint)


def test_ranks_with_another_corpus_than_the_first_are_refused(corpus):
    """On another machine the folder of the same name may hold other text."""
    first = SimpleNamespace(run_on_first=lambda _: "another fingerprint")

    with pytest.raises(DataError, match="differs between machines"):
        _check_same_corpus(first, corpus)
    _check_same_corpus(Ranks(), corpus)


def test_the_same_text_may_lie_elsewhere(run_folder, corpus):
    before = resolve(file=run_folder / "recipe.toml")
    moved = replace(before.data.corpora[0], source="/elsewhere/train.en")
    now = replace(before, data=replace(before.data, corpora=(moved,)))

    check_run(run_folder, now, corpus.facts.fingerprint)


def test_other_text_makes_another_run(run_folder, tmp_path):
    """The weights would mean other words, and nothing would say so."""
    before = resolve(file=run_folder / "recipe.toml")
    source, target = write_text(tmp_path / "other", seed=7)
    data = {"corpora": [{"source": str(source), "target": str(target)}]}
    now = resolve(extra={**SETTINGS, "data": data})
    other = prepare(now.data, now.text, tmp_path / "prepared", seed=1)

    with pytest.raises(
        DataError, match=r"contains a run on other text.*another folder"
    ):
        train_run(run_folder, now, other)
    assert resolve(file=run_folder / "recipe.toml") == before


class PreparesAgain(Recorder):
    """Prepares other text in the place of the corpus, right before a validation."""

    def __init__(self, data, text, folder):
        super().__init__()
        self.prepare_again = partial(prepare, data, text, folder, seed=1)
        self.validated = None

    def on_step(self, update, state):
        if state.step == 3:
            self.prepare_again()

    def on_validation(self, validation, state, name, best):
        self.validated = self.validated or validation


def test_a_training_validates_on_the_corpus_that_it_opened(tmp_path):
    """Held-out pairs of another corpus have other tokens, or are other text."""
    texts = write_text(tmp_path / "one"), write_text(tmp_path / "other", seed=7)
    pairs = [{"source": str(source), "target": str(target)} for source, target in texts]
    first, other = (
        resolve(extra={**SHORT, "data": {"corpora": [each]}}) for each in pairs
    )
    corpus = prepare(first.data, first.text, tmp_path / "prepared", seed=1)
    sources = PreparedCorpus.open(corpus.folder).dev_text[0]
    again = PreparesAgain(other.data, other.text, corpus.folder)

    train_run(tmp_path / "run", first, corpus, callbacks=[again])

    assert PreparedCorpus.open(corpus.folder).dev_text[0] != sources
    assert again.validated.samples[0].source == sources[0]


def test_a_run_without_checkpoints_may_begin_again_otherwise(tmp_path, corpus, recipe):
    """Nothing is lost when the first try failed before its first checkpoint."""
    folder = tmp_path / "run"
    train_run(folder, recipe, corpus)
    shutil.rmtree(folder / "checkpoints")
    other = replace(recipe, seed=2)

    assert train_run(folder, other, corpus).step == 8


def test_a_recipe_that_was_broken_by_hand_is_named(run_folder, corpus):
    before = resolve(file=run_folder / "recipe.toml")
    (run_folder / "recipe.toml").write_text("model = 3")

    with pytest.raises(ModelError, match=r"recipe\.toml is not the recipe"):
        train_run(run_folder, before, corpus)


def test_a_folder_of_somebody_elses_is_not_trained_in(tmp_path, corpus, recipe):
    """A best/ that was no model of ours was renamed, and went with the next one."""
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "chapter.tex").write_text("mine")

    with pytest.raises(UsageError, match="is not a run folder: it contains best"):
        train_run(tmp_path, recipe, corpus)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert (tmp_path / "best" / "chapter.tex").read_text() == "mine"


def test_a_file_is_no_folder_to_train_in(tmp_path, corpus, recipe):
    (tmp_path / "train.en").write_text("mine")

    with pytest.raises(UsageError, match=r"train\.en is a file; choose a new folder"):
        train_run(tmp_path / "train.en", recipe, corpus)
    assert (tmp_path / "train.en").read_text() == "mine"


def test_other_files_beside_a_run_do_no_harm(tmp_path, corpus, recipe):
    """Whoever keeps notes in the folder of a run goes on with it all the same."""
    train_run(tmp_path, recipe, corpus, until=4)
    (tmp_path / "notes.txt").write_text("mine")

    assert train_run(tmp_path, recipe, corpus).step == 8
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_run_and_its_best_model_can_both_be_opened(tiny_run):
    assert model_path(tiny_run) == model_path(tiny_run / "best") == tiny_run / "best"
    texts = ["one two.", "six."]

    assert load(tiny_run).translate(texts) == load(tiny_run / "best").translate(texts)


def test_a_folder_without_run_or_model_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "recipe.toml").write_text("")
    (tmp_path / "file").write_text("")

    with pytest.raises(ModelError, match="neither a model folder"):
        model_path(tmp_path / "empty")
    with pytest.raises(ModelError, match="without a best model yet"):
        model_path(tmp_path / "begun")
    for name in ("file", "missing"):
        with pytest.raises(ModelError, match="is not a folder"):
            model_path(tmp_path / name)


def test_the_best_model_notes_what_its_card_and_facts_should(tiny_run, corpus):
    opened = load(tiny_run).opened

    assert opened.facts.longest_source == corpus.facts.train.longest_source
    assert [each.source for each in opened.golden] == corpus.dev_text[0][:5]


def test_where_training_ended_is_returned(tiny_run, corpus):
    recipe = resolve(file=tiny_run / "recipe.toml")
    folder = tiny_run.parent / "again"
    state = train_run(shutil.copytree(tiny_run, folder), recipe, corpus)
    shutil.rmtree(folder)

    assert isinstance(state, TrainingState)
    assert state.step == 60


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_a_damaged_best_model_is_said_and_made_anew(tmp_path, corpus, recipe, name):
    train_run(tmp_path / "run", recipe, corpus)
    path = tmp_path / "run" / "best" / name
    path.write_bytes(path.read_bytes()[:-7])
    callback = Recorder()

    train_run(
        tmp_path / "run", a_recipe(corpus, steps=12), corpus, callbacks=[callback]
    )

    load(tmp_path / "run")
    assert any("the best model, of update" in text for text in callback.said)


def test_validation_has_the_length_limits_of_the_recipe(corpus, recipe):
    limits = {"max_length_factor": 0.0, "max_length_offset": 70}
    task = open_task(
        replace(recipe, decoding=replace(recipe.decoding, **limits)), corpus
    )

    assert task.default_search.max_length(3) == 70
    assert task.default_search.beam == 1


@pytest.mark.parametrize("patience", [None, 1])
def test_a_run_that_has_ended_gets_its_best_model_again(tmp_path, corpus, patience):
    """Of the same updates: nothing trains on, whatever ended it."""
    recipe = a_recipe(corpus, steps=12, validate_every=2, patience=patience)
    before = train_run(tmp_path / "run", recipe, corpus)
    shutil.rmtree(tmp_path / "run" / "best")

    after = train_run(tmp_path / "run", recipe, corpus)

    load(tmp_path / "run")
    assert after.step == before.step
    assert after.without_gain == before.without_gain
    assert after.best_step == before.step
