"""Decoding settings that an exported model has no counterpart of are named."""

from dataclasses import replace
from pathlib import Path

import pytest

from headwise.interop.unsupported_decoding import notes_on_ignored_settings
from headwise.run_folder.model_folder import open_model_folder

DEMO = Path(__file__).parents[1] / "models" / "demo"


@pytest.mark.parametrize("name", ["split_sentences", "recase"])
def test_what_is_done_to_text_before_the_search_has_a_note(name):
    opened = open_model_folder(DEMO)
    with_it = replace(opened, decoding=replace(opened.decoding, **{name: True}))
    without = replace(opened, decoding=replace(opened.decoding, **{name: False}))

    (note,) = notes_on_ignored_settings(with_it, tool="Marian")

    assert note.startswith(f"{name} is not exported")
    assert notes_on_ignored_settings(without, tool="Marian") == []
