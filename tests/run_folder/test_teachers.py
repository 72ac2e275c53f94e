"""Runs with teachers: their tokenizers, and the same weights when a run resumes."""

import json
import shutil
from dataclasses import replace

import pytest
from tests.tiny import SETTINGS, write_text

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.errors import DataError, ModelError, SettingsError
from headwise.run_folder import teachers as module
from headwise.run_folder.run import train_run
from headwise.run_folder.teachers import open_teachers
from headwise.settings import merged

SHORT = merged(
    SETTINGS,
    {"training": {"steps": 4, "validate_every": 2, "validation_pairs": 1}},
)


def recipe_of(folder, *, seed=1, text=None, **training):
    source, target = map(str, write_text(folder, num_pairs=80, seed=seed))
    table = {
        "data": {"corpora": [{"source": source, "target": target}]},
        "seed": seed,
        "text": text or {},
        "training": training,
    }
    given = {key: value for key, value in SHORT.items() if key != "text"}
    return resolve_checked(extra=merged(given, table))


def train(run, recipe, **how):
    return train_run(run, recipe, prepare_corpus(run, recipe), **how)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Return a run whose tokenizers no other seed or text would give."""
    folder = tmp_path_factory.mktemp("teacher")
    train(folder / "run", recipe_of(folder, seed=3, text={"vocab_size": 40}))
    return folder / "run"


@pytest.fixture
def begun(teacher, tmp_path):
    """Return a recipe with a teacher, and a run of it that was begun."""
    shutil.copytree(teacher, tmp_path / "teacher")
    recipe = recipe_of(tmp_path, teacher=[str(tmp_path / "teacher")])
    train(tmp_path / "run", recipe, until=2)
    return recipe, tmp_path / "run"


def test_a_student_has_the_tokenizers_of_its_teacher(begun, tmp_path):
    recipe, run = begun
    corpus = prepare_corpus(run, recipe)

    assert recipe.text.vocab_size == 40
    assert corpus.tokenizers.source.size <= 40
    found = open_teachers(recipe, corpus)
    recorded = json.loads((run / "teachers.json").read_text())
    assert [each["sha256"] for each in recorded["teachers"]] == found.digests
    assert recorded["teachers"][0]["folder"].startswith(str(tmp_path / "teacher"))


def test_a_run_resumes_with_a_teacher_that_was_moved(begun, tmp_path):
    _, run = begun
    (tmp_path / "teacher").rename(tmp_path / "elsewhere")
    moved = recipe_of(tmp_path, teacher=[str(tmp_path / "elsewhere")])

    assert train(run, moved).step == 4


def test_a_run_refuses_a_teacher_with_other_weights(begun, teacher, tmp_path):
    recipe, run = begun
    shutil.rmtree(tmp_path / "teacher")
    other = recipe_of(tmp_path / "other", teacher=[str(teacher)])
    train(tmp_path / "other" / "run", other)
    shutil.copytree(tmp_path / "other" / "run", tmp_path / "teacher")

    with pytest.raises(SettingsError, match="has other weights than the run in"):
        train(run, recipe)


@pytest.mark.parametrize("count", [0, 2])
def test_a_run_refuses_another_number_of_teachers(begun, teacher, tmp_path, count):
    _, run = begun
    other = recipe_of(tmp_path, text={"vocab_size": 40}, teacher=[str(teacher)] * count)
    corpus = prepare_corpus(
        tmp_path / "corpus", recipe_of(tmp_path, teacher=[str(teacher)])
    )

    with pytest.raises(SettingsError, match="contains a run with 1 teacher"):
        train_run(run, other, corpus)


def test_a_run_without_teachers_does_not_go_on_with_one(teacher, tmp_path):
    plain = recipe_of(tmp_path, seed=3, text={"vocab_size": 40})
    corpus = prepare_corpus(tmp_path / "run", plain)
    train_run(tmp_path / "run", plain, corpus, until=2)
    assert not (tmp_path / "run" / "teachers.json").exists()
    taught = recipe_of(tmp_path, seed=3, teacher=[str(teacher)])

    with pytest.raises(SettingsError, match="contains a run with no teacher"):
        train_run(tmp_path / "run", taught, corpus)


def test_a_corpus_with_other_tokenizers_is_refused(teacher, tmp_path):
    plain = recipe_of(tmp_path, text={"vocab_size": 45})
    corpus = prepare_corpus(tmp_path / "corpus", plain)
    taught = recipe_of(tmp_path, teacher=[str(teacher)])

    with pytest.raises(DataError, match="has another tokenizer for the source than"):
        open_teachers(taught, corpus)


def test_text_settings_that_contradict_the_teacher_are_refused(teacher, tmp_path):
    taught = recipe_of(tmp_path, text={"vocab_size": 45}, teacher=[str(teacher)])

    with pytest.raises(SettingsError, match="which training learns from, has 40"):
        prepare_corpus(tmp_path / "run", taught)


def test_a_teacher_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelError, match="nowhere"):
        recipe_of(tmp_path, teacher=[str(tmp_path / "nowhere")])


def test_only_translation_has_teachers(teacher):
    with pytest.raises(SettingsError, match="is for task = 'translation', not"):
        resolve_checked(
            extra={
                "task": "captioning",
                "training": {"teacher": [str(teacher)]},
            }
        )


@pytest.mark.parametrize("positions", ["learned", "fraction"])
def test_a_teacher_with_too_few_positions_is_refused(begun, positions, monkeypatch):
    recipe, run = begun
    corpus = prepare_corpus(run, recipe)
    opened = module.open_model_folder(module.model_path(run.parent / "teacher"))
    short = replace(opened.config, positions=positions, max_positions=9)
    monkeypatch.setattr(type(opened), "config", short)

    message = f"has 9 {positions} positions, .* set data.max_tokens to 8 or less"
    with pytest.raises(SettingsError, match=message):
        open_teachers(recipe, corpus)


def test_placeholders_need_the_symbol_of_the_teacher(teacher, tmp_path):
    """The whole text was prepared before, and the error named neither of them."""
    chosen = recipe_of(tmp_path, teacher=[str(teacher)], text={"placeholders": 0.1})

    with pytest.raises(SettingsError, match="needs the symbol <copy>, which"):
        prepare_corpus(tmp_path / "run", chosen)
    assert not (tmp_path / "run" / "prepared").exists()
