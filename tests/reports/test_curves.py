"""Which curves a run has."""

import pytest
from tests.reports.conftest import Opened, a_run, history_of, start, update, validation

from headwise.reports import history as history_module
from headwise.reports.curves import gradient_norm, loss, plots, scores, throughput
from headwise.reports.plot import figure
from headwise.tasks import TASKS

TRANSLATION = TASKS["translation"]


def by_name(plot):
    return {each.name: each for each in plot.series}


def test_a_run_has_its_five_figures(finished):
    assert [plot.title for plot in plots(finished)] == [
        *("Loss", "BLEU", "Learning rate", "Gradient norm", "Throughput")
    ]
    assert all(figure(plot) for plot in plots(finished))


def test_a_run_that_has_just_begun_has_none_and_that_is_no_error():
    assert [figure(plot) for plot in plots(history_of([start()]))] == ["", "", "", ""]


def test_the_loss_is_shown_of_training_and_of_held_out_text(finished):
    series = by_name(loss(finished, TRANSLATION))

    assert series["training"].points[:2] == [(1.0, 10.0), (2.0, 5.5)]
    assert series["validation"].points == [
        (10, 0.4),
        (20, 0.2),
        (30, 4 / 30),
        (40, 0.1),
    ]
    assert loss(finished, TRANSLATION).log  # from 10 down to 0.1


def test_a_mean_of_checkpoints_is_a_point_of_its_own():
    entries = [
        *a_run(),
        validation(40, loss=0.05, name="mean of the last 2 checkpoints"),
    ]
    series = by_name(loss(history_of(entries), TRANSLATION))

    assert series["averaged checkpoints"].points == [(40.0, 0.05)]
    assert len(series["validation"].points) == 4


def test_a_score_comes_with_its_interval_and_how_it_was_computed(finished):
    (plot,) = scores(finished, TRANSLATION)
    held_out = by_name(plot)["validation"]

    assert held_out.points[0] == (10.0, 10.0)
    assert held_out.spans[0] == (10.0, 8.75, 11.25)
    assert held_out.spans_are == "bars"
    assert "Higher is better" in plot.about
    assert "nrefs:1|tok:13a" in plot.about
    assert "95% confidence" in plot.about


def test_a_score_without_an_interval_does_not_speak_of_one():
    entry = validation(10)
    entry["scores"]["bleu"]["interval"] = None
    (plot,) = scores(history_of([entry]), TRANSLATION)

    assert "confidence" not in plot.about
    assert by_name(plot)["validation"].spans == []


def test_each_measure_has_a_figure():
    entry = validation(10)
    rate = {**entry["scores"]["bleu"], "name": "WER", "higher_is_better": False}
    entry["scores"]["word-error-rate"] = rate
    found = scores(history_of([validation(5), entry]), TRANSLATION)

    assert [plot.title for plot in found] == ["BLEU", "WER"]
    assert by_name(found[1])["validation"].points == [(10.0, 20.0)]
    assert "Lower is better" in found[1].about


def test_throughput_is_tokens_over_seconds():
    history = history_of([start(), update(1, tokens=300, seconds=1.5)])

    assert by_name(throughput(history))["tokens per second"].points == [(1.0, 200.0)]


def test_single_jumps_are_seen_where_updates_are_taken_together(monkeypatch):
    monkeypatch.setattr(history_module, "MAX_BUCKETS", 4)
    entries = [update(step, gradient_norm=0.5) for step in range(1, 17)]
    entries[5]["gradient_norm"] = 80.0
    (series,) = gradient_norm(history_of(entries)).series

    assert max(high for _, _, high in series.spans) == 80.0
    assert max(value for _, value in series.points) == pytest.approx((80 + 3 * 0.5) / 4)


def test_the_interval_of_a_share_ends_where_the_share_does():
    """BLEU 99.5 ± 1.25 has no part above 100, neither drawn nor as an axis."""
    (plot,) = scores(
        history_of([validation(10, bleu=99.5), validation(20, bleu=0.5)]), TRANSLATION
    )
    (held_out, _) = plot.series

    assert held_out.spans == [(10.0, 98.25, 100.0), (20.0, 0.0, 1.75)]
    assert plot.within == (0.0, 100.0)
    assert axis_of(plot)[-1] == "100"


def test_an_error_rate_may_lie_above_100():
    entry = validation(10, bleu=130.0)
    entry["scores"]["bleu"]["higher_is_better"] = False
    (plot,) = scores(history_of([entry]), TRANSLATION)

    assert plot.series[0].spans == [(10.0, 128.75, 131.25)]


def test_the_figures_of_a_task_say_what_its_loss_is_and_whether_it_searches():
    entries = [{**start(), "label_smoothing": 0.0}, update(1), validation(1)]
    found = {
        each.title: each.about for each in plots(history_of(entries), "regression")
    }

    assert found["Loss"].startswith("Half of the mean squared error of standardised")
    assert "search" not in found["BLEU"]


def test_a_correlation_may_be_negative():
    entry = validation(10)
    pearson = {"name": "Pearson correlation", "value": -12.0, "interval": None}
    entry["scores"] = {"pearson": {**entry["scores"]["bleu"], **pearson}}
    later = validation(20)
    later["scores"] = {
        "pearson": {**entry["scores"]["pearson"], "value": -30.0, "interval": None}
    }

    (plot,) = scores(history_of([entry, later]), TRANSLATION)

    assert axis_of(plot) == ["-30", "-25", "-20", "-15"]


def test_a_single_validation_stands_on_the_axes_of_the_run():
    """From 0 to what was reached, by steps and by the score, not around a point."""
    (plot,) = scores(history_of([start(), validation(10), update(25)]), TRANSLATION)

    assert plot.last == 25
    assert axis_of(plot) == ["0", "5", "10", "15", "20"]
    assert [each["x"] for each in Opened(figure(plot)).data] == [[0.0, 25.0]]


def axis_of(plot):
    """Return the numbers beside the drawing, from below."""
    page = Opened(figure(plot))
    numbers = [text for tag, text in page.words if tag == "text"]
    return numbers[: numbers.index("step")]


def test_all_figures_of_a_run_have_the_same_steps(finished):
    assert {plot.last for plot in plots(finished)} == {40}


@pytest.mark.parametrize(
    ("said", "name", "about"),
    [
        ({"label_smoothing": 0.1}, "training, label smoothing 0.1", "without both"),
        ({"label_smoothing": 0.0}, "training", "Training with dropout"),
        ({}, "training", "label smoothing"),
    ],
)
def test_the_figure_says_which_loss_is_with_smoothed_labels(said, name, about):
    """Validation is not. Of 8,000 words smoothed by 0.1, no model gets below 1.22."""
    plot = loss(
        history_of([{**start(), **said}, update(1), validation(1)]), TRANSLATION
    )

    assert plot.series[0].name == name
    assert about in plot.about


def test_figures_speak_in_the_words_of_the_field(finished):
    about = {plot.title: plot.about for plot in plots(finished)}

    assert "before clipping" in about["Gradient norm"]
    assert "Learning rate of each update" in about["Learning rate"]
