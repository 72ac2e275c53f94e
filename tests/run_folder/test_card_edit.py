"""Edits of a card change only what was asked for."""

import pytest

from headwise.errors import SettingsError
from headwise.run_folder.card_edit import (
    COMMON_LICENSES,
    CardChanges,
    edit_card,
    edit_command,
    missing_fields,
)

CARD = """\
---
license: "unknown"
library_name: headwise
metrics:
- "bleu"
model-index:
- name: "en-de"
  results:
---

# en-de

A Transformer.

## Limits

It may be wrong.
"""


def changed(card=CARD, **what):
    """Return the lines that went and those that came."""
    before, after = (
        text.split("\n") for text in (card, edit_card(card, CardChanges(**what)))
    )
    gone = [line for line in before if line not in after]
    return gone, [line for line in after if line not in before]


def test_languages_and_a_licence_are_filled_in():
    gone, came = changed(languages=("en", "pt-BR"), license="CC-BY-4.0")

    assert gone == ['license: "unknown"']
    assert came == ["language:", '- "en"', '- "pt-BR"', 'license: "cc-by-4.0"']


def test_other_languages_take_the_place_of_those_there():
    card = edit_card(CARD, CardChanges(languages=("en", "de")))
    again = edit_card(card, CardChanges(languages=("fr", "fr")))

    assert '"en"' not in again
    assert again.count('- "fr"\n') == 1
    assert '- "bleu"' in again


def test_a_title_stands_where_the_name_stood():
    """Whatever signs are in it: neither YAML nor a pattern may read them."""
    title = r'Captions: "best" \1 of 3'
    gone, came = changed(title=title)

    assert gone == ['- name: "en-de"', "# en-de"]
    assert came == [r'- name: "Captions: \"best\" \\1 of 3"', f"# {title}"]


def test_notes_come_last_and_can_be_changed_and_taken_away():
    card = edit_card(CARD, CardChanges(notes="Made for captions.\n"))
    assert card.endswith("It may be wrong.\n\n## Notes\n\nMade for captions.\n")

    other = edit_card(card, CardChanges(notes="Another.\n\n## Notes\n\nwithin"))
    assert other.endswith("## Notes\n\nAnother.\n\n## Notes\n\nwithin\n")
    assert "captions" not in other

    assert edit_card(other, CardChanges(notes=" \n")).rstrip() == CARD.rstrip()


def test_what_is_not_asked_for_stays_as_it_is():
    assert edit_card(CARD, CardChanges()) == CARD


def test_a_card_without_a_head_gets_one():
    card = edit_card("# old\n", CardChanges(license="mit"))

    assert card.startswith('---\nlicense: "mit"\nlibrary_name: headwise\n')
    assert card.endswith("---\n# old\n")


def test_what_a_card_does_not_say_is_known_and_how_to_say_it(tmp_path):
    assert missing_fields(CARD, "translation") == ["license", "languages"]
    assert missing_fields("# old\n", "translation") == ["license", "languages"]
    said = edit_card(CARD, CardChanges(languages=("en", "de")))
    assert missing_fields(said, "translation") == ["license"]
    assert (
        missing_fields(edit_card(said, CardChanges(license="mit")), "translation") == []
    )

    command = edit_command(tmp_path / "my run", ["license"], "translation")
    assert command == f"headwise edit '{tmp_path}/my run' --license cc-by-4.0"


def test_languages_are_asked_for_as_the_task_has_them(tmp_path):
    assert missing_fields(CARD, "picture_classification") == ["license"]
    command = edit_command(tmp_path, ["languages"], "classification")
    assert command.endswith(" --languages en en")
    command = edit_command(tmp_path, ["languages"], "translation")
    assert command.endswith(" --languages en de")


@pytest.mark.parametrize(
    "tag", ["en", "nds", "zh-Hant", "pt-BR", "es-419", "sr-Latn-RS", "de-CH-1996"]
)
def test_tags_of_languages_are_taken(tag):
    assert CardChanges(languages=(tag,)).languages == (tag,)


@pytest.mark.parametrize(
    "tag", ["English", "EN", "en_US", "en-", "e", "en fr", "", "pt-br"]
)
def test_what_is_no_tag_of_a_language_is_refused(tag):
    with pytest.raises(SettingsError, match="languages must be tags such as"):
        CardChanges(languages=(tag,))


@pytest.mark.parametrize("name", ["CC BY 4.0", "", "mit\n", "https://example.org/x"])
def test_what_is_no_name_of_a_licence_is_refused(name):
    with pytest.raises(SettingsError, match="license must be an SPDX identifier"):
        CardChanges(license=name)


@pytest.mark.parametrize("name", COMMON_LICENSES.split())
def test_every_licence_that_hubs_list_is_taken(name):
    assert CardChanges(license=name).license == name == name.lower()


@pytest.mark.parametrize("title", ["", "  ", "two\nlines", "x" * 201])
def test_a_title_is_one_line(title):
    with pytest.raises(SettingsError, match="title must"):
        CardChanges(title=title)
