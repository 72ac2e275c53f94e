"""What attention replaced: data of the lengths they claim, and times to a loss."""

import argparse
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def replaced(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import what_attention_replaced

    return what_attention_replaced


def test_the_same_sentences_are_joined_by_any_number(replaced, tmp_path):
    folder = tmp_path / "tatoeba-en-fr"
    folder.mkdir()
    lines = [f"a{number} .\tb{number} ." for number in range(8)]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n")
    arguments = argparse.Namespace(corpora=tmp_path, rehearse=False)

    by_count = {
        count: replaced.joined_pairs(arguments, "dev", count) for count in (1, 2, 4)
    }

    assert [len(pairs) for pairs in by_count.values()] == [8, 4, 2]
    texts = {" ".join(source for source, _ in pairs) for pairs in by_count.values()}
    assert texts == {" ".join(f"a{number} ." for number in range(8))}
    assert by_count[4][1] == ("a4 . a5 . a6 . a7 .", "b4 . b5 . b6 . b7 .")


def test_symbols_count_where_they_are_in_their_place(replaced):
    found = replaced.accuracy_of(["a b c", "a b", "b a"], ["a b c", "a b d", "a b"])

    assert found == {"strings": pytest.approx(100 / 3), "symbols": 100 * 5 / 8}


def test_the_time_to_a_loss_is_read_between_two_validations(replaced):
    losses = [
        {"updates": 10, "seconds": 1.0, "loss": 4.0},
        {"updates": 20, "seconds": 3.0, "loss": 2.0},
        {"updates": 30, "seconds": 5.0, "loss": 1.5},
    ]

    assert replaced.seconds_to(3.0, losses) == 2.0
    assert replaced.seconds_to(2.0, losses) == 3.0
    assert replaced.seconds_to(1.0, losses) is None
    assert replaced.seconds_to(5.0, losses) is None  # reached before the first one


def test_a_resumed_run_counts_each_update_once(replaced, tmp_path):
    events = [
        {"what": "update", "step": 1, "seconds": 1.0},
        {"what": "update", "step": 2, "seconds": 9.0},
        {"what": "update", "step": 2, "seconds": 2.0},
        {"what": "validation", "step": 2, "loss": 4.0},
        {"what": "update", "step": 3, "seconds": 1.0},
        {"what": "validation", "step": 3, "loss": 3.0},
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, events)) + "\n")

    assert replaced.validation_losses(tmp_path) == [
        {"updates": 2, "seconds": 3.0, "loss": 4.0},
        {"updates": 3, "seconds": 4.0, "loss": 3.0},
    ]


def test_every_kind_has_a_line_of_its_own(replaced, tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = []
    plot = Axes.plot

    def noted(axis, *points, **style):
        drawn.append((style["label"], style["color"], style["linestyle"]))
        return plot(axis, *points, **style)

    monkeypatch.setattr(Axes, "plot", noted)
    dev = {str(length): {"bleu": {"mean": 10.0}} for length in replaced.JOINED}
    trials = {kind: {"dev": dev} for kind in replaced.KINDS}

    replaced.draw({"translation": trials}, tmp_path / "plot.png")

    assert (tmp_path / "plot.png").is_file()
    assert [label for label, *_ in drawn] == [*replaced.KINDS]
    assert len({tuple(style) for _, *style in drawn}) == len(replaced.KINDS)
