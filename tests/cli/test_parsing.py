"""Constituency parsing from the command line: run, predict, evaluate."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.tasks.examples import parsing, train_example

from headwise.data.corpus_reader import read_pairs
from headwise.data.settings import CorpusSettings
from headwise.errors import SettingsError
from headwise.inference.load import load_predictor
from headwise.metrics.bracket_f1 import bracket_scores
from headwise.metrics.tree_lines import with_words_of
from headwise.recipe import resolve
from headwise.text.trees import parse_tree

TINY = ["--set", "training.steps=40", "--set", "training.validate_every=20"]
TINY += ["--set", "text.vocab_size=60", "--set", "model.d_model=16"]
TINY += ["--set", "model.num_heads=2", "--set", "model.d_ff=32"]
TINY += ["--preset", "micro", "--set", "training.learning_rate=0.01"]


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    return train_example("parsing", tmp_path_factory.mktemp("parsing"))


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    return Path(parsing(tmp_path_factory.mktemp("treebank"))["source"])


def test_a_treebank_gives_a_parser(headwise, treebank, tmp_path):
    found = headwise(
        *("run", treebank, "--task", "parsing", "--out", tmp_path / "run", *TINY),
        *("--dev-file", treebank, "--test-file", treebank),
    )

    assert found.code == 0, found.error
    f1, match = found.out.splitlines()
    assert re.fullmatch(r"bracket F1 [\d.]+  evalb:COLLINS\|.*", f1)
    assert match.startswith("complete match ")
    assert "predicting 150 test lines" in found.error
    assert "next: headwise predict" in found.error


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(S (NP (DT a))\n(VP (VB b))\n", "ends while (S of line 1, column 1 is open"),
        ("(S (NP (DT a))))\n", "line 1, column 16: ')' closes nothing"),
        ("(S (DT a))\n(S (NP))\n", "line 2, column 7: (NP of line 2, column 4 is"),
        ("(S (DT a b))\n", "line 1, column 10: 'b' follows the word 'a'"),
        (
            "( (S (NP (DT a))\n( (S (DT b)) )\n",
            "line 2, column 3: the bracket of line 2, column 1 has no label; only the "
            "outermost one may have none, and that of line 1, column 1 is open",
        ),
        ("S (DT a)\n", "line 1, column 1: 'S' is outside of all brackets"),
        ("(S (X (-NONE- *)))\n", "there is no training data"),
    ],
)
def test_a_fault_of_a_treebank_is_named_with_its_place(headwise, tmp_path, text, fault):
    path = tmp_path / "bad.mrg"
    path.write_text(text, encoding="utf-8")
    found = headwise("run", path, "--task", "parsing", "--out", tmp_path / "run", *TINY)

    assert found.code == 4
    assert fault in " ".join(found.error.split())
    assert str(path) in found.error.replace("\n", "") or "no training" in fault


def test_words_in_trees_out_and_blank_stays_blank(headwise, parser):
    found = headwise("predict", parser, stdin=b"one dog runs\n\n(a) [b]\n")
    first, blank, brackets = found.out.split("\n")[:-1]

    assert parse_tree(first).words == ["one", "dog", "runs"]
    assert set(parse_tree(first).tags) == {"XX"}
    assert blank == ""
    assert parse_tree(brackets).words == ["-LRB-a-RRB-", "[b]"]


def test_it_learned_the_phrases(parser):
    assert load_predictor(parser).predict("two one dog runs") == (
        "(S (NP (XX two) (XX one) (XX dog)) (VP (XX runs)))"
    )


def test_drawings(headwise, parser):
    text = headwise("predict", parser, "--draw", "text", stdin=b"cat runs\n")
    svg = headwise("predict", parser, "--draw", "svg", stdin=b"cat runs\n\ndog runs\n")

    assert "NP" in text.out
    assert "┌" in text.out
    first, blank, last = svg.out.splitlines()
    assert blank == ""
    for each in (first, last):
        assert ElementTree.fromstring(each).tag.endswith("svg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--draw", "png"], "--draw must be one of text, svg"),
        (["--draw", "svg", "--json"], "two forms of an output"),
    ],
)
def test_drawings_that_cannot_be_made_are_refused(headwise, parser, options, message):
    found = headwise("predict", parser, *options, stdin=b"cat runs\n")

    assert found.code == 2
    assert message in " ".join(found.error.split())


def test_evaluation_is_the_metric_computed_from_the_trees(headwise, parser, tmp_path):
    treebank = tmp_path / "test.mrg"
    treebank.write_text(
        "(S (NP (CD one) (NN dog)) (VP (VB runs)) (. .))\n"
        "(S (VP (VB runs) (ADVP (RB -LRB-))))\n((S (X (-NONE- *))))\n"
        f"(S {' '.join(['(NN dog)'] * 41)})\n"
    )
    found = headwise(
        "evaluate", parser, treebank, "--out", tmp_path / "outputs", "--json"
    )
    rows = {each.pop("sentences of"): each for each in json.loads(found.out)["rows"]}
    pairs = [
        pair
        for pair in read_pairs(CorpusSettings(source=str(treebank)))
        if not pair.is_empty
    ]
    outputs = (tmp_path / "outputs").read_text().splitlines()
    gold = [parse_tree(each.target) for each in pairs]
    trees = [
        with_words_of(parse_tree(line), tree)
        for line, tree in zip(outputs, gold, strict=True)
    ]
    expected = bracket_scores(trees, gold)

    assert len(outputs) == 3
    assert rows["all"]["f1"] == pytest.approx(expected.all.f1, abs=1e-3)
    assert rows["all"]["matched"] == expected.all.matched
    for name in ("average_crossing", "no_crossing", "two_or_less_crossing"):
        assert rows["all"][name] == pytest.approx(getattr(expected.all, name), abs=1e-3)
    assert rows["up to 40 words"]["sentences"] == 2
    assert rows["up to 40 words"]["precision"] == pytest.approx(
        expected.short.precision, abs=1e-3
    )
    assert [rows[each]["sentences"] for each in ("1-10 words", "41-50 words")] == [2, 1]
    assert not expected.errors


def test_the_table_of_scores(headwise, parser, treebank):
    found = headwise("evaluate", parser, treebank, "--beam", 21)
    head, everything, *_, crossing, signature = found.out.splitlines()

    assert head.split() == [
        *("sentences", "precision", "recall", "F1", "complete", "match")
    ]
    assert everything.split()[:2] == ["all", "150"]
    assert re.fullmatch(
        r"crossing brackets: [\d.]+ a sentence, none in [\d.]+%, 2 or less in [\d.]+%",
        crossing,
    )
    assert signature == "evalb:COLLINS|labelled:yes|length:all"


def test_metrics_by_name(headwise, parser, treebank):
    found = headwise("evaluate", parser, treebank, "--metric", "complete-match")

    assert found.out.startswith("complete match ")


def test_sentences_and_trees_in_columns(headwise, parser, tmp_path):
    (tmp_path / "test.tsv").write_text("dog runs\t(S (NP (NN dog)) (VP (VB runs)))\n")
    found = headwise("evaluate", parser, tmp_path / "test.tsv")

    assert found.code == 0, found.error
    assert found.out.splitlines()[1].split()[1] == "1"


def test_settings_that_do_not_suit_trees_are_refused():
    for table, message in (
        (
            {
                "text": {
                    "joint": True,
                    "tokenizer": "words",
                    "target_tokenizer": "words",
                }
            },
            "needs text.joint",
        ),
        ({"text": {"target_tokenizer": "words"}}, "needs text.joint"),
        ({"model": {"tie_embeddings": "all"}}, "trees have one of their own"),
        ({"parsing": {"max_unary": 0}}, "max_unary must be 1 or more"),
    ):
        with pytest.raises(SettingsError, match=message):
            resolve(extra={"task": "parsing", **table})
    with pytest.raises(SettingsError, match="is for other tasks"):
        resolve(extra={"text": {"joint": False, "target_tokenizer": "trees"}})


def test_the_paper_s_search_is_accepted():
    recipe = resolve(extra={"task": "parsing", "decoding": {"beam": 21, "alpha": 0.3}})

    assert recipe.decoding.length_penalty == "gnmt"
    assert recipe.decoding.max_length(30) == 330


def test_sentences_of_a_real_treebank_are_parsed(corpora, parser):
    """An untrained vocabulary, but real lengths, words and unary chains."""
    pairs = read_pairs(
        CorpusSettings(source=str(corpora / "treebank-craft" / "dev.mrg.gz"))
    )
    chosen = [pair for _, pair in zip(range(60), pairs, strict=False)]
    outputs = load_predictor(parser).predict([pair.source for pair in chosen])

    for pair, line in zip(chosen, outputs, strict=True):
        gold = parse_tree(pair.target)
        assert with_words_of(parse_tree(line), gold).tags == gold.tags
