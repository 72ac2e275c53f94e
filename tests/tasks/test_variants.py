"""Every task trains, stores and uses models of which several boxes are variants."""

import pytest
from tests.tasks.examples import INPUTS, settings_of

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.doctor.check import FAILED
from headwise.doctor.folder_checks import check_folder
from headwise.inference.load import load_predictor
from headwise.recipe import resolve
from headwise.run_folder.run import train_run
from headwise.settings import merged
from headwise.tasks import TASKS

MIXED = {
    "fractions, batch normalization": {
        "positions": "fraction",
        "max_positions": 8192,
        "norm_kind": "batch",
        "attention": "additive",
        "feed_forward": "glu",
        "num_key_value_heads": 1,
    },
    "T5, window": {
        "positions": "t5",
        "attention_window": 5,
        "attention": "cosine",
        "norm": "pre",
        "norm_kind": "rms",
        "feed_forward": "geglu",
    },
}


@pytest.mark.parametrize("model", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("task", TASKS)
def test_a_task_learns_with_variants_and_its_folder_is_intact(tmp_path, task, model):
    training = {"steps": 6, "validate_every": 3, "average_last": 1}
    table = merged(settings_of(task, tmp_path), {"model": model, "training": training})
    recipe = resolve(extra=table)
    run = tmp_path / "run"

    train_run(run, recipe, prepare_corpus(run, recipe))

    checks = list(check_folder(run))
    assert [each for each in checks if each.status == FAILED] == []
    assert any("norm_kind" in each.found for each in checks if each.what == "backend")
    outputs = list(load_predictor(run).predict(INPUTS[task]))
    assert len(outputs) == len(INPUTS[task])
