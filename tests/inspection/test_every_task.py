"""What holds for every task: a new one is looked into the day it is in TASKS."""

import json
from dataclasses import replace

import pytest
import torch
from tests.tasks.examples import INPUTS, PICTURE_LINES, settings_of

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.errors import DataError, UsageError
from headwise.inspection.arguments import MAX_TOKENS
from headwise.inspection.head_ranking import heads_zeroed
from headwise.inspection.inspected.base import VIEWS
from headwise.inspection.inspected.kinds import INSPECTED
from headwise.inspection.inspector import Inspector
from headwise.inspection.interventions import HeadOff, SublayerOff
from headwise.inspection.json_form import json_text
from headwise.inspection.places import all_heads, parse_head, sublayers
from headwise.inspection.positions import positions_of
from headwise.inspection.views import views_of
from headwise.model.config_checks import RECURRENT
from headwise.model.kinds import ENCODER_DECODERS
from headwise.model.positions import sinusoids
from headwise.recipe import resolve
from headwise.run_folder.run import open_task
from headwise.settings import merged
from headwise.tasks import TASKS

ENCODERS = {"attention", "output", "attribution", "word", "compare"}
DECODERS = ENCODERS | {"beam", "lens"}
HAS = {
    "translation": {*VIEWS},
    "classification": ENCODERS,
    "regression": ENCODERS,
    "tagging": ENCODERS,
    "language_model": DECODERS,
    "masked_language_model": ENCODERS,
    "parsing": DECODERS,
    "picture_classification": ENCODERS,
    "captioning": DECODERS,
    "dialogue": DECODERS,
}

OTHER_KINDS = {"output", "attention", "beam", "compare"}
"""The views of a model that is no Transformer."""

OTHERS = [
    (task, {"kind": kind})
    for task in ("translation", "parsing")
    for kind in ENCODER_DECODERS
    if kind != "transformer"
]

BEAM = {"search": "beam", "beam": 3, "choose": "score"}


def untrained(name, folder, **model):
    """Return an inspector of a model with weights as after some training."""
    table = merged(settings_of(name, folder), {"model": model})
    recipe = resolve(extra=table)
    task = open_task(recipe, prepare_corpus(folder / "run", recipe))
    made = task.new_model(recipe.model, seed=1)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in made.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=generator)
    return Inspector(task, made.eval(), recipe.decoding)


@pytest.fixture(scope="module", params=TASKS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def inspector(name, tmp_path_factory):
    return untrained(name, tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module", params=OTHERS, ids=str)
def other(request, tmp_path_factory):
    """Return an inspector of a model of another kind, and a text."""
    task, model = request.param
    inspector = untrained(task, tmp_path_factory.mktemp(task), **model)
    return inspector, INPUTS[task][0]


@pytest.fixture(scope="module")
def text(name):
    return INPUTS[name][0]


def looked(inspector, view, text):
    """Return what a view finds, with whatever it needs besides a text."""
    head = all_heads(inspector.model)[0] if view in ("word", "compare") else None
    return {
        "output": lambda: inspector.output(text, count=3),
        "attention": lambda: inspector.attention(text, norms=True, rollout=True),
        "attribution": lambda: inspector.attribution(text),
        "beam": lambda: inspector.beam(text, **BEAM),
        "word": lambda: inspector.word(text, head, 0),
        "lens": lambda: inspector.lens(text),
        "patch": lambda: inspector.patch(text, "two one", "eins zwei", "eins drei"),
        "compare": lambda: inspector.compare(text, HeadOff(head)),
    }[view]()


def test_every_task_is_looked_into():
    assert INSPECTED.keys() == HAS.keys() == TASKS.keys()


def test_views_are_those_that_make_sense(name, inspector):
    assert {*inspector.views()} == HAS[name]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_turns_into_json_or_says_why_there_is_none(inspector, view, text):
    if view in inspector.views():
        found = json.loads(json_text(looked(inspector, view, text)))
        assert found["format"] == 1
        return
    with pytest.raises(
        UsageError, match=f"of {inspector.task.name} has no view {view}"
    ):
        looked(inspector, view, text)


def test_a_text_too_long_for_attention_maps_is_refused(name, inspector, text):
    """Each view that takes a text says so, before it computes anything."""
    if INPUTS[name] is PICTURE_LINES:
        pytest.skip("a picture has as many patches as the model reads")
    for view in inspector.views():
        with pytest.raises(DataError, match="tokens, and at most 2,000 can be"):
            looked(inspector, view, f"{text} " * (MAX_TOKENS + 1))


def test_rows_of_attention_are_distributions_over_named_positions(inspector, text):
    found = inspector.attention(text)

    assert [each.head for each in found.maps] == all_heads(inspector.model)
    for each in found.maps:
        rows, columns = found.labels(each.head)
        assert each.weights.shape == (len(rows), len(columns))
        torch.testing.assert_close(each.weights.sum(dim=1), torch.ones(len(rows)))


def test_the_output_is_that_of_predict(name, inspector, text):
    """Which runs fast backends on batches, and ours the model itself on one text."""
    task, decoding = inspector.task, inspector.decoding
    (predicted,) = task.predictions(inspector.model, [text], decoding)

    (before, *_) = inspector.compare(text, *off(inspector)).before

    if name == "regression":  # its last digit may be rounded
        assert float(before.text) == pytest.approx(float(predicted.output), rel=1e-4)
        assert before.log_probability is predicted.log_probability is None
        return
    output = before.text.split("\n")[0] if name == "language_model" else before.text
    assert output.strip() == predicted.output
    expected = pytest.approx(predicted.log_probability, abs=1e-4)
    assert before.log_probability == expected


def off(inspector):
    return [SublayerOff(each) for each in sublayers(inspector.model)]


def test_the_output_is_that_of_the_search_token_by_token(name, inspector, text):
    if name == "language_model":  # of which the output is the text
        tokens = inspector.task.encode([text])[0]
        expected = inspector.task.log_probabilities(inspector.model, tokens)
        found = [each.log_probability for each in inspector.output(text).positions]
        assert found[:-1] == pytest.approx(expected.tolist(), abs=1e-4)
        return
    # Short, as a search that outgrows its context slides it, and forgets the beginning.
    limits = {"max_length_factor": 0.0, "max_length_offset": 8}
    decoding = replace(inspector.decoding, **limits)
    inspector = Inspector(inspector.task, inspector.model, decoding)
    (best, *_) = inspector.compare(text, *off(inspector)).before

    found = inspector.output(text)

    assert found.text.strip() == best.text.strip()
    if best.log_probability is None:
        assert (found.log_probability, found.positions) == (None, ())
        return
    parts = [each.log_probability for each in found.positions]
    assert found.log_probability == pytest.approx(sum(parts))
    cut_off = parts[:-1]  # END, which the length limit left no room for
    assert pytest.approx(best.log_probability, abs=1e-3) in (sum(parts), sum(cut_off))


def test_a_change_is_seen_by_all_backends(inspector, text):
    """Zeroed weights, which every backend multiplies, are the independent way."""
    heads = all_heads(inspector.model)
    found = inspector.compare(text, *map(HeadOff, heads))
    with heads_zeroed(inspector.model, heads):
        (zeroed, *_) = inspector.compare(text, *off(inspector)).before

    assert found.after[0].text == zeroed.text
    if zeroed.log_probability is not None:
        expected = pytest.approx(zeroed.log_probability, rel=1e-5, abs=1e-4)
        assert found.after[0].log_probability == expected


def test_the_weights_are_left_as_they_were(inspector, text):
    before = {key: x.clone() for key, x in inspector.model.state_dict().items()}
    for view in inspector.views():
        looked(inspector, view, text)

    assert not inspector.model.interventions
    for key, weight in inspector.model.state_dict().items():
        assert torch.equal(weight, before[key])
    assert all(each.grad is None for each in inspector.model.parameters())


def test_every_part_of_an_output_is_attributed(inspector, text):
    found = inspector.attribution(text)

    assert found.gradient_input.shape == found.leave_one_out.shape
    assert found.gradient_input.shape == (len(found.positions), len(found.source))
    assert bool(found.gradient_input.isfinite().all())
    assert bool(found.leave_one_out.isfinite().all())
    assert float(found.leave_one_out.abs().max()) > 0


@pytest.mark.parametrize("given", ["", "  "])
def test_a_blank_text_is_refused(inspector, given):
    with pytest.raises(DataError, match="the text is blank"):
        inspector.output(given)


def test_a_model_of_another_kind_has_its_attention_and_its_search(other):
    inspector, text = other
    config = inspector.model.config
    layers, _ = config.cross_attention_shape
    assert {*inspector.views()} == OTHER_KINDS

    found = inspector.attention(text)
    names = [f"cross.{layer}.0" for layer in range(layers)]
    assert [str(each.head) for each in found.maps] == names
    for each in found.maps:
        assert each.weights.shape == (len(found.target), len(found.source))
        sums = each.weights.sum(dim=1)
        torch.testing.assert_close(sums, torch.ones(len(found.target)))
    last = found.maps[-1]
    (only,) = inspector.attention(text, heads=[last.head]).maps
    assert torch.equal(only.weights, last.weights)
    with pytest.raises(UsageError, match=rf"no head cross.7.0: .* has {names[0]}"):
        inspector.attention(text, heads=[parse_head("cross.7.0")])
    assert inspector.output(text).positions
    assert inspector.beam(text, **BEAM).results
    for view in ("attribution", "lens", "word", "patch"):
        with pytest.raises(UsageError, match=f"no view {view}: .*kind {config.kind!r}"):
            inspector._inspected.require(view)
    with pytest.raises(UsageError, match="no multi-head attention"):
        looked(inspector, "compare", text)


def test_positions_are_shown_of_kinds_that_encode_them(other):
    inspector, text = other
    if inspector.model.config.kind in RECURRENT:
        assert "positions" not in views_of(inspector)
        with pytest.raises(UsageError, match="has no positional encodings"):
            positions_of(inspector.model, inspector.pair(text))
        return
    assert "positions" in views_of(inspector)
    found = positions_of(inspector.model, inspector.pair(text))
    expected = sinusoids(torch.arange(len(found.encodings)), 16).float()
    torch.testing.assert_close(found.encodings, expected)


def test_a_model_without_attention_has_no_view_of_it(tmp_path):
    inspector = untrained(
        "translation", tmp_path, kind="gru", recurrent_attention="none"
    )
    assert {*inspector.views()} == OTHER_KINDS - {"attention"}
    with pytest.raises(UsageError, match="recurrent_attention = 'none' has no atten"):
        inspector.attention(INPUTS["translation"][0])


def test_a_long_computation_can_be_stopped(inspector, text):
    class StoppedError(Exception):
        pass

    def stop():
        raise StoppedError

    stopped = Inspector(
        inspector.task, inspector.model, inspector.decoding, check_stop=stop
    )
    with pytest.raises(StoppedError):
        stopped.attribution(text)
