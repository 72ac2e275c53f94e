"""A wrong argument of a Python call gives an error that says what would work."""

import copy
import pickle

import numpy as np
import pytest
import torch

import headwise
from headwise.errors import SettingsError, UsageError
from headwise.inference.translator import load


@pytest.fixture(scope="module")
def translator(tiny_run):
    return load(tiny_run, engine="torch")


@pytest.mark.parametrize("folder", [None, 5, b"en-de", [None], ["en-de", 5], [b"a"]])
def test_what_is_no_folder_is_refused_with_an_example(folder):
    """It was a TypeError: 'NoneType' object is not iterable."""
    with pytest.raises(UsageError, match=r"a folder .*, not .*; such as headwise.load"):
        load(folder)


def test_an_empty_name_is_not_the_current_folder(tiny_run, monkeypatch):
    """As on the command line: a variable that is not set is a mistake."""
    monkeypatch.chdir(tiny_run)

    for folder in ("", [""]):
        with pytest.raises(UsageError, match=r"empty; '\.' is the current folder"):
            load(folder)
    assert load(".").opened.path


def test_no_folder_at_all_is_refused():
    with pytest.raises(UsageError, match="no folder was named"):
        load([])


@pytest.mark.parametrize("device", [None, 5, ["cpu"]])
def test_a_device_that_is_no_name_is_refused(tiny_run, device):
    """None was taken by torch for its default, and failed in the weights' reader."""
    with pytest.raises(UsageError, match="device must be a name such as 'cpu'"):
        load(tiny_run, device=device)


def test_a_device_may_be_torchs_own(tiny_run):
    assert load(tiny_run, device=torch.device("cpu")).opened.device == "cpu"


@pytest.mark.parametrize("value", ["no", "yes", 0, 1, None])
def test_a_flag_is_true_or_false(tiny_run, value):
    """The text "no" counted as true."""
    with pytest.raises(UsageError, match="deterministic must be True or False, not "):
        load(tiny_run, deterministic=value)


@pytest.mark.parametrize("engine", [None, ["torch"]])
def test_an_engine_that_is_no_name_is_refused(tiny_run, engine):
    with pytest.raises(UsageError, match="is not an engine; known: auto"):
        load(tiny_run, engine=engine)


@pytest.mark.parametrize(
    ("each", "what"),
    [
        ([None], "that of line 1 is None"),
        ([{}, "beam=5"], "that of line 2 is 'beam=5'"),
        ({"beam": 5}, "it is {'beam': 5}"),
        ("beam", "it is 'beam'"),
        (5, "it is 5"),
    ],
)
def test_settings_of_lines_that_are_no_tables_are_refused(translator, each, what):
    with pytest.raises(UsageError, match=f"{what}.*for all lines are arguments"):
        translator.translate(["one.", "two."], each=each)


@pytest.mark.parametrize("given", ["one.", b"one.", None, 5, {"one.": 1}])
def test_one_text_is_not_a_list_of_its_letters(translator, given):
    """A str is an iterable of texts: each letter was translated by itself."""
    with pytest.raises(UsageError, match="lines must be a list of texts"):
        translator.lines(given)
    if given is not None:
        with pytest.raises(UsageError, match="prefixes must be a list of texts"):
            translator.lines(["one."], prefixes=given)
    for call in (translator.score, translator.best_alignment_head):
        with pytest.raises(UsageError, match="sources must be a list of texts"):
            call(given, ["eins."])
        with pytest.raises(UsageError, match="targets must be a list of texts"):
            call(["one."], given)


def test_pairs_of_unequal_lengths_are_refused_with_both_counts(translator):
    for call in (translator.score, translator.best_alignment_head):
        with pytest.raises(UsageError, match="there are 2 sources and 1 target"):
            call(["one.", "two."], ["eins."])
        with pytest.raises(UsageError, match=r"text .* not NoneType"):
            call(["one."], [None])


def test_pairs_may_come_from_generators(translator):
    sources, targets = ["one.", "two."], ["eins.", "zwei."]

    assert translator.score(iter(sources), iter(targets)) == translator.score(
        sources, targets
    )


@pytest.mark.parametrize("sides", [([], []), (["", "one."], ["eins.", " "])])
def test_a_head_is_not_chosen_without_any_evidence(translator, sides):
    """The first head was returned, as all were equally good at nothing."""
    with pytest.raises(UsageError, match="pairs given, none with text on both sides"):
        translator.best_alignment_head(*sides)


@pytest.mark.parametrize("count", [-1, 0, True, 2.0, "2"])
def test_the_number_of_alternatives_is_a_number_of_them(translator, count):
    """-1 gave all of the vocabulary but one, 0 none."""
    with pytest.raises(UsageError, match="count must be an integer, 1 or more, not "):
        translator.alternatives("one two.", count=count)
    assert len(translator.alternatives("one two.", count=2)) == 2


def test_a_translator_belongs_to_its_process(translator):
    """pickle said that a ctypes pointer, or a lock, could not be pickled."""
    pipeline = headwise.pipeline("translation", model=translator)

    for what in (translator, translator.translate, pipeline):
        with pytest.raises(UsageError, match=r"Call headwise.load\(FOLDER\) in each"):
            pickle.dumps(what)
    for how in (copy.copy, copy.deepcopy):
        with pytest.raises(UsageError, match="cannot be pickled or copied"):
            how(translator)


def test_an_option_that_there_is_not_is_refused_with_those_there_are(tiny_run):
    with pytest.raises(UsageError, match=r"'engin' is no option .* device, engine, "):
        headwise.load(tiny_run, engin="torch")


def test_settings_of_lines_are_checked_before_the_first_is_asked_for(translator):
    """The generator was returned, and the error came at its first line."""
    with pytest.raises(SettingsError, match=r"beem.*did you mean beam\?"):
        translator.lines(["one."], beem=3)
    with pytest.raises(UsageError, match="on_progress must be a function, not 3"):
        translator.lines(["one."], on_progress=3)
    with pytest.raises(SettingsError, match="lines"):
        translator.translate("one.", lines=["two."])


def test_numbers_of_numpy_are_numbers(translator):
    plain = translator.translate("one two.", beam=3, alpha=0.5)

    of_numpy = {"beam": np.int64(3), "alpha": np.float64(0.5)}
    assert translator.translate("one two.", **of_numpy) == plain
    assert len(translator.alternatives("one two.", count=np.int64(2))) == 2
    with pytest.raises(SettingsError, match="beam must be a whole number"):
        translator.translate("one two.", beam=np.bool_(True))


def test_a_task_that_there_is_not_is_refused_with_those_there_are(tiny_run):
    with pytest.raises(SettingsError, match="task must be one of translation, "):
        headwise.load(tiny_run, task="translating")
