"""``headwise edit``: changes of the card and of decoding settings, and refusals."""

import shutil

import pytest


@pytest.fixture
def run(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "en-de")


def test_a_changed_model_says_what_changed_and_searches_so(headwise, run, tmp_path):
    notes = tmp_path / "notes.md"
    notes.write_text("For captions.\n")
    found = headwise(
        *("edit", run, "--search", "beam=2", "--search", "alpha=0.5"),
        *("--license", "CC-BY-4.0", "--title", "Tiny", "--notes", notes),
    )

    assert (found.code, found.out) == (0, "")
    assert "beam: 4 → 2\nalpha: 1.0 → 0.5\n" in found.error
    assert "golden translations made again: " in found.error
    assert f"{run / 'best'}: written, with a new manifest" in found.error
    card = (run / "best" / "README.md").read_text()
    assert "# Tiny\n" in card
    assert card.endswith("## Notes\n\nFor captions.\n")
    assert headwise("doctor", run).code == 0


def test_the_doctor_says_what_a_card_leaves_open_until_it_is_said(headwise, run):
    assert "note    card: it names no license" in headwise("doctor", run / "best").out

    assert (
        headwise("edit", run, "--license", "mit", "--languages", "en", "de").code == 0
    )
    assert "ok      card: " in headwise("doctor", run / "best").out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "nothing to change; give"),
        (("--search", "beam"), 2, "NAME=VALUE"),
        (("--search", "bem=3"), 3, "did you mean beam?"),
        (("--languages", "English", "de"), 3, "tags such as 'en' or 'pt-BR'"),
        (("--license", "CC BY"), 3, "license must be an SPDX identifier"),
        (("--notes", "/nowhere/notes.md"), 2, "does not exist"),
    ],
)
def test_invalid_edits_have_an_exit_code(headwise, run, arguments, code, said):
    before = (run / "best" / "manifest.json").read_bytes()
    found = headwise("edit", run, *arguments)

    assert found.code == code
    assert said in found.error
    assert (run / "best" / "manifest.json").read_bytes() == before


def test_a_licence_that_hubs_do_not_list_is_taken_and_said(headwise, run):
    found = headwise("edit", run, "--license", "Apache2")

    assert found.code == 0
    assert (
        "is not a licence that model hubs list; did you mean apache-2.0?" in found.error
    )


def test_another_threshold_of_warnings_is_told_alone(headwise, run):
    """Both tables of warnings were printed, and exports were to be made again."""
    found = headwise("edit", run, "--search", "warnings.copied=0.5")

    assert found.code == 0
    assert found.error == (
        "warnings.copied: 0.75 → 0.5\n"
        f"{run / 'best'}: written, with a new manifest\n"
        f"{run / 'recipe.toml'}: changed as well, for later checkpoints of this run\n"
    )


def test_notes_without_an_end_are_refused(headwise, run):
    found = headwise("edit", run, "--notes", "/dev/zero")

    assert found.code == 4
    assert "/dev/zero has more than the 1,000,000 bytes" in found.error


def test_settings_without_effect_are_reported(headwise, run):
    found = headwise("edit", run, "--search", "groups=4", "--search", "beam=2")

    assert found.code == 0
    assert found.error.startswith(
        "note: groups changes nothing with search=beam, only with search=diverse-beam\n"
    )
