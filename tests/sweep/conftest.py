"""Ledgers of sweeps that were never run."""

import json

import pytest

from headwise.sweep.ledger import OUTPUTS, Ledger, Plan


def make_plan(**changes):
    """Return the plan of two learning rates and two seeds, with ``changes``."""
    facts = {
        "recipe": {"task": "translation", "training": {"measure": "bleu"}},
        "varied": [{"path": "training.learning_rate", "values": [0.1, 0.2]}],
        "search": "grid",
        "seeds": [1, 2],
        "trials": None,
        "device": "cpu",
        "threads": 1,
    }
    return Plan(**{**facts, **changes})


@pytest.fixture
def make_ledger(tmp_path):
    """Return a function that makes a ledger of finished trials.

    It takes value -> its validation values, one for each seed; None: still waiting.
    """

    def make(values, measure="bleu", path="training.learning_rate"):
        seeds = [*range(1, 1 + max(map(len, values.values())))]
        plan = make_plan(
            recipe={"training": {"measure": measure}},
            varied=[{"path": path, "values": [*values]}],
            seeds=seeds,
        )
        ledger = Ledger(tmp_path, plan)
        for place, seed in enumerate(seeds):
            for setting, row in values.items():
                trial = ledger.add({path: setting}, seed)
                trial.value = row[place]
                trial.validation_text = "same"
                if trial.value is not None:
                    trial.state = "finished"
                    trial.updates, trial.tokens, trial.minutes = 10 * seed, 1000, 0.5
        return ledger

    return make


def write_outputs(folder, outputs, references):
    """Write the outputs of a trial for its validation text."""
    folder.mkdir(parents=True)
    lines = [
        json.dumps({"source": "", "reference": reference, "output": output})
        for output, reference in zip(outputs, references, strict=True)
    ]
    (folder / OUTPUTS).write_text("\n".join(lines) + "\n", encoding="utf-8")
