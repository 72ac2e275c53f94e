"""The models of packages/headwise-models, and the package itself."""

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.processes import environment

from headwise import load
from headwise.doctor import check_folder
from headwise.run_folder.card_fields import card_fields
from headwise.text.recasing import recase

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packages" / "headwise-models"
SOURCES = PACKAGE / "src"
PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))
ENTRIES = PROJECT["project"]["entry-points"]["headwise.models"]
RESULTS = ROOT / "benchmarks" / "results" / "shipped_models.json"

CAT = {
    "en": "My cat does not want to go outside because it is lazy.",
    "fr": "Mon chat ne veut pas sortir parce qu'il est paresseux.",
    "de": "Meine Katze will nicht nach draußen gehen, weil sie faul ist.",
}
DOG = {
    "en": "Where is my dog?",
    "fr": "Où est mon chien ?",
    "de": "Wo ist mein Hund?",
}
SEE = {"en": "Look at", "fr": "Regarde", "de": "Schau auf"}


def folder_of(name):
    return SOURCES / ENTRIES[name] / name


@pytest.fixture(scope="module")
def build():
    """Return the script that makes the models, as a module."""
    spec = importlib.util.spec_from_file_location("build", PACKAGE / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=ENTRIES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def translator(name):
    return load(folder_of(name), engine="torch")  # which keeps no export here


def test_both_directions_of_each_language_are_there(build):
    assert {*ENTRIES} == {*build.DIRECTIONS}
    assert {"-".join(reversed(each.split("-"))) for each in ENTRIES} == {*ENTRIES}


def test_the_doctor_is_content(name):
    checks = [*check_folder(folder_of(name))]

    assert [each for each in checks if each.status != "ok"] == []
    assert any("5 of 5 as stored" in each.found for each in checks)


def test_a_model_is_at_most_12_megabytes(name):
    files = [each for each in folder_of(name).rglob("*") if each.is_file()]

    assert 1_000_000 < sum(each.stat().st_size for each in files) <= 12_000_000


def test_the_card_says_what_it_must(name, build):
    card = (folder_of(name) / "README.md").read_text(encoding="utf-8")
    fields = card_fields(card)

    assert list(fields.languages) == name.split("-")
    assert fields.license == "cc-by-2.0"
    assert "www.manythings.org/anki and tatoeba.org" in card
    assert "| BLEU |" in card
    assert "tok:13a" in card


def test_the_notes_of_the_card_are_those_of_the_result_file(name, build):
    card = (folder_of(name) / "README.md").read_text(encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    limits = (PACKAGE / "limits" / f"{name}.md").read_text(encoding="utf-8")

    notes = build.notes(name, results["models"][name], limits)

    assert card.partition("\n## Notes\n")[2].strip() == notes.strip()


def test_a_sentence_is_translated_without_a_warning(name, translator):
    (found,) = translator.lines([CAT[name[:2]]])

    assert found.warnings == ()
    assert found.text.endswith(".")
    assert len(found.text.split()) >= 8


@pytest.mark.parametrize("kept", ["https://example.org/a-b?c=1", "ana@example.org"])
def test_an_address_is_kept(name, translator, kept):
    output = translator.translate(f"{SEE[name[:2]]} {kept}.")

    assert output.count(kept) == 1


def test_capitals_are_translated_as_small_letters(name, translator):
    """Their letters are copied by no placeholder, such as the Ù of OÙ."""
    capitals = [DOG[name[:2]].upper(), CAT[name[:2]].upper()]

    outputs = translator.translate([recase(each) for each in capitals])

    assert translator.translate(capitals) == [each.upper() for each in outputs]


def test_numbers_are_kept(name, translator):
    output = translator.translate(f"{CAT[name[:2]][:-1]} 1776.")

    assert output.count("1776") == 1


def test_sentences_of_a_line_are_translated_one_by_one(name, translator):
    both = [DOG[name[:2]], CAT[name[:2]]]

    assert translator.translate(" ".join(both)) == " ".join(translator.translate(both))


def test_the_wheel_is_reproducible_and_has_the_models_alone(tmp_path):
    wheels = [built(tmp_path / each) for each in ("one", "other")]

    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with ZipFile(wheels[0]) as wheel:
        (entry_points,) = (each for each in wheel.namelist() if "entry_p" in each)
        told = wheel.read(entry_points).decode()
        files = {each for each in wheel.namelist() if ".dist-info/" not in each}
    assert {f"{name} = headwise_models" for name in ENTRIES} <= {*told.splitlines()}
    models = {
        (folder / each).relative_to(SOURCES).as_posix()
        for folder in map(folder_of, ENTRIES)
        for each in json.loads((folder / "manifest.json").read_text())["files"]
    }
    manifests = {f"headwise_models/{name}/manifest.json" for name in ENTRIES}
    assert files == models | manifests | {"headwise_models/__init__.py"}


def built(folder):
    """Build the wheel without network; the build must not import headwise."""
    code = (
        "import sys; from hatchling.build import build_wheel;"
        f"build_wheel({str(folder)!r}); assert 'headwise' not in sys.modules"
    )
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE, env=environment(), check=True
    )
    (wheel,) = folder.iterdir()
    return wheel
