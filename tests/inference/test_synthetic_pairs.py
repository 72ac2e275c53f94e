"""Each line gives one pair, or a reason why it gives none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from headwise.inference import synthetic_pairs as module
from headwise.inference.synthetic_pairs import (
    REASONS,
    blocks_of,
    make_pairs,
    nearest,
)
from headwise.inference.translator import Candidate, load

BEAM = {"beam": 2}


@pytest.fixture(scope="module")
def translator(tiny_run):
    return load(tiny_run, engine="torch")


def test_pairs_are_in_the_order_of_the_lines(translator):
    lines = ["one two.", "three.", "six six four."]
    found = make_pairs(translator, lines, BEAM)

    assert [each.line for each in found] == lines
    assert [each.output for each in found] == translator.translate(lines, **BEAM)
    assert not any(each.reason for each in found)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "blank"),
        (" \t\u3000", "blank"),
        ("one \ufffd.", "not UTF-8"),
        ("one.\rtwo.", "carriage return"),
        ("one two " * 40, "too long"),
    ],
)
def test_lines_that_are_not_translated(translator, line, reason):
    found = make_pairs(translator, ["one.", line, "two."], BEAM)
    assert [each.reason for each in found] == ["", reason, ""]
    assert found[1].output == ""
    assert found[1].line == line


@pytest.mark.parametrize(("fewer", "reason"), [(0, ""), (1, "too long")])
def test_a_line_of_the_longest_length_is_translated(
    translator, monkeypatch, fewer, reason
):
    line, opened = "one two three.", translator.opened
    (tokens,) = opened.texts.encode([line])
    facts = replace(opened.facts, longest_source=len(tokens) - fewer)
    monkeypatch.setattr(translator, "opened", replace(opened, facts=facts))

    (found,) = make_pairs(translator, [line], BEAM)

    assert found.reason == reason


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        ({"max_length_factor": 0.0, "max_length_offset": 1}, "unfinished"),
        ({"warnings": {"longer_than": 0.1, "length_from": 1}}, "long"),
        (
            {
                "warnings": {"loop_repeats": 2, "loop_tokens": 2},
                "min_length_factor": 4.0,
                "max_length_factor": 5.0,
            },
            "loop",
        ),
    ],
)
def test_outputs_that_would_teach_wrong_things(translator, search, reason):
    (found,) = make_pairs(translator, ["six six six."], {**BEAM, **search})
    assert found.reason == reason
    assert found.output, "for the list of what was left out"


def test_empty_and_copied_outputs_are_left_out(translator, monkeypatch):
    plain = type(translator).lines

    def lines(self, texts, **search):
        outputs = iter(["", "one two three four"])
        for each in plain(self, texts, **search):
            text = next(outputs)
            warnings = ("4 of 4 words were copied from the source",) if text else ()
            (best, *_) = each.candidates
            yield replace(
                each, candidates=(replace(best, text=text),), warnings=warnings
            )

    monkeypatch.setattr(type(translator), "lines", lines)
    found = make_pairs(translator, ["one.", "one two three four"], BEAM)
    assert [each.reason for each in found] == ["empty", "copied"]


def test_samples_depend_on_seed_and_line_only(translator):
    lines = [f"one two {word}." for word in ("one", "two", "three", "four")] * 4
    search = {"search": "sampling", "temperature": 3.0}

    def sources(seed, lines):
        found = make_pairs(translator, lines, {**search, "seed": seed})
        return {each.line: each.output for each in found}

    assert sources(1, lines) == sources(1, lines)
    assert sources(1, lines[:3]).items() <= sources(1, lines).items()
    assert sources(1, lines) != sources(2, lines)


@given(st.lists(st.text(max_size=8), max_size=30), st.integers(0, 30))
def test_blocks_are_the_lines_and_can_be_entered_at_any_end(lines, number):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "BLOCK_LINES", 4)
        patched.setattr(module, "BLOCK_CHARACTERS", 10)
        blocks = [*blocks_of(lines)]
        assert [line for block in blocks for line in block] == lines
        done = sum(map(len, blocks[:number]))
        assert [*blocks_of(lines[done:])] == blocks[number:]
    assert all(len(block) <= 4 for block in blocks)


def test_every_reason_is_a_kind_of_line_or_output():
    from headwise.decoding.warnings import WARNING_KINDS

    of_lines = {"blank", "not UTF-8", "carriage return", "too long"}
    of_lines |= {"no reference", "repeated"}
    assert set(REASONS) - of_lines - {"empty"} <= set(WARNING_KINDS)


def test_the_nearest_candidate_is_the_first_of_those_with_the_highest_chrf():
    texts = ("ein Hund", "der Hund rennt", "der Hund rennt", "der Hund rannte")
    candidates = [Candidate(text, -float(n), 0.0) for n, text in enumerate(texts)]

    assert nearest(candidates, ["der Hund rennt."]) is candidates[1]
    assert nearest(candidates, ["ein Hund"]) is candidates[0]
    assert nearest(candidates, ["der Hund rannte los"]) is candidates[3]
    assert nearest(candidates, ["12345"]) is candidates[0]
    assert nearest(candidates, ["12345", "der Hund rannte"]) is candidates[3]
    references = ["ein Hund rennt", "die Hunde"]
    assert nearest(candidates, references).text == max(
        texts, key=lambda text: CHRF().sentence_score(text, references).score
    )


def test_warnings_about_the_best_output_do_not_count_for_another(
    translator, monkeypatch
):
    plain = type(translator).lines

    def lines(self, texts, **search):
        for each in plain(self, texts, **search):
            cut_off = (
                "the translation hit the length limit and may be cut off; a "
                "larger max_length_factor or max_length_offset allows more",
            )
            yield replace(each, warnings=cut_off)

    monkeypatch.setattr(type(translator), "lines", lines)
    search = {**BEAM, "num_best": 2}
    (line,) = translator.lines(["six six six."], **search)
    best, second = (each.text for each in line.candidates)
    assert best != second

    found = [
        make_pairs(translator, ["six six six."], search, {"six six six.": [reference]})
        for reference in (best, second)
    ]
    assert [(each.output, each.reason) for (each,) in found] == [
        (best, "unfinished"),
        (second, ""),
    ]
