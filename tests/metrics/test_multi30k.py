import gzip

import pytest

from headwise.errors import UsageError
from headwise.metrics.bleu_chrf_ter import bleu
from headwise.metrics.multi30k import LANGUAGES, lower_cased_tokens, multi30k_bleu


def test_a_line_as_the_publisher_has_it():
    line = "Eine Frau singt „Ja“, sagt's und geht."

    tokens = lower_cased_tokens(line, language="de")

    assert tokens == ("eine frau singt &quot; ja &quot; , sagt &apos; s und geht .")


def test_apostrophes_follow_the_language():
    assert lower_cased_tokens("L'homme", language="fr") == "l&apos; homme"
    assert lower_cased_tokens("man's", language="en") == "man &apos;s"


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_published_files_are_reproduced(corpora, language):
    """At least 999 of 1,000 lines: Moses and sacremoses differ on rare full stops."""
    folder = corpora / "multi30k"
    name = "test_2016_flickr"
    raw = gzip.decompress((folder / f"{name}.{language}.gz").read_bytes())
    published = (folder / "tok" / f"{name}.lc.norm.tok.{language}").read_bytes()
    lines = raw.decode().rstrip("\n").split("\n")
    theirs = published.decode().rstrip("\n").split("\n")

    ours = [lower_cased_tokens(line, language=language) for line in lines]

    equal = sum(one == other for one, other in zip(ours, theirs, strict=True))
    assert len(lines) == 1000
    assert equal >= 999


def test_case_is_forgiven_and_said_to_be():
    score = multi30k_bleu(
        ["DER HUND SCHLÄFT HEUTE."], ["Der Hund schläft heute."], language="de"
    )

    assert score.value == pytest.approx(100)
    assert score.name == "BLEU, lower-cased, Moses-tokenised"
    assert "case:lc|norm:moses-de" in score.signature
    assert "tok:moses-de-escaped" in score.signature


def test_it_is_another_number_than_plain_bleu():
    hypotheses = ["der Hund schläft heute im Garten."]
    references = ["Der Hund schläft heute im Garten."]

    lower = multi30k_bleu(hypotheses, references, language="de")

    assert lower.value > bleu(hypotheses, references).value
    assert lower.signature != bleu(hypotheses, references).signature


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_of_multi30k_is_known(language):
    assert lower_cased_tokens("Ah, wow.", language=language) == "ah , wow ."


def test_other_languages_are_refused():
    with pytest.raises(UsageError, match="one of cs, de, en, fr, not 'ja'"):
        multi30k_bleu(["a"], ["a"], language="ja")
