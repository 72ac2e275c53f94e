"""Recipes of command lines: exports are checked, and data choose the preset."""

import shutil
from itertools import product

import pytest

from headwise import recipe
from headwise.cli import build_recipe
from headwise.cli.build_recipe import recipe_from_options, resolve_checked
from headwise.errors import SettingsError
from headwise.interop.unsupported_models import LIMITS
from headwise.recipe import resolve
from headwise.settings import read_toml


def test_without_a_target_everything_can_be_trained():
    assert (
        resolve_checked(preset="tiny", assignments=["model.norm=pre"]).model.norm
        == "pre"
    )


def test_a_recipe_that_every_export_supports_is_accepted():
    extra = {"must_export_to": list(LIMITS)}

    assert resolve_checked(preset="base", extra=extra) == resolve(
        preset="base", extra=extra
    )


def test_every_reason_against_every_export_is_reported():
    with pytest.raises(SettingsError) as refusal:
        resolve_checked(
            extra={
                "must_export_to": ["ctranslate2", "huggingface", "onyx"],
                "model": {"norm": "pre", "d_v": 16},
            }
        )
    problems = refusal.value.problems

    assert len(problems) == 4
    assert problems[0].startswith(
        "must_export_to: cannot be exported to ctranslate2: model.d_v = 16: "
    )
    assert "'onyx' is not an export format" in problems[3]


RECIPE = """\
preset = "micro"
must_export_to = ["ctranslate2", "huggingface"]

[model]
norm = "pre"
"""


@pytest.mark.parametrize("command", ["recipe", "prepare", "run"])
def test_nothing_is_prepared_or_trained(headwise, tiny_text, tmp_path, command):
    (tmp_path / "my.toml").write_text(RECIPE)
    text = tiny_text if command != "recipe" else ()
    out = ("--out", tmp_path / "new") if command != "recipe" else ()
    found = headwise(command, *text, "--recipe", tmp_path / "my.toml", *out)

    assert (found.code, found.out) == (3, "")
    assert "cannot be exported to huggingface: model.norm = 'pre'" in found.error
    assert "ctranslate2" not in found.error
    assert not (tmp_path / "new").exists()


def test_a_prepared_corpus_is_not_trained_on(headwise, tiny_run, tmp_path):
    (tmp_path / "my.toml").write_text(RECIPE)
    found = headwise(
        *("train", tiny_run / "prepared", "--out", tmp_path / "new"),
        *("--recipe", tmp_path / "my.toml"),
    )

    assert found.code == 3
    assert "model.norm = 'pre'" in found.error
    assert not (tmp_path / "new").exists()


def test_a_written_recipe_keeps_must_export_to(headwise, tmp_path):
    wanted = "must_export_to=['ctranslate2']"
    found = headwise("recipe", "--preset", "tiny", "--set", wanted)

    assert 'must_export_to = ["ctranslate2"]' in found.out
    (tmp_path / "again.toml").write_text(found.out)
    again = resolve(file=tmp_path / "again.toml")
    assert again.must_export_to == ("ctranslate2",)


def test_a_recipe_file_is_read_once(tiny_text, tmp_path, monkeypatch, capfd):
    """As a pipe can be."""
    path = tmp_path / "my.toml"
    path.write_text('[training]\nkernels = "eager"\n')
    read, read_toml = [], recipe.read_toml
    for module in (recipe, build_recipe):
        monkeypatch.setattr(
            module, "read_toml", lambda path: read.append(path) or read_toml(path)
        )

    resolve_checked(file=path)
    recipe_from_options(
        *tiny_text, recipe_file=path, languages=("en", "de"), out=tmp_path / "run"
    )

    assert read == [path, path]
    assert "is now called training.backend = 'torch'" in capfd.readouterr().err


@pytest.fixture
def phones(tmp_path):
    """Words with their letters as phones."""
    words = ["".join(each) for each in product("bdgk", "aeiou", "lmnrst", "ao")]
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"{word}\t{' '.join(word)}\n" for word in words))
    return path


def test_single_words_are_spelled_without_being_asked_for(headwise, phones, tmp_path):
    found = headwise("prepare", phones, "--out", tmp_path / "corpus")
    assert "240 pairs of single words: preset g2p (--preset" in found.error

    trained = headwise(
        *("train", tmp_path / "corpus", "--out", tmp_path / "run"),
        *("--set", "training.steps=2", "--set", "training.validate_every=2"),
    )
    assert trained.code == 0
    assert ": preset g2p" in trained.error
    table = read_toml(tmp_path / "run" / "recipe.toml")
    assert table["model"]["positions"] == "rotary"
    assert table["text"]["tokenizer"] == "characters"

    scored = headwise("evaluate", tmp_path / "run", phones)
    assert scored.code == 0, scored.error
    assert scored.out.startswith("WER ")
    assert "\nBLEU " in scored.out


@pytest.mark.parametrize(
    "assignment",
    [
        "text.tokenizer=unigram",
        "text.joint=true",
        "text.byte_fallback=true",
        "data.both_directions=true",
        "training.bpe_dropout=0.1",
    ],
)
def test_words_are_no_reason_against_what_was_asked_for(phones, tmp_path, assignment):
    said = []
    recipe_from_options(
        phones,
        None,
        assignments=[assignment],
        out=tmp_path / "run",
        on_message=said.append,
    )
    assert "240 pairs: preset micro" in said[0]


@pytest.mark.parametrize(("names", "notes"), [(["a", "b"], 1), (["c"], 1), (["t"], 0)])
def test_arguments_that_replace_the_corpora_of_a_recipe_are_said(
    tmp_path, names, notes
):
    """Not where they are the same."""
    text = tmp_path / "t.tsv"
    text.write_text("one\teins\ntwo\tzwei\n")
    corpora = [
        f'[[data.corpora]]\nsource = "{tmp_path / name}.tsv"\n' for name in names
    ]
    recipe = tmp_path / "my.toml"
    recipe.write_text('preset = "micro"\n' + "".join(corpora))
    said = []
    recipe_from_options(
        text, None, recipe_file=recipe, out=tmp_path / "run", on_message=said.append
    )
    note = f"note: the corpora of {recipe} ({len(names)}) are replaced by {text}"
    assert said.count(note) == notes
    assert len(said) == notes


REVERSED = "from en to de, and this run from de to en; if that is not meant, swap"


@pytest.mark.parametrize(
    ("order", "languages", "note"),
    [
        (1, None, None),
        (1, ("en", "de-CH"), None),
        (-1, None, REVERSED),
        (-1, ("de", "en"), REVERSED),
        (1, ("en", "nl"), "from en to de, and this run from en to nl"),
    ],
)
def test_it_is_said_where_a_model_translates_between_other_languages(
    headwise, tiny_run, tiny_text, tmp_path, order, languages, note
):
    """The languages of a run are given, or the suffixes of its files, en and de."""
    model = shutil.copytree(tiny_run / "best", tmp_path / "model")
    assert headwise("edit", model, "--languages", "en", "de").code == 0
    said = []
    recipe_from_options(
        *tiny_text[::order],
        languages=languages,
        preset="micro",
        initialize_from=[model],
        out=tmp_path / "run",
        on_message=said.append,
    )
    found = [each for each in said if "translates" in each]
    assert len(found) == (note is not None)
    assert note is None or f"note: {model} translates {note}" in found[0]


def test_lines_of_plain_text_are_not_called_pairs(tmp_path):
    said = []
    text = tmp_path / "text.txt"
    text.write_text("one\ntwo\n")
    recipe_from_options(
        text, None, task="language_model", out=tmp_path / "run", on_message=said.append
    )
    assert said[0].startswith("2 lines: preset ")
