"""The table: means, spread and tests, best first."""

import pytest
from tests.sweep.conftest import write_outputs

from headwise.sweep.table import as_json, as_lines, as_tsv, make_table, notes

RATE = "training.learning_rate"


def order(rows):
    return [row.settings[RATE] for row in rows]


def test_rows_have_mean_and_spread_and_the_best_is_first(make_ledger):
    """Worked by hand: 12 and 14 have mean 13 and deviation √2."""
    rows = make_table(make_ledger({0.1: [10, 12], 0.2: [12, 14], 0.3: [1, 2]}))

    assert order(rows) == [0.2, 0.1, 0.3]
    assert rows[0].mean == 13
    assert rows[0].deviation == pytest.approx(2**0.5)


def test_where_lower_is_better_the_lowest_is_first(make_ledger):
    rows = make_table(make_ledger({0.1: [2.0], 0.2: [1.5]}, measure="loss"))
    assert order(rows) == [0.2, 0.1]


def test_differences_are_paired_over_seeds(make_ledger):
    """0.1 is below 0.2 by 2 with each seed: an interval without width."""
    rows = make_table(make_ledger({0.1: [10, 12], 0.2: [12, 14]}))

    assert rows[0].is_baseline
    assert rows[0].difference is None
    found = rows[1].difference
    assert (found.mean, found.low, found.high, found.pairs) == (-2, -2, -2, 2)


def test_the_first_combination_may_be_the_baseline(make_ledger):
    rows = make_table(make_ledger({0.1: [10], 0.2: [12]}), baseline="first")

    assert [row.is_baseline for row in rows] == [False, True]
    assert rows[0].difference.mean == 2
    assert rows[0].difference.low is None  # one seed


def test_combinations_with_unfinished_trials_come_after_the_others(make_ledger):
    ledger = make_ledger({0.1: [10, 11], 0.2: [99, None], 0.3: [None, None]})
    stopped = ledger.find({RATE: 0.3}, 1)
    stopped.state, stopped.value = "stopped early", 200.0

    rows = make_table(ledger)

    assert order(rows) == [0.1, 0.2, 0.3]
    assert [row.mean for row in rows] == [10.5, 99, None]
    assert rows[1].states == "1 finished, 1 waiting"
    assert rows[1].difference.pairs == 1
    assert any("fewer seeds" in note for note in notes(ledger, rows))


def test_outputs_for_one_text_are_tested_by_the_bootstrap(make_ledger):
    references = ["the cat sat on the mat", "a dog runs home"] * 20
    ledger = make_ledger({0.1: [100.0], 0.2: [50.0]})
    for trial, outputs in zip(ledger.trials, [references, ["a cat"] * 40], strict=True):
        write_outputs(ledger.folder / trial.folder, outputs, references)

    (best, worse) = make_table(ledger)

    assert best.p_bootstrap is None
    assert worse.p_bootstrap[1] < 0.01
    assert make_table(ledger, tests=False)[1].p_bootstrap is None


def test_outputs_for_different_text_are_not_tested(make_ledger):
    ledger = make_ledger({0.1: [100.0], 0.2: [50.0]})
    for trial in ledger.trials:
        text = [f"text {trial.trial}"] * 3
        write_outputs(ledger.folder / trial.folder, text, text)

    assert make_table(ledger)[1].p_bootstrap is None


def test_values_on_different_text_are_not_compared(make_ledger):
    ledger = make_ledger({0.1: [100.0], 0.2: [50.0]})
    ledger.trials[1].validation_text = "other"

    rows = make_table(ledger)

    assert rows[1].difference is None
    assert any("different text" in note for note in notes(ledger, rows))


def test_one_seed_and_losses_of_other_tokens_are_noted(make_ledger):
    ledger = make_ledger(
        {1000: [2.0], 2000: [1.5]}, measure="loss", path="text.vocab_size"
    )
    for trial in ledger.trials:
        trial.corpus = str(trial.settings)
    rows = make_table(ledger)
    said = " ".join(notes(ledger, rows))

    assert "one seed" in said
    assert "a loss per token depends on tokenizer" in said
    assert rows[1].difference is None


def test_unequal_updates_in_the_same_time_are_noted(make_ledger):
    """The trials of the second seed make 20 updates, those of the first 10."""
    ledger = make_ledger({0.1: [10, 12], 0.2: [12, 14]})
    rows = make_table(ledger)
    assert notes(ledger, rows) == []  # without a limit of time

    ledger.plan.recipe["training"]["max_minutes"] = 1.0
    (said,) = notes(ledger, rows)
    assert "made 10 and 20 updates in the same time" in said

    for trial in ledger.trials:
        trial.updates = 11
    assert notes(ledger, rows) == []


def test_the_table_as_tab_separated_values(make_ledger):
    ledger = make_ledger({0.1: [10, 12], 0.2: [12, 14]})

    head, best, other = as_tsv(ledger, make_table(ledger)).split("\n")

    assert head.split("\t") == [
        *(RATE, "mean_bleu", "sd", "seeds", "difference", "low", "high", "pairs"),
        *("max_p_bootstrap", "updates", "tokens", "minutes", "trials"),
    ]
    assert best.split("\t") == [
        *("0.2", "13", "1.41421", "2", "", "", "", ""),
        *("", "15", "1000", "0.5", "2 finished"),
    ]
    assert other.split("\t")[4:8] == ["-2", "-2", "-2", "2"]


def test_the_table_as_json_has_every_trial(make_ledger):
    ledger = make_ledger({0.1: [10, 12], 0.2: [12, 14]})

    found = as_json(ledger, make_table(ledger))

    assert found["measure"] == "bleu"
    assert [each["mean_bleu"] for each in found["combinations"]] == [13, 11]
    assert [each["value"] for each in found["trials"]] == [10, 12, 12, 14]


def test_the_table_for_a_terminal_names_budget_and_states(make_ledger):
    head, first = as_lines((ledger := make_ledger({0.1: [10, 12]})), make_table(ledger))

    assert head.split()[:5] == ["learning_rate", "mean", "bleu", "sd", "n"]
    assert first.split() == [
        *("0.1", "11", "1.4", "2", "baseline", "–", "–"),
        *("15", "1,000", "0.50", "2", "finished"),
    ]


def test_costs_are_those_of_trials_that_were_started(make_ledger):
    (row,) = make_table(make_ledger({0.1: [10, None]}))

    assert (row.mean_of("updates"), row.mean_of("tokens")) == (10, 1000)


def test_nothing_is_known_before_the_first_trial(make_ledger):
    rows = make_table(make_ledger({0.1: [None], 0.2: [None]}))

    assert [row.mean for row in rows] == [None, None]
    assert not any(row.is_baseline for row in rows)
