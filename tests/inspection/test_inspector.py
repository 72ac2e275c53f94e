"""Text in, results out: on the model of the repository, and on other tasks."""

import json
import shutil

import pytest
import torch
from tests.inspection.conftest import DEMO

import headwise
from headwise.decoding.settings import DecodingSettings
from headwise.errors import DataError, UsageError
from headwise.inspection.inspector import Inspector
from headwise.inspection.interventions import HeadOff, SublayerOff, intervene
from headwise.inspection.json_form import json_text
from headwise.inspection.places import all_heads, parse_head, parse_place
from headwise.model import TransformerConfig
from headwise.tasks import TASKS

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
IL = "L'animal n'a pas traversé la rue parce qu'il"
ELLE = "L'animal n'a pas traversé la rue parce qu'elle"


@pytest.fixture
def inspector(demo):
    return demo.inspector


def test_every_result_turns_into_json(inspector):
    results = [
        inspector.attention(TIRED, norms=True, rollout=True),
        inspector.output(TIRED),
        inspector.beam(TIRED),
        inspector.word(TIRED, parse_head("cross.1.0"), 3),
        inspector.attribution(TIRED),
        inspector.lens(TIRED),
        inspector.patch(TIRED, WIDE, IL, ELLE),
        inspector.compare(TIRED, HeadOff(parse_head("cross.1.0"))),
    ]
    for each in results:
        assert json.loads(json_text(each))["format"] == 1


def test_the_example_of_the_paper_is_translated_with_both_genders(demo):
    assert demo.translate(TIRED).startswith(IL + " ")
    assert demo.translate(WIDE).startswith(ELLE + " ")


def test_a_patch_finds_the_answers_by_itself(inspector):
    found = inspector.patch(WIDE, TIRED, IL, ELLE)

    assert found.answers == ("il", "elle")
    assert found.source_difference < 0 < found.donor_difference
    assert found.decoder_input[0] == "<s>"
    assert len(found.decoder_input) == len(found.heads[-1].carried)
    assert found.best(1)[0][2] > 0.1


def test_a_comparison_is_of_the_search_that_was_asked_for(inspector):
    change = SublayerOff(parse_place("decoder.1.cross_attention"))

    found = inspector.compare(TIRED, change, beam=2, num_best=2)

    assert found.interventions == ("decoder.1.cross_attention off",)
    assert found.differs
    assert (len(found.before), len(found.after)) == (2, 2)
    assert found.before_changed < found.before[0].log_probability
    sampled = inspector.compare(TIRED, change, search="sampling", samples=3, num_best=2)
    assert len(sampled.after) == 2


def test_the_next_word_can_be_forced(inspector):
    found = inspector.compare(TIRED, prefix=ELLE)

    assert found.interventions == (f"output starts with {ELLE!r}",)
    assert found.after[0].text.startswith(ELLE)
    assert found.differs


def test_a_translator_translates_with_the_change_meanwhile(demo, inspector):
    change = SublayerOff(parse_place("decoder.1.cross_attention"))
    plain = demo.translate(TIRED)
    with inspector.intervene(change):
        changed = demo.translate(TIRED)

    assert changed != plain
    assert demo.translate(TIRED) == plain
    assert inspector.compare(TIRED, change).after[0].text == changed


def test_the_engine_auto_takes_torch_while_there_are_interventions(tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    translator = headwise.load(tmp_path / "demo", engine="auto")
    change = SublayerOff(parse_place("decoder.1.cross_attention"))
    plain = translator.translate(TIRED)
    with translator.inspector.intervene(change):
        changed = translator.translate(TIRED)

    assert changed != plain
    assert translator.engine.name == "torch"


def test_an_export_refuses_to_ignore_interventions(tmp_path):
    pytest.importorskip("ctranslate2")
    shutil.copytree(DEMO, tmp_path / "demo")
    translator = headwise.load(tmp_path / "demo", engine="ctranslate2")
    head = HeadOff(parse_head("cross.0.0"))
    with (
        translator.inspector.intervene(head),
        pytest.raises(
            UsageError, match=r"cross.0.0 off: .* which its export .* does not have"
        ),
    ):
        translator.translate(TIRED)


def test_a_thousand_tokens_are_looked_into(inspector):
    """A line that long is not split, as its positions would not be those of the line.

    Memory is bounded by what is kept: 24 heads of a million weights each.
    """
    text = " ".join(["The dog sees two cats and the house."] * 110)
    target = " ".join(["Le chien voit deux chats et la maison."] * 110)
    pair = inspector.pair(text, target)
    assert len(pair.source) > 1000

    found = inspector.attention(text, target, heads=[parse_head("cross.1.0")])
    output = inspector.output(text, target)

    assert found.maps[0].weights.shape == (len(pair.target), len(pair.source))
    assert len(output.positions) == len(pair.target)


@pytest.mark.parametrize("text", ["", "  ", "\t"])
def test_a_blank_text_is_refused(inspector, text):
    with pytest.raises(DataError, match="the text is blank"):
        inspector.attention(text)
    with pytest.raises(DataError, match="the text is blank"):
        inspector.beam(text)


def test_a_blank_target_is_refused(inspector):
    with pytest.raises(DataError, match="the target is blank"):
        inspector.output(TIRED, "")


def test_targets_without_a_difference_are_refused(inspector):
    with pytest.raises(UsageError, match="no token that differs"):
        inspector.patch(WIDE, TIRED, IL, IL)


def test_nothing_to_compare_is_refused(inspector):
    with pytest.raises(UsageError, match="give a change or a prefix"):
        inspector.compare(TIRED)


def test_heads_are_given_by_their_names_too(inspector):
    (alone,) = inspector.attention(TIRED, heads="cross.1.0").maps
    (listed,) = inspector.attention(TIRED, heads=["cross.1.0"]).maps

    assert alone.head == listed.head == parse_head("cross.1.0")
    assert inspector.word(TIRED, "cross.1.0", 3).head == alone.head
    assert inspector.bleu_without("cross.1.0", [TIRED], [IL]) >= 0


WRONG = {
    "attention of None": lambda of: of.attention(None),
    "attention of a list": lambda of: of.attention(["A dog."]),
    "attention with a list as target": lambda of: of.attention(TIRED, ["A dog."]),
    "attention with a number as heads": lambda of: of.attention(TIRED, heads=3),
    "attention with None as head": lambda of: of.attention(TIRED, heads=[None]),
    "output of bytes": lambda of: of.output(b"a"),
    "output with a text as count": lambda of: of.output(TIRED, count="5"),
    "output with None as prefix": lambda of: of.output(TIRED, prefix=None),
    "beam of None": lambda of: of.beam(None),
    "beam with None as prefix": lambda of: of.beam(TIRED, prefix=None),
    "word of no head": lambda of: of.word(TIRED, None, 0),
    "word at no position": lambda of: of.word(TIRED, "cross.1.0", None),
    "attribution of a number": lambda of: of.attribution(3),
    "attribution at one position": lambda of: of.attribution(TIRED, positions=3),
    "attribution at a text": lambda of: of.attribution(TIRED, positions=["3"]),
    "lens of a number": lambda of: of.lens(3),
    "lens with less than no count": lambda of: of.lens(TIRED, count=-1),
    "patch without a donor": lambda of: of.patch(TIRED, None, IL, ELLE),
    "patch without targets": lambda of: of.patch(TIRED, WIDE, None, None),
    "compare of None": lambda of: of.compare(None),
    "compare with None as prefix": lambda of: of.compare(TIRED, prefix=None),
    "compare with a name": lambda of: of.compare(TIRED, "cross.1.0"),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_a_usage_error(inspector, call):
    """It was an AttributeError or a TypeError from deep inside."""
    with pytest.raises(UsageError):
        call(inspector)


@pytest.mark.parametrize("view", ["foo", "", None, ["lens"]])
def test_what_is_no_view_has_no_reason(inspector, view):
    """The answer was None, which means that it makes sense."""
    with pytest.raises(UsageError, match="is not a view; views are output, attention,"):
        inspector.why_not(view)


def test_lines_without_a_counterpart_are_refused(inspector):
    with pytest.raises(UsageError, match=r"2 sources and 1 target$"):
        inspector.statistics(["a", "b"], ["c"])


@pytest.mark.parametrize(
    ("sources", "targets", "wrong"),
    [
        ("dog", "dog", "sources must be a list of texts .*, not str"),
        (["A dog."], "Un chien.", "targets must be a list of texts .*, not str"),
        (None, None, "sources must be a list of texts .*, not NoneType"),
        (["A dog."], [None], "texts are needed, not NoneType"),
    ],
)
def test_lines_that_are_no_lists_of_texts_are_refused(
    inspector, sources, targets, wrong
):
    """A str was taken for as many texts as it has letters."""
    for view in (
        inspector.rank_heads,
        inspector.statistics,
        lambda *sides: inspector.bleu_without(all_heads(inspector.model)[:1], *sides),
    ):
        with pytest.raises(UsageError, match=wrong):
            view(sources, targets)


def one_stack(name, demo, **layers):
    """Return an inspector of a random model of another task, with demo's tokenizer."""
    tokenizers = demo.opened.tokenizers
    task = TASKS[name].open(tokenizers, TASKS[name].options and TASKS[name].options())
    config = TransformerConfig(d_model=16, d_ff=24, num_heads=4, **layers)
    model = task.new_model(config, seed=1).eval()
    return Inspector(task, model, DecodingSettings())


def test_a_language_model_is_asked_for_the_text_and_what_comes_next(demo):
    looked = one_stack("language_model", demo, encoder_layers=0, decoder_layers=2)

    found = looked.attention("The dog sleeps.")
    assert {each.head.kind for each in found.maps} == {"decoder"}
    assert len(found.maps) == 8
    output = looked.output("The dog sleeps.")
    assert tuple(each.piece for each in output.positions) == found.target
    assert output.positions[-1].rank == 1
    assert len(looked.lens("The dog sleeps.").layers) == 3
    with pytest.raises(UsageError, match=r"of language_model has no view patch: .* it"):
        looked.patch("The dog sleeps.", "The cat sleeps.", "a", "b")


def test_a_target_of_a_language_model_follows_the_text(demo):
    looked = one_stack("language_model", demo, encoder_layers=0, decoder_layers=2)

    found = looked.output("The dog", " sleeps.")
    whole = looked.output("The dog sleeps.")

    assert [each.piece for each in found.positions[:-1]] == [
        each.piece for each in whole.positions[-len(found.positions) : -1]
    ]
    assert found.positions[0].log_probability == pytest.approx(
        whole.positions[-len(found.positions)].log_probability, abs=1e-5
    )
    assert found.positions[-1].piece == "</s>"


def test_a_tagger_has_steps_and_a_tag_for_each_word(demo):
    looked = one_stack("tagging", demo, encoder_layers=2, decoder_layers=0)

    found = looked.attention("The dog sleeps.", rollout=True)
    assert {each.head.kind for each in found.maps} == {"encoder"}
    assert looked.word("The dog sleeps.", parse_head("encoder.1.2"), 0).piece == "▁The"
    output = looked.output("The dog sleeps.")
    assert [each.source_position for each in output.positions] == [0, 1, 2]
    for refused in (looked.beam, looked.lens):
        with pytest.raises(UsageError, match=r"of tagging has no view (beam|lens): it"):
            refused("The dog sleeps.")


def test_interventions_of_an_encoder_alone_reach_it(demo):
    looked = one_stack("tagging", demo, encoder_layers=2, decoder_layers=0)
    head = all_heads(looked.model)[0]
    with intervene(looked.model, HeadOff(head)):
        changed = looked.word("The dog sleeps.", head, 0)
    plain = looked.word("The dog sleeps.", head, 0)

    assert not torch.equal(changed.concatenation, plain.concatenation)
