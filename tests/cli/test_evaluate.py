"""``headwise evaluate``: scores that say how they were made."""

import json
import shutil
import tempfile

import pytest
from tests.text_metrics import NOT_OF_TEXT

from headwise.decoding.warnings import CUT_OFF
from headwise.errors import ResourceError
from headwise.metrics.registry import METRICS, NEED_LANGUAGE


@pytest.fixture
def text(tmp_path):
    (tmp_path / "source").write_text("one two.\nsix.\n\nfive one.\n")
    (tmp_path / "reference").write_text("eins zwei.\nsechs.\n\nfünf eins.\n")
    return tmp_path / "source", tmp_path / "reference"


def test_every_score_has_its_name_and_signature(headwise, tiny_run, text):
    found = headwise("evaluate", tiny_run, *text)

    assert found.code == 0
    bleu, chrf, ter = found.out.splitlines()
    assert bleu.startswith("BLEU ")
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in bleu
    assert chrf.startswith("chrF ")
    assert ter.startswith("TER ")


@pytest.mark.parametrize("name", sorted(METRICS.keys() - NOT_OF_TEXT))
def test_every_metric_can_be_asked_for(headwise, tiny_run, text, name):
    language = ["--language", "de"] if name in NEED_LANGUAGE else []
    found = headwise("evaluate", tiny_run, *text, "--metric", name, *language)

    assert found.code == 0
    assert len(found.out.splitlines()) == 1


def test_a_language_adds_what_multi30k_papers_report(headwise, tiny_run, text):
    found = headwise("evaluate", tiny_run, *text, "--language", "de")

    assert len(found.out.splitlines()) == 4
    assert "case:lc|norm:moses-de" in found.out


def test_scores_as_json_and_translations_in_a_file(headwise, tiny_run, text, tmp_path):
    found = headwise("evaluate", tiny_run, *text, "--json", "--out", tmp_path / "out")
    lines = (tmp_path / "out").read_text().split("\n")

    assert [score["name"] for score in json.loads(found.out)] == ["BLEU", "chrF", "TER"]
    assert len(lines) == 5
    assert lines[2] == ""


@pytest.mark.parametrize(
    ("how", "engine", "precision"),
    [
        ([], "ctranslate2", "float32"),
        (["--engine", "torch"], "torch", "float32"),
        (["--precision", "int8"], "ctranslate2", "int8"),
    ],
)
@pytest.mark.usefixtures("no_kernels_to_choose")
def test_it_is_said_what_the_outputs_were_made_with(
    headwise, tiny_run, text, how, engine, precision
):
    plain = headwise("evaluate", tiny_run, *text, *how)
    table = headwise("evaluate", tiny_run, *text, *how, "--json")

    for line in plain.out.splitlines():
        assert line.endswith(f"  engine:{engine}|precision:{precision}")
    for score in json.loads(table.out):
        assert (score["engine"], score["precision"]) == (engine, precision)
    assert ("engine: ctranslate2" in plain.error) == ("--engine" not in how)


def test_a_precision_that_the_engine_lacks_is_refused(headwise, tiny_run, text):
    how = ("--engine", "torch", "--precision", "int8")
    found = headwise("evaluate", tiny_run, *text, *how)

    assert (found.code, found.out) == (2, "")
    assert "torch computes in float32" in found.error


def test_nothing_is_lost_when_the_disk_has_filled_up_meanwhile(
    headwise, tiny_run, text, tmp_path, monkeypatch
):
    """The scores were printed, and the translations were gone."""
    out, temporary = tmp_path / "out.de", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def full(path, _):
        raise ResourceError(f"{path} cannot be written: No space left on device")

    wanted = headwise("translate", tiny_run, text[0]).out
    monkeypatch.setattr("headwise.cli.out_files.write_bytes", full)
    found = headwise("evaluate", tiny_run, *text, "--out", out)

    (kept,) = temporary.glob("headwise-*.de")
    assert found.code == 6
    assert found.out.startswith("BLEU ")
    assert found.error.endswith(
        f"{out} cannot be written: No space left on device\n"
        f"the output was saved in {kept}\n"
    )
    assert kept.read_text(encoding="utf-8") == wanted


def test_warnings_are_told_once_a_kind(headwise, tiny_run, text):
    """There were none: an output that was cut off was scored in silence."""
    short = ("--search", "max_length_factor=0", "--search", "max_length_offset=1")
    found = headwise("evaluate", tiny_run, *text, *short)

    assert found.code == 0
    assert f"in 3 of 4 lines: {CUT_OFF}\n" in found.error


@pytest.mark.parametrize(
    ("source", "reference", "code", "said"),
    [
        (b"one.\ntwo.\n", b"eins.\n", 4, "has 2 lines and"),
        (b"", b"", 4, "is empty"),
        (b"one.\n", b"f\xfcnf\n", 4, "line 1, byte 2 of the line: 0xfc is not valid"),
        (None, b"eins.\n", 2, "source does not exist"),
    ],
)
def test_files_of_different_lengths_are_refused(
    headwise, tiny_run, tmp_path, source, reference, code, said
):
    if source is not None:
        (tmp_path / "source").write_bytes(source)
    (tmp_path / "reference").write_bytes(reference)
    found = headwise("evaluate", tiny_run, tmp_path / "source", tmp_path / "reference")

    assert (found.code, found.out) == (code, "")
    assert said in found.error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--metric", "bluer"], "--metric bluer is unknown; choose from bleu"),
        (["--metric", "multi30k-bleu"], "multi30k-bleu needs --language, one of cs"),
        (["--language", "xx"], "not 'xx'"),
        (["--out", "."], "--out . is a folder; name a file"),
    ],
)
def test_a_metric_that_cannot_be_is_refused_before_anything_is_done(
    headwise, tmp_path, arguments, said
):
    found = headwise("evaluate", tmp_path, "no.en", "no.de", *arguments)

    assert (found.code, found.out) == (2, "")
    assert said in found.error


def test_a_folder_that_is_no_model_is_code_5(headwise, text, tmp_path):
    assert headwise("evaluate", tmp_path, *text).code == 5


def test_another_search_can_be_asked_for_and_is_said(headwise, tiny_run, text):
    plain = headwise("evaluate", tiny_run, *text)
    how = ("--beam", 2, "--search", "max_length_offset=1")
    how = (*how, "--search", "max_length_factor=0", "--search", "warnings.copied=0.5")
    found = headwise("evaluate", tiny_run, *text, *how)

    assert found.code == 0
    search = "max_length_offset=1,max_length_factor=0,warnings.copied=0.5,beam=2"
    for line in found.out.splitlines():
        assert line.endswith(f"|search:{search}")
    assert "search:" not in plain.out
    wrong = headwise("evaluate", tiny_run, *text, "--search", "alfa=1")
    assert (wrong.code, wrong.out) == (3, "")
    assert "did you mean alpha?" in wrong.error


def test_the_same_file_named_twice_is_said(headwise, tiny_run, text):
    twice = headwise("evaluate", tiny_run, text[0], text[0])

    assert twice.error.count("in 3 of 3 pairs; was the same file named twice?") == 1


def test_json_lines_are_read_by_named_keys_or_the_languages_of_the_card(
    headwise, tiny_run, text, tmp_path
):
    pairs = list(zip(*(each.read_text().splitlines() for each in text), strict=True))
    for name, keys in (("own", ("en", "de")), ("other", ("a", "b"))):
        rows = (json.dumps(dict(zip(keys, pair, strict=True))) for pair in pairs)
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{row}\n" for row in rows))
    model = shutil.copytree(tiny_run / "best", tmp_path / "model")
    assert headwise("edit", model, "--languages", "en", "de").code == 0
    own, other = tmp_path / "own.jsonl", tmp_path / "other.jsonl"
    by_card = headwise("evaluate", model, own)
    by_name = headwise("evaluate", model, other, "--fields", "a", "b")
    unnamed = headwise("evaluate", model, other)

    assert by_card.out == by_name.out == headwise("evaluate", model, *text).out
    assert "own.jsonl is read by its keys en and de, the languages of" in by_card.error
    assert unnamed.code == 4
    assert "names the keys to read, such as --fields a b;" in unnamed.error


def test_utf_16_is_refused(headwise, tiny_run, text):
    text[1].write_bytes(text[1].read_text().encode("utf-16-le"))
    found = headwise("evaluate", tiny_run, *text)

    assert (found.code, found.out) == (4, "")
    assert f"{text[1]} looks like UTF-16 text" in found.error
