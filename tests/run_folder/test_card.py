"""The card says what the model is, and others' tools can read its head."""

import re
from dataclasses import replace

import pytest

from headwise.data.prepared import PreparedCorpus
from headwise.metrics.score import Score
from headwise.run_folder.card import model_card
from headwise.run_folder.model_folder import open_model_folder
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
    def make(name, validation=VALIDATION):
        return model_card(
            name,
            open_model_folder(tiny_run / "best").model,
            PreparedCorpus.open(tiny_run / "prepared").facts,
            TrainingState(step=1234, epoch=3, seconds=90.0),
            validation,
        )

    return make


def test_the_front_matter_is_yaml_of_the_plainest_kind(card):
    _, head, body = card("en-de").split("---\n", 2)

    assert all(re.fullmatch(r"[a-z_]+: [a-z]+", line) for line in head.splitlines())
    assert head == "library_name: headwise\npipeline_tag: translation\n"
    assert body.startswith("\n# en-de\n")


def test_scores_stand_with_their_signatures(card):
    text = card("en-de")

    # A bar ends a cell of a Markdown table, even between backticks.
    assert r"| BLEU | 31.25 | `nrefs:1\|tok:13a` |" in text
    assert "| perplexity of a token | 2.718 |" in text
    assert "greedy search on 5 of 12 held-out pairs, after 1,234 updates" in text
    assert "(3 epochs,\n1.5 minutes); perplexity on all of them" in text


def test_scores_of_all_held_out_pairs_are_said_to_be(card):
    text = card("en-de", replace(VALIDATION, num_scored=12))

    assert "greedy search on all 12 held-out pairs" in text


def test_the_data_and_the_limits_are_said(card, tiny_run):
    text = card("en-de")
    facts = PreparedCorpus.open(tiny_run / "prepared").facts

    assert facts.corpora[0].source in text
    assert f"{facts.train.pairs:,} pairs were learned from" in text
    assert f"longest\nsource has {facts.train.longest_source:,} tokens" in text
    assert "## Limits" in text
    assert not re.search(r"\{\w*\}", text)


def test_commands_can_be_pasted_whatever_the_folder_is_called(card):
    text = card('my "best" model')

    assert "headwise translate 'my \"best\" model' < input.txt" in text
    assert r'headwise.load("my \"best\" model")' in text


def test_the_card_of_a_run_is_in_its_model_folder(tiny_run):
    text = (tiny_run / "best" / "README.md").read_text(encoding="utf-8")

    assert text.startswith("---\n")
    assert "# run\n" in text
    assert "| BLEU |" in text


def test_a_loss_too_large_for_its_power_is_no_error():
    assert replace(VALIDATION, loss=1000.0).perplexity == float("inf")
