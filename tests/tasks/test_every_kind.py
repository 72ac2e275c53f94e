"""What holds for every kind of encoder-decoder, in each task that has it."""

import math

import pytest
import torch
from safetensors.torch import load_file
from tests.tasks.examples import INPUTS, settings_of

from headwise.backends.reference import ReferenceDecoder
from headwise.backends.select_decoder import make_decoder
from headwise.backends.select_training import TRAINING_BACKENDS
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.decoding.settings import DecodingSettings
from headwise.doctor.check import FAILED
from headwise.doctor.folder_checks import check_folder
from headwise.errors import SettingsError, UsageError
from headwise.inference.load import load_predictor
from headwise.interop.exports import EXPORTS
from headwise.interop.unsupported_models import reasons_against
from headwise.model.kinds import ENCODER_DECODERS
from headwise.recipe import resolve
from headwise.run_folder.run import train_run
from headwise.settings import merged
from headwise.tasks import TASKS

KINDS = [kind for kind in ENCODER_DECODERS if kind != "transformer"]
"""What ``test_every_task.py`` does not try."""

MODELS = {kind: {"kind": kind} for kind in KINDS}
CASES = [(task, name) for task in ("translation", "parsing") for name in MODELS]
MODELS["cosine"] = {"kind": "gru", "recurrent_attention": "cosine"}
MODELS["none"] = {
    "kind": "lstm",
    "recurrent_attention": "none",
    "bidirectional": False,
}
CASES += [("translation", "cosine"), ("translation", "none")]


def recipe_of(case, folder, **training):
    task, name = case
    table = merged(settings_of(task, folder), {"model": MODELS[name]})
    return resolve(extra=merged(table, {"training": training}))


@pytest.fixture(scope="module", params=CASES, ids=" ".join)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def trained(case, tmp_path_factory):
    """Return the folder of a finished run, its recipe and its last state."""
    folder = tmp_path_factory.mktemp(case[0])
    recipe = recipe_of(case, folder)
    state = train_run(folder / "run", recipe, prepare_corpus(folder / "run", recipe))
    return folder / "run", recipe, state


def test_it_learns(trained):
    """Guessing costs the logarithm of the vocabulary, or more."""
    _, _, state = trained
    assert state.best_loss < 0.6 * math.log(6)


def test_the_model_that_is_loaded_is_the_one_that_was_trained(trained):
    run, _, _ = trained
    predictor = load_predictor(run)
    golden = predictor.opened.golden

    assert golden
    assert [
        (each.output, pytest.approx(each.log_probability, abs=1e-5))
        for each in predictor.predictions_of_sources([each.source for each in golden])
    ] == [(each.output, each.log_probability) for each in golden]


def test_the_doctor_finds_nothing_wrong(trained):
    run, _, _ = trained
    assert [each for each in check_folder(run) if each.status == FAILED] == []


def test_the_card_names_the_kind(case, trained):
    run, _, _ = trained
    kind = MODELS[case[1]]["kind"]
    assert f"layers ({kind}), d_model 16" in (run / "best/README.md").read_text()


FOUND_BY = {
    "greedy": {"beam": 1},
    "beam": {"beam": 3},
    "diverse": {"search": "diverse-beam", "beam": 4},
    "sampling": {"search": "sampling"},
    "with a coverage penalty": {"beam": 3, "coverage": 0.2},
}


@pytest.mark.parametrize("settings", FOUND_BY.values(), ids=FOUND_BY)
def test_every_search_finds_an_output_that_a_batch_does_not_change(
    case, trained, settings
):
    """In parsing, a tree over the words: the rule on logits sees to it."""
    run, recipe, _ = trained
    opened, inputs = load_predictor(run).opened, INPUTS[case[0]]
    decoding = DecodingSettings(**settings, max_length_offset=100)
    if decoding.coverage and recipe.model.recurrent_attention == "none":
        with pytest.raises(UsageError, match="no attention to the source"):
            opened.any_task.predictions(opened.model, inputs, decoding)
        return

    def outputs(texts):
        found = opened.any_task.predictions(opened.model, texts, decoding)
        return [each.output for each in found]

    together = outputs(inputs)

    assert [bool(each) for each in together] == [bool(each) for each in inputs]
    if decoding.search != "sampling":
        assert together == [outputs([each])[0] for each in inputs]


def test_decoding_again_from_the_whole_prefix_gives_the_same(trained):
    run, _, _ = trained
    opened = load_predictor(run).opened
    sources = opened.any_task.encode(["one two", "three"])
    found = [
        opened.any_task.generator(opened.model, cached=cached).search(
            sources, DecodingSettings(search="beam", beam=2)
        )
        for cached in (True, False)
    ]
    tokens = [[[each.tokens for each in one] for one in search] for search in found]
    assert tokens[0] == tokens[1]


def test_its_attention_aligns(trained):
    run, recipe, _ = trained
    opened = load_predictor(run).opened
    task, model = opened.any_task, opened.model
    sources = task.encode(["one two"])
    layers, heads = recipe.model.cross_attention_shape
    if not layers:
        assert task.attention(model, "one two", "one two") is None
        with pytest.raises(UsageError, match="no attention to the source"):
            task.search(model, sources, DecodingSettings(alignments=True))
        return
    ((best, *_),) = task.search(model, sources, DecodingSettings(alignments=True))
    pairs = [(sources[0], best.tokens)]

    attention = task.scorer(model).cross_attention(sources, [best.tokens])

    assert len(best.alignment) == len(best.tokens)
    sizes = len(best.tokens) + 1, len(sources[0]) + 1
    assert heads == 1
    assert attention.shape == (1, layers, heads, *sizes)
    torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:-1]))
    assert set(task.scorer(model).best_head(pairs)[1]) == {
        *(f"{layer}:0{later}" for layer in range(layers) for later in ("", "+1")),
        "average",
    }


def test_a_text_has_a_vector_that_a_batch_does_not_change(trained):
    run, _, _ = trained
    opened = load_predictor(run).opened
    task, model = opened.any_task, opened.model
    together = task.vectors(model, ["one two three", "", "six"])

    assert together[1] is None
    for text, found in (("one two three", together[0]), ("six", together[2])):
        torch.testing.assert_close(task.vectors(model, [text])[0], found)


def test_a_resumed_run_is_the_run_that_was_never_interrupted(case, trained, tmp_path):
    run, _, _ = trained
    again = tmp_path / "run"
    recipe = recipe_of(case, tmp_path)
    corpus = prepare_corpus(again, recipe)
    train_run(again, recipe, corpus, until=20)
    train_run(again, recipe, corpus)

    last = f"checkpoints/step-{recipe.training.steps:08}/model.safetensors"
    ours, theirs = load_file(again / last), load_file(run / last)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_processes_that_share_a_batch_learn_the_same(case, tmp_path):
    losses = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        few = {"steps": 5, "validate_every": 5, "average_last": 1}
        recipe = recipe_of(
            case, folder, precision="float32", processes=processes, **few
        )
        corpus = prepare_corpus(folder / "run", recipe)
        losses.append(train_run(folder / "run", recipe, corpus).best_loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_pytorch_decodes_by_the_models_own_steps(trained):
    run, _, _ = trained
    model = load_predictor(run).opened.model
    for native in (None, True, False):
        assert isinstance(make_decoder(model, native=native), ReferenceDecoder)


def test_training_says_why_the_native_backend_is_not_used(case, tmp_path):
    said = []

    class Notes:
        def __getattr__(self, name):
            return lambda *given, **named: None

        def on_message(self, text):
            said.append(text)

    recipe = recipe_of(case, tmp_path, steps=2, validate_every=2, average_last=1)
    corpus = prepare_corpus(tmp_path / "run", recipe)
    train_run(tmp_path / "run", recipe, corpus, callbacks=[Notes()])
    name = ENCODER_DECODERS[recipe.model.kind].__name__
    expected = f"training by PyTorch: the native backend does not know a {name}"
    assert expected in said


NOT_SUITABLE = {
    "backend = 'native'": {"backend": "native"},
    "backend = 'torch_compile'": {"backend": "torch_compile", "processes": 1},
    "activation_checkpointing = true": {"activation_checkpointing": True},
    "devices = 'shard'": {"devices": "shard"},
}


@pytest.mark.parametrize("named", NOT_SUITABLE)
def test_training_that_needs_a_transformer_is_refused(case, tmp_path, named):
    with pytest.raises(SettingsError, match=f"{named} is for model.kind = 't"):
        recipe_of(case, tmp_path, **NOT_SUITABLE[named])


@pytest.mark.parametrize("setting", ["coverage", "alignments", "replace_unknown"])
def test_searches_that_need_attention_are_refused_where_there_is_none(
    tmp_path, setting
):
    table = settings_of("translation", tmp_path)
    for name, refused in (("none", True), ("cosine", False)):
        extra = {"model": MODELS[name], "decoding": {setting: 1.0}}
        if setting != "coverage":
            extra["decoding"] = {setting: True}
        if not refused:
            resolve(extra=merged(table, extra))
            continue
        with pytest.raises(SettingsError, match=f"decoding.{setting} = .* needs att"):
            resolve(extra=merged(table, extra))


@pytest.mark.parametrize("target", EXPORTS)
def test_exports_are_refused_with_the_reason(case, tmp_path, target):
    recipe = recipe_of(case, tmp_path)
    (reason,) = reasons_against([target], recipe.model, recipe.text)
    assert f"model.kind = {recipe.model.kind!r}: " in reason


@pytest.mark.parametrize("task", sorted(set(TASKS) - {task for task, _ in CASES}))
@pytest.mark.parametrize("kind", KINDS)
def test_other_tasks_refuse_it(task, kind):
    with pytest.raises(SettingsError, match=r"model\.kind must be 'transformer' here"):
        resolve(extra={"task": task, "model": {"kind": kind}})


def test_every_training_backend_that_is_offered_is_refused_or_trains():
    refused = {each.get("backend") for each in NOT_SUITABLE.values()}
    assert set(TRAINING_BACKENDS) - refused == {"auto", "torch", "reference"}
