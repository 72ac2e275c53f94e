"""``headwise forward-translate``: a teacher's translations, as pairs for a student."""

import json

import pytest

from headwise.inference import synthetic_pairs as module

SAMPLING = ("--search", "search=sampling")
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


def test_of_the_outputs_of_a_beam_the_nearest_to_a_reference_is_written(
    headwise, tiny_run, tmp_path
):
    """References are the second and third best outputs of the model, with a word more.

    The last line is the first one again, whose two references count where it stood.
    """
    beam = ("--beam", 3)
    text, reference = tmp_path / "train.en", tmp_path / "train.de"
    lines = [*SENTENCES, SENTENCES[0]]
    text.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
    found = headwise("translate", tiny_run, text, *beam, "--n-best", 3).out
    outputs = [
        [each["text"] for each in json.loads(row)["translations"]]
        for row in found.splitlines()
    ]
    wanted = [outputs[0][1], *(each[-1] for each in outputs[1:5])]
    rows = [f"{each} x" if each else "" for each in wanted]
    reference.write_text("\n".join([*rows, "12345"]) + "\n", encoding="utf-8")
    out = tmp_path / "near.tsv"
    command = ("forward-translate", tiny_run, text, *beam, "--references", reference)
    assert headwise(*command, "--out", out).code == 0

    assert pairs_of(out) == [
        pair for pair in zip(SENTENCES, wanted, strict=True) if pair[0]
    ]
    assert wanted[0] != outputs[0][0], "the best output is another"
    assert [each[:2] for each in pairs_of(tmp_path / "near.tsv.left-out.tsv")] == [
        ("line 3", "blank"),
        ("line 6", "repeated"),
    ]

    reference.write_text("one\n" * len(lines), encoding="utf-8")
    again = headwise(*command, "--out", out)
    assert again.code == 2
    assert "was started with another references" in again.error
    plain = headwise(*command[:-2], "--out", out)
    assert plain.code == 2
    assert "was started with another references" in plain.error


def test_a_line_whose_references_counted_before_a_stop_stays_repeated(
    headwise, tiny_run, tmp_path, monkeypatch
):
    """The second block fails once; the first line stands in the third block too."""
    monkeypatch.setattr(module, "BLOCK_LINES", 2)
    text, reference = tmp_path / "train.en", tmp_path / "train.de"
    lines = [*SENTENCES, SENTENCES[0]]
    text.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
    reference.write_text("three.\n" * len(lines), encoding="utf-8")
    command = ("forward-translate", tiny_run, text, "--references", reference, "--out")
    assert headwise(*command, tmp_path / "whole.tsv").code == 0
    plain, calls = module.make_pairs, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(module, "make_pairs", stopped)
    out = tmp_path / "near.tsv"
    assert headwise(*command, out).code == 130
    assert not out.exists()
    resumed = headwise(*command, out)

    assert resumed.code == 0
    assert "resuming after 2 lines" in resumed.error
    assert out.read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    left_out = pairs_of(tmp_path / "near.tsv.left-out.tsv")
    assert ("line 6", "repeated") in [each[:2] for each in left_out]


def test_references_that_do_not_suit_are_refused(headwise, tiny_run, text, tmp_path):
    short, whole = tmp_path / "short.de", tmp_path / "whole.de"
    short.write_text("eins.\n", encoding="utf-8")
    whole.write_text("eins.\n\n\nzwei.\ndrei.\n", encoding="utf-8")
    out = tmp_path / "near.tsv"
    command = ("forward-translate", tiny_run, text, "--out", out)
    for options, code, reason in (
        (("--references", short), 4, f"has 5 lines and {short} 1; line N of"),
        (
            ("--references", whole, "--references", whole),
            2,
            "1 FILE and 2 --references",
        ),
        (("--references", whole, "--beam", 1), 2, "--beam 5 would work"),
        (("--references", whole, *SAMPLING), 2, "--search samples=5 would work"),
        (("--references", tmp_path / "none.de"), 2, "does not exist"),
        (("--references", "-"), 2, "standard input cannot be read again"),
    ):
        found = headwise(*command, *options)
        assert (found.code, reason in found.error) == (code, True), found.error
        assert not out.exists()

    assert headwise(*command, "--references", whole).code == 0
    left_out = pairs_of(tmp_path / "near.tsv.left-out.tsv")
    assert [each[:2] for each in left_out] == [
        ("line 2", "no reference"),
        ("line 3", "blank"),
    ]


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
