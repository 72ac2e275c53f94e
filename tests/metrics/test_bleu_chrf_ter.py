"""BLEU, chrF and TER are sacreBLEU's numbers and signatures."""

import subprocess
import sys

import pytest
from tests.text_metrics import NOT_OF_TEXT

from headwise.errors import UsageError
from headwise.metrics import registry
from headwise.metrics.bleu_chrf_ter import bleu, chrf, ter
from headwise.metrics.registry import (
    CAN_RESAMPLE,
    METRICS,
    NEED_LANGUAGE,
    measure,
)

TEXT = ["The cat sat on the mat.", "Nobody saw it, of course!"]


def test_bleu_by_hand():
    """One line, 8 tokens: "a b c d e f g ." against "a b c d e f h .".

    7 of 8 words, 5 of 7 pairs, 4 of 6 triples, 3 of 5 quadruples are right, and the
    lengths are equal: (7/8 * 5/7 * 4/6 * 3/5) ** (1/4) = 0.25 ** 0.25 = 0.7071.
    """
    score = bleu(["a b c d e f g."], ["a b c d e f h."])

    assert score.value == pytest.approx(100 * 0.5**0.5)
    assert str(score) == "BLEU 70.7"


def test_bleu_minds_the_case():
    assert bleu([TEXT[0].lower()], [TEXT[0]]).value < 100
    assert "case:mixed" in bleu(TEXT, TEXT).signature
    assert "tok:13a" in bleu(TEXT, TEXT).signature


@pytest.mark.parametrize(
    ("reference", "output", "tokenizer"),
    [
        ("我的猫今天不想出去玩。", "我的猫今天不想出去。", "zh"),
        ("彼は昨日東京で寿司を食べた。", "彼は昨日東京で寿司を買った。", "char"),
        ("แมวของฉันไม่อยากออกไปข้างนอก", "แมวของฉันไม่อยากออกไป", "char"),
    ],
)
def test_scripts_without_spaces_are_scored_by_characters(reference, output, tokenizer):
    """By words one wrong letter of such a sentence would make BLEU 0."""
    score = bleu([output], [reference])

    assert f"tok:{tokenizer}" in score.signature
    assert 60 < score.value < 100
    assert bleu([output], [reference], tokenize="13a").value == 0


@pytest.mark.parametrize(
    "reference",
    [
        "내 고양이는 오늘 밖에 나가고 싶지 않다.",
        "Моя кошка сегодня не хочет выходить.",
        "She met 王小明 in the old town.",
        "12 + 5 = 17",
        "",
    ],
)
def test_scripts_with_spaces_are_scored_by_words(reference):
    assert "tok:13a" in bleu([reference], [reference]).signature


def test_a_given_tokenizer_is_taken():
    assert "tok:char" in bleu(TEXT, TEXT, tokenize="char").signature


def test_ter_by_hand():
    """One word of the six is replaced: 1/6."""
    score = ter(["the dog sat on the mat"], ["the cat sat on the mat"])

    assert score.value == pytest.approx(100 / 6)
    assert not score.higher_is_better


def test_chrf_says_what_it_counted():
    signature = chrf(TEXT, TEXT).signature

    assert "nc:6" in signature  # six characters at most
    assert "nw:0" in signature  # no words: chrF, not chrF++


def test_an_interval_comes_when_asked_for():
    hypotheses = [TEXT[0], "Nobody saw it at all."] * 20

    without = bleu(hypotheses, TEXT * 20)
    score = bleu(hypotheses, TEXT * 20, resamples=50)

    assert without.interval is None
    assert score.value == without.value
    assert score.interval is not None
    assert 0 < score.interval < 50
    assert "bs:50" in score.signature
    assert str(score) == f"BLEU {score.value:.1f} ± {score.interval:.1f}"


OF_TEXT = sorted(METRICS.keys() - NOT_OF_TEXT)


def perfect(name):
    """Return what the metric calls a perfect output."""
    return 100 if measure(name, TEXT, TEXT, language="en").higher_is_better else 0


@pytest.mark.parametrize("name", OF_TEXT)
def test_what_equals_its_reference_is_perfect(name):
    score = measure(name, TEXT, TEXT, language="en")

    assert score.value == pytest.approx(perfect(name))
    assert score.signature


@pytest.mark.parametrize("name", OF_TEXT)
def test_empty_lines_can_be_scored_and_are_bad(name):
    score = measure(name, ["", ""], TEXT, language="en")

    assert score.value == 100 - perfect(name)


@pytest.mark.parametrize("name", OF_TEXT)
def test_as_many_hypotheses_as_references(name):
    with pytest.raises(UsageError, match="1 hypotheses and 2 references"):
        measure(name, TEXT[:1], TEXT, language="en")


@pytest.mark.parametrize("name", OF_TEXT)
def test_nothing_cannot_be_scored(name):
    with pytest.raises(UsageError, match="nothing to score"):
        measure(name, [], [], language="en")


@pytest.mark.parametrize("name", OF_TEXT)
def test_one_text_is_not_taken_for_a_list_of_letters(name):
    with pytest.raises(UsageError, match="lists of texts"):
        measure(name, "abc", "abc", language="en")


def test_an_unknown_metric_is_refused_with_what_is_known():
    with pytest.raises(
        UsageError, match="'bleu2' is not a metric; choose from bleu, chrf"
    ):
        measure("bleu2", TEXT, TEXT)


@pytest.mark.parametrize("name", sorted(NEED_LANGUAGE))
def test_a_metric_that_needs_the_language_asks_for_it(name):
    with pytest.raises(UsageError, match="needs the language"):
        measure(name, TEXT, TEXT)


@pytest.mark.parametrize("name", OF_TEXT)
def test_metrics_of_sacrebleu_give_an_interval_and_the_others_none(name):
    worse = [TEXT[0], "Nobody was there."]
    score = measure(name, worse, TEXT, language="en", resamples=100)

    assert (score.interval is not None) == (name in CAN_RESAMPLE)
    assert score == measure(name, worse, TEXT, language="en", resamples=100)
    assert score.value == measure(name, worse, TEXT, language="en").value


def test_lines_that_are_all_alike_leave_no_doubt():
    score = measure("bleu", ["a b c d e f g."] * 9, ["a b c d e f h."] * 9, resamples=9)

    assert score.interval == pytest.approx(0.0, abs=1e-4)


def test_a_very_long_text_is_resampled_less_often(monkeypatch):
    monkeypatch.setattr(registry, "MAX_RESAMPLED_LINES", 1000)

    assert "bs:500|" in measure("bleu", TEXT, TEXT, resamples=1000).signature
    assert "bs:100|" in measure("bleu", TEXT * 9, TEXT * 9, resamples=1000).signature


def test_the_names_of_metrics_cost_no_library():
    code = (
        "import sys, headwise.metrics.registry\n"
        "print({'sacrebleu', 'sacremoses', 'numpy', 'torch'} & set(sys.modules))"
    )

    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert shown.stdout == "set()\n"
