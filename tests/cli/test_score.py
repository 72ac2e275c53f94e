"""``headwise score``: log-probabilities of given translations."""

import json

import pytest

SOURCES = ["one two.", "six.", "", "three four."]
TARGETS = ["eins zwei.", "drei vier fünf.", "", "drei vier."]


@pytest.fixture
def pairs(tmp_path):
    files = []
    for name, lines in (("s", SOURCES), ("t", TARGETS)):
        files.append(tmp_path / name)
        files[-1].write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return files


def scores_of(found):
    assert found.code == 0
    return [float(line.split("\t")[0]) for line in found.out.splitlines()]


def test_each_line_has_a_score_and_the_right_one_the_better(headwise, tiny_run, pairs):
    scores = scores_of(headwise("score", tiny_run, *pairs))

    assert len(scores) == 4
    assert scores[0] > scores[1]
    assert scores[3] > scores[1]


def test_a_score_is_that_of_the_translation_found(headwise, tiny_run, pairs, tmp_path):
    found = headwise("translate", tiny_run, pairs[0], "--scores", "--engine", "torch")
    rows = [json.loads(line)["translations"][0] for line in found.out.splitlines()]
    spoken = [number for number, source in enumerate(SOURCES) if source]
    own = tmp_path / "own"
    own.write_text("".join(f"{row['text']}\n" for row in rows), "utf-8")
    scores = scores_of(headwise("score", tiny_run, pairs[0], own))

    for number in spoken:
        assert scores[number] == pytest.approx(rows[number]["score"], abs=1e-4)


def test_pairs_can_be_sorted_and_chosen(headwise, tiny_run, pairs):
    every = scores_of(headwise("score", tiny_run, *pairs))
    ranked = headwise("score", tiny_run, *pairs, "--sort")
    best = headwise("score", tiny_run, *pairs, "--keep-best", "2")
    good = headwise("score", tiny_run, *pairs, "--min-score", str(sorted(every)[1]))

    assert scores_of(ranked) == sorted(every, reverse=True)
    assert sorted(scores_of(best)) == sorted(every)[-2:]
    kept = [line.split("\t")[1:] for line in best.out.splitlines()]
    order = [[s, t] for s, t in zip(SOURCES, TARGETS, strict=True) if [s, t] in kept]
    assert kept == order
    assert len(scores_of(good)) in (2, 3)  # what is printed is rounded


def test_pairs_with_a_blank_side_come_last(headwise, tiny_run, tmp_path):
    """The best of a corpus was an empty line beside an empty line."""
    (tmp_path / "source").write_text("\none two.\n \nsix six six six.\n")
    (tmp_path / "target").write_text("\neins zwei.\nsechs.\n\n")
    texts = tmp_path / "source", tmp_path / "target"

    found = headwise("score", tiny_run, *texts, "--sort").out.splitlines()
    best = headwise("score", tiny_run, *texts, "--keep-best", "1").out

    assert len(found) == 4
    assert found[0].split("\t")[1:] == ["one two.", "eins zwei."]
    assert best == f"{found[0]}\n"


def test_json_has_the_log_probability_of_each_token(headwise, tiny_run, pairs):
    found = headwise("score", tiny_run, *pairs, "--json")
    rows = [json.loads(line) for line in found.out.splitlines()]

    assert [row["source"] for row in rows] == SOURCES
    for row in rows:
        total = sum(log_p for _, log_p in row["tokens"])
        assert total == pytest.approx(row["log_probability"], abs=1e-5)
        assert row["tokens"][-1][0] == "</s>"


def test_the_penalty_can_be_another(headwise, tiny_run, pairs):
    mean = scores_of(headwise("score", tiny_run, *pairs))
    total = scores_of(
        headwise("score", tiny_run, *pairs, "--search", "length_penalty=none")
    )

    assert total[0] < mean[0]


def test_bytes_that_are_no_text_have_a_score_too(headwise, tiny_run, tmp_path):
    for name in ("s", "t"):
        (tmp_path / name).write_bytes(b"\xff\xc3\n\x00\n\n\tone\n")
    found = headwise("score", tiny_run, tmp_path / "s", tmp_path / "t")

    assert len(scores_of(found)) == 4


def test_files_of_different_lengths_are_refused(headwise, tiny_run, pairs, tmp_path):
    short = tmp_path / "short"
    short.write_text("eins.\n")
    found = headwise("score", tiny_run, pairs[0], short)

    assert found.code == 4
    assert "short ends after 1 line and" in found.error


def test_two_ways_to_choose_are_one_too_many(headwise, tiny_run, pairs):
    chosen = ("--keep-best", "1", "--min-score", "0")
    found = headwise("score", tiny_run, *pairs, *chosen)

    assert found.code == 2
    assert "exclude each other" in found.error


@pytest.mark.parametrize("score", ["nan", "inf", "-1e400"])
def test_a_least_score_is_a_finite_number(headwise, tiny_run, pairs, score):
    found = headwise("score", tiny_run, *pairs, f"--min-score={score}")

    assert found.code == 2
    assert "--min-score must be a number, such as -0.5" in found.error


def test_the_same_file_named_twice_is_said(headwise, tiny_run, pairs):
    twice = headwise("score", tiny_run, pairs[0], pairs[0])

    assert twice.error.count("in 3 of 3 pairs; was the same file named twice?") == 1
    assert headwise("score", tiny_run, *pairs).error == ""


@pytest.mark.parametrize("content", [b"one.\rsix.\r", "one.\n".encode("utf-16-le")])
def test_text_of_other_systems_is_refused(headwise, tiny_run, pairs, tmp_path, content):
    (tmp_path / "odd").write_bytes(content)
    found = headwise("score", tiny_run, tmp_path / "odd", pairs[1])

    assert (found.code, found.out) == (4, "")
    assert str(tmp_path / "odd") in found.error
