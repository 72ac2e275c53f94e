"""What holds for every task: a new one is tested the day it is in TASKS."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.reports.conftest import Opened
from tests.tasks.examples import EXAMPLES, INPUTS, settings_of

from headwise.cli.batch_size import new_memory_estimator
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.consistency import Consistency
from headwise.data.batches import make_batch
from headwise.data.doubled_batch import double_batch
from headwise.doctor.check import FAILED
from headwise.doctor.folder_checks import check_folder
from headwise.errors import DataError, SettingsError
from headwise.inference.load import load, load_predictor
from headwise.recipe import resolve
from headwise.reports.history import read_history
from headwise.reports.run_page import RunPage
from headwise.run_folder.model_average import average_models
from headwise.run_folder.paths import task_of_folder
from headwise.run_folder.run import open_task, train_run
from headwise.settings import as_table, as_toml, read_toml
from headwise.tasks import (
    TASKS,
    description_table,
    find_task,
    read_description,
    task_of_format,
)


def recipe_of(name, folder, **training):
    table = settings_of(name, folder)
    table["training"] = {**table["training"], **training}
    return resolve(extra=table)


def weights_of(run):
    model = load_predictor(run).opened.model
    return dict(model.state_dict())


@pytest.fixture(scope="module", params=TASKS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def trained(name, tmp_path_factory):
    """Return the folder of a finished run, its recipe and its last state."""
    folder = tmp_path_factory.mktemp(name)
    recipe = recipe_of(name, folder)
    run = folder / "run"
    page = RunPage(run, say=pytest.fail)
    state = train_run(run, recipe, prepare_corpus(run, recipe), callbacks=[page])
    return run, recipe, state


def test_every_task_has_an_example():
    assert EXAMPLES.keys() == INPUTS.keys() == TASKS.keys()


def test_an_unknown_task_is_refused():
    with pytest.raises(SettingsError, match="task must be one of translation, "):
        find_task("translating")


def test_the_formats_of_pairs_lead_to_a_task(name):
    assert TASKS[task_of_format(TASKS[name].pair_format.name)].pair_format is (
        TASKS[name].pair_format
    )


def test_it_learns(trained):
    """Guessing costs the logarithm of the vocabulary, or more, or a variance of 1."""
    _, recipe, state = trained
    assert state.best_loss < 0.5 * math.log(6), recipe.task
    if recipe.task == "regression":
        assert state.best_value < 50  # of a standard deviation of 112


def test_the_recipe_is_read_back(trained, tmp_path):
    _, recipe, _ = trained
    path = tmp_path / "recipe.toml"
    path.write_text(as_toml(recipe), encoding="utf-8")

    assert resolve(file=path) == recipe
    assert read_toml(path).get("task") == recipe.task


def test_a_description_is_read_back(name, trained):
    run, _, _ = trained
    described = load_predictor(run).opened.description

    assert read_description(description_table(described)) == described
    sizes = described.source_vocab_size, described.target_vocab_size
    shapes = {key: tuple(each.shape) for key, each in weights_of(run).items()}
    assert TASKS[name].vocab_sizes(shapes) == sizes


def test_lines_in_are_lines_out_and_blank_ones_stay_blank(name, trained):
    run, _, _ = trained
    outputs = [each.output for each in load_predictor(run).lines(INPUTS[name])]

    assert len(outputs) == len(INPUTS[name])
    assert [bool(each) for each in outputs] == [bool(each) for each in INPUTS[name]]
    assert not any("\n" in each for each in outputs)


def test_a_batch_does_not_change_an_output(name, trained):
    run, _, _ = trained
    predictor = load_predictor(run)
    together = predictor.predictions(INPUTS[name] * 3)
    alone = [predictor.predictions([each])[0] for each in INPUTS[name]] * 3

    for one, other in zip(together, alone, strict=True):
        if name == "regression" and other.output:  # its last digit may be rounded
            assert float(one.output) == pytest.approx(float(other.output), rel=1e-5)
        else:
            assert one.output == other.output
        expected = other.log_probability
        if expected is not None:
            expected = pytest.approx(expected, abs=1e-4)
        assert one.log_probability == expected


def test_averaged_with_itself_it_gives_the_same_outputs(name, trained, tmp_path):
    run, _, _ = trained
    average_models([run, run], tmp_path / "mean")
    averaged, model = load_predictor(tmp_path / "mean"), load_predictor(run)

    assert averaged.predictions(INPUTS[name]) == model.predictions(INPUTS[name])
    assert averaged.opened.golden == model.opened.golden


def test_deterministic_predictions_are_the_same_bits(name, trained):
    run, _, _ = trained
    predictor = load_predictor(run, deterministic=True)
    once = predictor.predictions(INPUTS[name])

    assert predictor.predictions(INPUTS[name][::-1])[::-1] == once


def test_the_model_folder_names_its_task(name, trained):
    run, _, _ = trained

    assert task_of_folder(run / "best") == name
    assert type(load(run)).__name__ == (
        "Translator" if name == "translation" else "Predictor"
    )


def test_the_doctor_finds_nothing_wrong(trained):
    run, _, _ = trained
    failed = [each for each in check_folder(run) if each.status == FAILED]

    assert failed == []


def test_the_golden_outputs_are_there_and_come_out_again(trained):
    run, _, _ = trained
    predictor = load_predictor(run)
    golden = predictor.opened.golden

    assert golden
    now = predictor.predictions_of_sources([each.source for each in golden])
    assert [each.output for each in now] == [each.output for each in golden]


def test_the_card_says_how_the_model_is_used(name, trained):
    run, _, _ = trained
    card = (run / "best" / "README.md").read_text(encoding="utf-8")

    assert TASKS[name].hub_task in card
    assert "headwise " in card


def test_the_report_shows_every_score_and_sample(trained):
    run, _, state = trained
    page = Opened((run / "report.html").read_text(encoding="utf-8"))
    best = read_history(run / "log.jsonl").best
    shown = " ".join(" ".join(page.said()).split())

    assert f"{state.step:,}" in shown
    assert all(each.name in shown for each in best.scores.values())
    assert best.samples
    for sample in best.samples:
        assert " ".join(sample.reference.split()) in shown
        assert all(word in shown for word in sample.output.split())


def test_a_resumed_run_is_the_run_that_was_never_interrupted(name, trained, tmp_path):
    run, _, _ = trained
    again = tmp_path / "run"
    recipe = recipe_of(name, tmp_path)
    corpus = prepare_corpus(again, recipe)
    train_run(again, recipe, corpus, until=20)
    train_run(again, recipe, corpus)

    last = f"step-{recipe.training.steps:08}"
    ours, theirs = (
        load_file(each / "checkpoints" / last / "model.safetensors")
        for each in (again, run)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_processes_that_share_a_batch_learn_the_same(name, tmp_path):
    losses = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        recipe = recipe_of(
            name,
            folder,
            precision="float32",
            processes=processes,
            steps=5,
            validate_every=5,
            average_last=1,
        )
        run = folder / "run"
        losses.append(train_run(run, recipe, prepare_corpus(run, recipe)).best_loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_activation_checkpointing_changes_no_gradient(name, tmp_path):
    losses = []
    for checkpoints in (False, True):
        folder = tmp_path / str(checkpoints)
        folder.mkdir()
        recipe = recipe_of(
            name,
            folder,
            backend="torch",
            activation_checkpointing=checkpoints,
            steps=4,
            validate_every=4,
            average_last=1,
        )
        run = folder / "run"
        losses.append(train_run(run, recipe, prepare_corpus(run, recipe)).best_loss)
    assert losses[0] == losses[1]


def test_a_corpus_of_another_task_is_refused(name, trained):
    run, recipe, _ = trained
    corpus = prepare_corpus(run, recipe)
    for other, task in TASKS.items():
        if task.pair_format is TASKS[name].pair_format:
            continue
        table = {**as_table(resolve(extra={"task": other})), "task": other}
        with pytest.raises(DataError, match="prepare the files again"):
            open_task(resolve(extra=table), corpus)


def test_every_measure_of_the_task_can_be_computed(name, trained):
    run, recipe, _ = trained
    task = open_task(recipe, prepare_corpus(run, recipe))
    golden = [each.output for each in load_predictor(run).opened.golden]
    for measure in TASKS[name].measures:
        assert math.isfinite(task.measure(measure, golden, golden).value)


def test_a_dry_run_estimates_memory(name, tmp_path):
    """It makes the outputs of a validation, and measures them."""
    recipe = recipe_of(name, tmp_path)
    corpus = prepare_corpus(tmp_path / "run", recipe)

    estimator = new_memory_estimator(recipe, corpus, "cpu")

    assert estimator.estimate(recipe.training.batch_tokens).peak > 2**20


def test_measures_of_other_tasks_are_refused(name, tmp_path):
    own = {"loss", *TASKS[name].measures}
    foreign = {m for task in TASKS.values() for m in task.measures} - own
    for each in foreign:
        with pytest.raises(SettingsError, match=r"training\.measure must be one of"):
            recipe_of(name, tmp_path, measure=each)


def test_it_is_an_error_to_set_the_options_of_another_task(name):
    for other, task in TASKS.items():
        if task.options is None or other == name:
            continue
        with pytest.raises(SettingsError, match="settings of another task"):
            resolve(extra={"task": name, other: as_table(task.options())})


@pytest.mark.parametrize("form", [{"r_drop": 1.0}, {"simcut": 1.0}], ids=str)
def test_two_passes_are_made_or_refused(name, form, tmp_path):
    """A task whose outputs are distributions has them; a refusal says which have."""
    reads_pictures = TASKS[name].pair_format.reads_pictures
    training = {**form, "steps": 2, "validate_every": 2}
    table = settings_of(name, tmp_path)
    table["training"] = {**table["training"], **training}
    table["model"] = {**table["model"], "dropout": 0.1}
    if not TASKS[name].has_two_pass_loss or ("simcut" in form and reads_pictures):
        with pytest.raises(SettingsError, match=r"leave it out|reads pictures"):
            resolve(extra=table)
        assert reads_pictures or TASKS[name].two_pass_loss() is None
        return
    recipe = resolve(extra=table)
    train_run(tmp_path / "run", recipe, prepare_corpus(tmp_path / "run", recipe))

    entries = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    updates = [each for each in entries if each["what"] == "update"]
    assert len(updates) == 2
    assert all(0 < each["kl_divergence"] < each["loss"] for each in updates)


def test_identical_passes_have_the_loss_of_one(name, trained):
    """Without dropout R-Drop is training on a single pass: loss and gradients."""
    run, recipe, _ = trained
    if not TASKS[name].has_two_pass_loss:
        pytest.skip("the task has a single pass")
    corpus = prepare_corpus(run, recipe)
    task = open_task(recipe, corpus)
    model = load_predictor(run).opened.model.eval()
    batch = make_batch(corpus.train, corpus.train.indices(np.arange(5)))
    batch = task.training_batch(batch, np.random.PCG64(1))
    form = Consistency.r_drop(5.0)

    def gradients(loss):
        model.zero_grad()
        loss.backward()
        return [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    single = task.loss(model, batch, smoothing=0.1)
    expected = gradients(single)
    twice = task.two_pass_loss(
        model, double_batch(batch), smoothing=0.1, consistency=form
    )
    found = gradients(twice.total)

    assert abs(twice.kl_divergence.item()) < 1e-6
    assert twice.total.item() == pytest.approx(single.item(), rel=1e-5)
    largest = max(each.abs().max() for each in expected if each is not None)
    for one, other in zip(found, expected, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5 * largest)
