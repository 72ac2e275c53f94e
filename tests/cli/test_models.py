"""Models that a package brings along are found by name, and by language."""

import json
import shlex
import shutil
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

import headwise as package
from headwise.run_folder.card_edit import CardChanges
from headwise.run_folder.editing import edit_model
from headwise.run_folder.installed_models import installed_models

DEMO = Path(__file__).parents[1] / "models" / "demo"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder with a package of two models, as pip installs it."""
    site = tmp_path_factory.mktemp("site")
    for name, languages in (("en-fr", ("en", "fr")), ("de-fr", ("de", "fr"))):
        folder = shutil.copytree(DEMO, site / "some_models" / name)
        card = CardChanges(languages=languages, license="cc-by-4.0", title=f"To {name}")
        edit_model(folder, search={}, card=card, half=True)
    (site / "some_models" / "__init__.py").write_text("raise SystemExit('code ran')")
    write_entry_points(site, {"en-fr": "some_models", "de-fr": "some_models"})
    return site


def write_entry_points(site, entries):
    info = site / "some_models-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-models\n")
    lines = [f"{name} = {value}\n" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("[headwise.models]\n" + "".join(lines))


@pytest.fixture
def installed(site, monkeypatch, tmp_path):
    """Have the models of ``site`` installed, and no others."""
    (distribution,) = distributions(path=[str(site)])
    monkeypatch.setattr(
        "headwise.run_folder.installed_models.entry_points",
        lambda group: distribution.entry_points.select(group=group),
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    return site


@pytest.mark.usefixtures("installed")
def test_they_are_listed_and_their_package_does_not_run(headwise):
    found = headwise("models")

    assert found.code == 0
    first, second = found.out.splitlines()
    assert first.split()[:5] == ["de-fr", "translation", "de", "to", "fr"]
    assert "cc-by-4.0" in second
    assert "To en-fr" in second
    assert "some_models" not in sys.modules
    rows = json.loads(headwise("models", "--json").out)
    assert [each["languages"] for each in rows] == [["de", "fr"], ["en", "fr"]]
    for each in rows:
        listed = json.loads((Path(each["folder"]) / "manifest.json").read_text())
        sizes = [file["bytes"] for file in listed["files"].values()]
        manifest = (Path(each["folder"]) / "manifest.json").stat().st_size
        assert each["bytes"] == sum(sizes) + manifest


@pytest.mark.usefixtures("installed")
def test_a_name_stands_for_its_folder(headwise, tmp_path):
    text = "The dog sleeps in the garden.\n"
    by_name = headwise("translate", "en-fr", stdin=text.encode())

    assert by_name.code == 0
    assert by_name.out.count("\n") == 1
    assert package.load("en-fr").translate(text) == by_name.out
    assert headwise("doctor", "en-fr").code == 0


def test_a_folder_of_that_name_comes_first(installed, headwise, tmp_path):
    (tmp_path / "en-fr").mkdir()

    found = headwise("translate", "en-fr", stdin=b"one\n")

    assert found.code == 5
    assert "neither a model folder" in found.error


@pytest.mark.usefixtures("installed")
def test_a_language_finds_its_model(headwise):
    text = "The dog sleeps in the garden."
    named = headwise("translate", "en-fr", stdin=f"{text}\n{text}\n".encode()).out

    for arguments, stdin in (((text, text), b""), ((), f"{text}\n{text}\n".encode())):
        for target in ("fr", "FR"):
            found = headwise(
                "translate", "--to", target, "--from", "en", *arguments, stdin=stdin
            )
            assert (found.code, found.out) == (0, named)


@pytest.mark.usefixtures("installed")
def test_texts_of_the_command_line_keep_what_a_path_would_lose(headwise):
    found = headwise(
        "translate", "--to", "fr", "--from", "en", "a//b", "--scores", "c\nd"
    )

    assert [json.loads(each)["source"] for each in found.out.splitlines()] == [
        "a//b",
        "c",
        "d",
    ]


@pytest.mark.usefixtures("installed")
def test_a_text_that_names_a_file_is_noted(headwise, tmp_path):
    """It was translated as two words, and nobody was told."""
    file = tmp_path / "some words"
    file.write_text("The dog sleeps.\n", encoding="utf-8")
    found = headwise("translate", "--to", "fr", "--from", "en", file, "x" * 5000, "\0")

    assert found.code == 0
    assert found.error.count("is translated as a text") == 1
    assert f"headwise translate en-fr {shlex.quote(str(file))}" in found.error


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "fr", "a"), "say from which language, by --from: de, en"),
        (("--to", "es", "a"), "no installed model translates into es; there are: de"),
        (("--to", "fr", "--from", "es", "a"), "translates es to fr; there are: de to"),
        (("--from", "en", "en-fr"), "add --to"),
        ((), "name the FOLDER of a model, or by --to"),
        (("nowhere",), "nowhere does not exist"),
        (("nowhere",), "check the name; installed models: de-fr, en-fr"),
    ],
)
def test_mistakes_are_named(headwise, arguments, said):
    found = headwise("translate", *arguments)

    assert found.code == 2
    assert said in found.error


def test_without_any_the_command_says_so(headwise, monkeypatch):
    monkeypatch.setattr(
        "headwise.run_folder.installed_models.entry_points", lambda **_: ()
    )

    assert "no model is installed" in headwise("models").error
    assert "no model is installed" in headwise("translate", "--to", "fr", "a").error


@pytest.mark.parametrize("value", ["some_models.inner", "nowhere", "some_models:x"])
def test_entries_that_lead_nowhere_are_left_out(tmp_path, monkeypatch, value):
    write_entry_points(tmp_path, {"nowhere": value})
    monkeypatch.syspath_prepend(tmp_path)

    assert "nowhere" not in installed_models()


@pytest.mark.usefixtures("installed")
def test_an_installed_model_is_not_edited(headwise):
    found = headwise("edit", "en-fr", "--license", "mit")

    assert found.code == 2
    assert "en-fr is an installed model, which stays as pip installed it" in found.error
