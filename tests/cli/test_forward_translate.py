"""``headwise forward-translate``: a teacher's translations, as pairs for a student."""

import json

import pytest

SENTENCES = ["six three one.", "two.", "", "four five six one.", "three three."]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "train.en"
    path.write_text("".join(f"{each}\n" for each in SENTENCES), encoding="utf-8")
    return path


def pairs_of(path):
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [tuple(line.split("\t")) for line in lines]


def test_pairs_have_the_real_side_first_and_the_search_of_the_model(
    headwise, tiny_run, text, tmp_path
):
    out = tmp_path / "distilled.tsv"
    outcome = headwise("forward-translate", tiny_run, text, "--out", out)

    assert outcome.code == 0
    assert outcome.out == ""
    assert "5 lines read, 4 pairs in" in outcome.error
    assert "1 blank: the line is blank" in outcome.error
    translated = headwise("translate", tiny_run, text).out.split("\n")
    assert pairs_of(out) == [
        (line, output)
        for line, output in zip(SENTENCES, translated, strict=False)
        if line
    ]
    left_out = pairs_of(tmp_path / "distilled.tsv.left-out.tsv")
    assert left_out == [("line 3", "blank", "", "")]


def test_several_teachers_are_an_ensemble(headwise, tiny_run, text, tmp_path):
    both = ("--ensemble", tiny_run, "--beam", 2)
    out = tmp_path / "distilled.tsv"
    assert headwise("forward-translate", tiny_run, text, *both, "--out", out).code == 0

    translated = headwise("translate", tiny_run, text, *both).out.split("\n")
    assert [target for _, target in pairs_of(out)] == [x for x in translated if x]
    progress = json.loads((tmp_path / "distilled.tsv.progress.json").read_text())
    assert len(progress["identity"]["model"]) == 2


def test_a_tag_stands_before_the_real_source(headwise, tiny_run, text, tmp_path):
    out = tmp_path / "distilled.tsv"
    command = ("forward-translate", tiny_run, text, "--tag", "<KD>", "--out", out)
    assert headwise(*command).code == 0

    assert [source for source, _ in pairs_of(out)] == [
        f"<KD> {each}" for each in SENTENCES if each
    ]


def test_the_same_command_finds_its_pairs_and_the_other_direction_refuses_them(
    headwise, tiny_run, text, tmp_path
):
    out = tmp_path / "distilled.tsv"
    options = (tiny_run, text, "--beam", 2, "--out", out)
    assert headwise("forward-translate", *options).code == 0
    before = out.read_bytes()

    again = headwise("forward-translate", *options)
    other = headwise("back-translate", *options)

    assert again.code == 0
    assert "is complete already" in again.error
    assert other.code == 2
    assert "was started with another text" in other.error
    assert out.read_bytes() == before


def test_an_empty_text_is_an_error(headwise, tiny_run, tmp_path):
    path = tmp_path / "train.en"
    path.write_text("")
    outcome = headwise("forward-translate", tiny_run, path, "--out", tmp_path / "x.tsv")
    assert outcome.code == 4
    assert "give text of the source language" in outcome.error
