"""The page of a sweep."""

import json
import re

from headwise.sweep.pruning import Curve
from headwise.sweep.report import sweep_report
from headwise.sweep.table import make_table


def report(ledger, *, is_running=False):
    curves = {
        each.trial: Curve(each.combination, [(10, 1.0), (20, each.value or 0.0)])
        for each in ledger.trials
    }
    return sweep_report(ledger, make_table(ledger), curves, is_running=is_running)


def test_the_page_has_the_table_all_curves_and_a_plot_of_each_setting(make_ledger):
    page = report(make_ledger({0.1: [10.0, 12.0], 0.2: [12.0, 14.0]}))

    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert len(json.loads(data)["series"]) == 4
    assert "<td>0.2</td><td>13</td><td>1.4</td>" in page
    assert page.count('<figure class="dots">') == 1
    assert 'class="state ended"' in page


def test_six_combinations_have_four_colours_and_grey(make_ledger):
    page = report(make_ledger({n: [float(n)] for n in range(1, 7)}))

    keys = re.findall(r'class="key c(\d)"><i></i>([^<]+) <b>', page)
    assert keys == [(str(n), f"learning_rate={7 - n}") for n in range(1, 5)]
    assert page.count('class="line c5"') == 3  # two curves, and the line of means


def test_the_page_fetches_nothing_and_escapes_texts(make_ledger):
    page = report(make_ledger({"<img src=x>": [1.0], "b": [2.0]}))

    assert "<img" not in page
    assert not re.search(r"(src|href)=[\"']?https?:", page)


def test_a_correlation_may_be_negative(make_ledger):
    """The axis of the curves holds values below 0, of which it once took a log."""
    ledger = make_ledger({0.1: [-12.0], 0.2: [-40.0]}, measure="pearson")
    curves = {
        each.trial: Curve(each.combination, [(10, each.value)])
        for each in ledger.trials
    }

    page = sweep_report(ledger, make_table(ledger), curves, is_running=True)

    assert "Higher is better" in page
    assert ">-20</text>" in page


def test_a_page_of_trials_that_run_reloads(make_ledger):
    page = report(make_ledger({0.1: [None], 0.2: [2.0]}), is_running=True)

    assert 'data-running="30"' in page
    assert 'class="state running"' in page


def test_what_was_stopped_says_how_much_is_left(make_ledger):
    page = report(make_ledger({0.1: [None], 0.2: [2.0]}))
    assert "stopped, 1 trial left" in page
