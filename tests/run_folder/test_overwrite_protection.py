"""A run goes into a folder that is new, empty or its own, and touches no other."""

import os

import pytest

from headwise import storage
from headwise.errors import UsageError
from headwise.run_folder.lock import LOCK
from headwise.run_folder.overwrite_protection import (
    check_no_foreign_files,
    lock_run_folder,
)


@pytest.fixture
def prepared(tmp_path):
    """Return a folder with nothing but a corpus that was prepared in it."""
    with storage.new_folder(
        tmp_path / "run" / "prepared", describe={"kind": "prepared corpus"}
    ) as draft:
        (draft / "prepared.json").write_text("{}")
    return tmp_path / "run"


@pytest.mark.parametrize(
    "name", ["best", "recipe.toml", "log.jsonl", "thesis.tex", "checkpoints", ".git"]
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_folder_with_something_else_in_it_is_refused(tmp_path, name, kind):
    """A foreign best/ was renamed damaged-best, and of two the first was deleted."""
    path = tmp_path / name
    if kind == "folder":
        path.mkdir()
        path = path / "step-1"
    path.write_text("mine")

    refusal = f"is not a run folder: it contains {name}, which a run might overwrite"
    with pytest.raises(UsageError, match=refusal), lock_run_folder(tmp_path):
        pytest.fail("it was taken")
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == [name]


def test_the_number_of_foreign_files_is_reported(tmp_path):
    for name in ("c", "a", "b"):
        (tmp_path / name).touch()

    with pytest.raises(
        UsageError, match="is not a run folder: it contains a and 2 more"
    ):
        check_no_foreign_files(tmp_path)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")

    with pytest.raises(UsageError, match="is a file; choose a new folder"):
        check_no_foreign_files(tmp_path / "file")


@pytest.mark.parametrize("name", ["new", "new/below"])
def test_a_new_folder_is_made_and_known_from_then_on(tmp_path, name):
    with lock_run_folder(tmp_path / name):
        assert os.listdir(tmp_path / name) == [LOCK]
        (tmp_path / name / "recipe.toml").touch()
    (tmp_path / name / "notes.txt").write_text("mine")  # of whoever keeps the run

    with lock_run_folder(tmp_path / name):
        assert (tmp_path / name / "notes.txt").read_text() == "mine"


def test_a_run_that_was_ended_before_it_had_a_recipe_begins_again(tmp_path):
    with lock_run_folder(tmp_path):
        (tmp_path / "corpus").mkdir()
        (tmp_path / ".prepared.draft").mkdir()

    check_no_foreign_files(tmp_path)


def test_an_empty_lock_alone_vouches_for_nothing_else(tmp_path):
    """Other tools have such a file too; a foreign best/ beside it was renamed."""
    (tmp_path / LOCK).touch()
    (tmp_path / "best").mkdir()

    with pytest.raises(UsageError, match="is not a run folder: it contains best"):
        check_no_foreign_files(tmp_path)


def test_an_empty_folder_is_accepted(tmp_path):
    with lock_run_folder(tmp_path):
        assert os.listdir(tmp_path) == [LOCK]


def test_a_copy_of_a_run_is_one_without_its_lock(tmp_path):
    """cp -r run/* leaves hidden files behind."""
    (tmp_path / "recipe.toml").touch()
    (tmp_path / "checkpoints" / "step-00000020").mkdir(parents=True)

    check_no_foreign_files(tmp_path)


def test_a_foreign_lock_file_is_refused(tmp_path):
    (tmp_path / LOCK).write_text("pid 7")

    with pytest.raises(UsageError, match="is not a run folder"):
        check_no_foreign_files(tmp_path)


def test_a_corpus_may_have_been_prepared_where_its_run_goes(prepared):
    check_no_foreign_files(prepared)

    (prepared / "prepared" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="is not a run folder: it contains prepared"):
        check_no_foreign_files(prepared)
