"""The model card describes the model, and hubs can read its metadata."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.prepared import CorpusFacts, PreparedCorpus
from headwise.interop.exports import export
from headwise.metrics.registry import METRICS
from headwise.metrics.score import Score
from headwise.run_folder.card import model_card
from headwise.run_folder.card_metadata import HUB_METRICS, languages_of, quoted
from headwise.run_folder.model_folder import open_model_folder
from headwise.tasks import TASKS
from headwise.training.state import TrainingState
from headwise.training.validation import Validation

VALIDATION = Validation(
    loss=1.0,
    scores={"bleu": Score("BLEU", 31.25, "nrefs:1|tok:13a", True)},
    num_scored=5,
    samples=(),
)


@pytest.fixture
def card(tiny_run):
    def make(name, validation=VALIDATION, **said):
        return model_card(
            name,
            open_model_folder(tiny_run / "best").model,
            PreparedCorpus.open(tiny_run / "prepared").facts,
            TrainingState(step=1234, epoch=3, seconds=90.0),
            validation,
            **said,
        )

    return make


def test_hubs_read_what_the_model_is(card):
    """By their own reader, which checks the form of ``model-index`` too."""
    data = pytest.importorskip("huggingface_hub").ModelCard(card("en-de")).data

    assert data.language == ["en", "de"]
    assert data.license == "unknown"
    assert (data.library_name, data.pipeline_tag) == ("headwise", "translation")
    assert data.metrics == ["bleu"]
    assert data.model_name == "en-de"
    bleu, loss = data.eval_results
    assert (bleu.metric_type, bleu.metric_value, bleu.metric_name) == (
        *("bleu", 31.25, "BLEU"),
    )
    assert bleu.metric_args == {"signature": "nrefs:1|tok:13a"}
    assert bleu.dataset_name == "held-out pairs of train.en and train.de"
    assert bleu.task_type == "translation"
    assert (loss.metric_type, loss.metric_value) == ("loss", 1.0)


def test_what_a_recipe_says_of_languages_and_licence_wins(card):
    text = card("x", languages=("no", "nb"), license="cc-by-4.0")
    data = pytest.importorskip("huggingface_hub").ModelCard(text).data

    assert data.language == ["no", "nb"]  # and not false, as YAML reads a bare no
    assert data.license == "cc-by-4.0"


def test_every_measure_has_a_name_on_hubs():
    assert HUB_METRICS.keys() == METRICS.keys()


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("a/train.en", "a/train.de", ["en", "de"]),
        ("Train.EN.gz", "train.de.gz", ["en", "de"]),
        ("noisy.en", "clean.en", ["en"]),
        ("pairs.tsv", None, []),
        ("text.src", "text.tgt", []),
        ("one.en", "two.txt", []),
        ("one.en", "two", []),
        ("novels.en.gz", None, ["en"]),
    ],
)
def test_names_of_corpora_tell_languages(source, target, found):
    counts = dict.fromkeys(
        ("first_pair", "read", "train", "dev", "empty", "too_long", "held_out"), 0
    )
    corpus = CorpusFacts(source=source, target=target, weight=1.0, **counts)

    assert languages_of([corpus]) == found
    other = replace(corpus, source="x.fr", target="x.en")
    assert languages_of([corpus, other]) == []


@given(st.text(st.characters(exclude_categories=[])))
def test_any_name_is_one_text_in_yaml(text):
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(f"- {quoted(text)}")

    assert read == [re.sub("[\ud800-\udfff]", "\ufffd", text)]


def test_scores_stand_with_their_signatures(card):
    text = card("en-de")

    # A bar ends a cell of a Markdown table, even between backticks.
    assert r"| BLEU | 31.25 | `nrefs:1\|tok:13a` |" in text
    assert "| perplexity of a token | 2.718 |" in text
    assert "greedy search on 5 of 12 held-out pairs, after 1,234 updates" in text
    assert "(3 epochs,\n1 min 30 s); perplexity on all of them" in text


def test_scores_of_all_held_out_pairs_are_said_to_be(card):
    text = card("en-de", replace(VALIDATION, num_scored=12))

    assert "greedy search on all 12 held-out pairs" in text


def test_the_data_and_the_limits_are_said_without_folders(card, tiny_run):
    text = card("en-de")
    facts = PreparedCorpus.open(tiny_run / "prepared").facts

    source = Path(facts.corpora[0].source)
    assert f"- `{source.name}`" in text
    assert str(source.parent) not in text  # a card is to be published
    assert f"{facts.train.pairs:,} pairs were learned from" in text
    assert f"longest\nsource has {facts.train.longest_source:,} tokens" in text
    assert "## Limits" in text
    assert not re.search(r"\{\w*\}", text)


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (["en-fr"], "\n\nTraining started from the weights of `en-fr`.\n"),
        (["/home/me/bert/best", "runs/gpt"], "the weights of `bert` and `gpt`.\n"),
        (["odd\nname\udcff"], "the weights of `odd name?`.\n"),
    ],
)
def test_a_card_names_the_models_that_training_started_from(card, folders, said):
    assert said in card("en-de", initialize_from=folders)
    assert "started from" not in card("en-de")


def test_commands_can_be_pasted_whatever_the_folder_is_called(card):
    text = card('my "best" model')

    assert "headwise translate 'my \"best\" model' input.txt" in text
    assert r'headwise.load("my \"best\" model")' in text


@pytest.mark.parametrize(
    ("task", "command", "method", "longer"),
    [
        ("language_model", "generate", "predict", "The longest\ntext has"),
        ("dialogue", "chat", "predict", "of a longer dialogue the last tokens"),
        ("captioning", "predict", "predict", "pictures of another size are refused"),
        ("regression", "predict", "predict", "longer texts are read in parts"),
    ],
)
def test_a_card_says_how_models_of_its_task_are_used(
    card, task, command, method, longer
):
    text = card("mine", task=task)

    assert f"headwise {command} mine input.txt > output.txt" in text
    assert f"print(model.{method}(" in text
    assert longer in text
    assert f'name: "{TASKS[task].loss_name}"' in text


def test_a_name_that_is_no_text_breaks_no_card(card):
    text = card("odd\nname\udcff")

    assert "# odd name?\n" in text
    assert text.encode()


def test_the_card_of_a_run_is_in_its_model_folder(tiny_run):
    text = (tiny_run / "best" / "README.md").read_text(encoding="utf-8")

    assert text.startswith("---\n")
    assert "# run\n" in text
    assert "| BLEU |" in text


def test_a_loss_too_large_for_its_power_is_no_error():
    assert replace(VALIDATION, loss=1000.0).perplexity == float("inf")


@pytest.mark.parametrize("place", ["own", "export"])
def test_the_card_on_disk_is_one_that_hubs_take(tiny_run, tmp_path, place):
    folder, library = tiny_run / "best", "headwise"
    if place == "export":
        export(tmp_path / "out", open_model_folder(folder), target="huggingface")
        folder, library = tmp_path / "out", "transformers"
    card = pytest.importorskip("huggingface_hub").ModelCard.load(folder / "README.md")

    assert card.data.library_name == library
    assert card.data.language == ["en", "de"]
    assert [each.metric_type for each in card.data.eval_results] == ["bleu", "loss"]
    for title in ("Use", "Data", "Scores", "Architecture", "Limits"):
        assert f"## {title}" in card.text
