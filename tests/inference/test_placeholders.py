"""What is to be copied comes out as it went in, by every search and engine."""

import random
import shutil
from dataclasses import replace

import pytest
from tests.tiny import SETTINGS, WORDS

from headwise.data.prepare import prepare
from headwise.decoding.settings import DecodingSettings
from headwise.doctor.export_checks import _same_search
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.inference.predictor import Predictor
from headwise.inference.translator import load
from headwise.inspection.interventions import HeadOff
from headwise.inspection.places import parse_head
from headwise.recipe import resolve
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import BEST, PREPARED
from headwise.run_folder.run import train_run
from headwise.text.placeholders import PLACEHOLDER
from headwise.text.tokenizer import open_tokenizers

NAMES = ("Ada", "Bo", "Cy")
SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "exact": {"beam": 3, "stopping": "exact"},
    "sampling": {"search": "sampling", "samples": 2, "num_best": 2},
    "diverse": {"search": "diverse-beam", "beam": 4},
}
URL = "http://example.org/a?b=(c)"
NO_LOOPS = {"beam": 2, "no_repeat_ngram": 3}
"""A search whose outputs ``translate`` never has to search again."""


def write_named_text(folder):
    """Write numbers word for word, with names among them that stay as they are."""
    chance = random.Random(0)
    rows = []
    for _ in range(300):
        row = chance.choices(sorted(WORDS), k=chance.randint(1, 3))
        row.insert(chance.randint(0, len(row)), chance.choice(NAMES))
        rows.append(row)
    for side, said in (("en", {}), ("de", WORDS)):
        text = "".join(" ".join(said.get(w, w) for w in row) + ".\n" for row in rows)
        (folder / f"train.{side}").write_text(text, encoding="utf-8")
    return str(folder / "train.en"), str(folder / "train.de")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("placeholders")
    source, target = write_named_text(folder)
    recipe = resolve(
        extra={
            **SETTINGS,
            "text": {"vocab_size": 60, "placeholders": 0.5},
            "data": {"corpora": [{"source": source, "target": target}]},
        }
    )
    corpus = prepare(
        recipe.data, recipe.text, folder / "run" / PREPARED, seed=recipe.seed
    )
    train_run(folder / "run", recipe, corpus)
    return folder / "run"


@pytest.fixture(scope="module")
def translator(run):
    return load(run, engine="torch")


def test_training_pairs_have_placeholders_on_both_sides_and_validation_none(run):
    from headwise.data.prepared import PreparedCorpus

    corpus = PreparedCorpus.open(run / PREPARED)
    (token,) = open_tokenizers(run / PREPARED / "tokenizer").source.encode(
        f"x{PLACEHOLDER}"
    )[-1:]
    counts = {
        name: [
            ([*split.source(n)].count(token), [*split.target(n)].count(token))
            for n in range(len(split))
        ]
        for name, split in (("train", corpus.train), ("dev", corpus.dev))
    }

    masked = [source for source, _ in counts["train"] if source]
    assert all(source == target for source, target in counts["train"])
    assert 0.3 < len(masked) / len(counts["train"]) < 0.7
    assert set(counts["dev"]) == {(0, 0)}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("line", "copied"),
    [
        (f"one {URL}, two.", [URL]),
        ("one a.b@c.org two three@four.de.", ["a.b@c.org", "three@four.de"]),
        ("two Привет мир one.", ["Привет мир"]),
        ("six 👍🏽.", ["👍🏽"]),
        (f"one {PLACEHOLDER} two.", [PLACEHOLDER]),
    ],
)
def test_each_output_has_each_of_them_once_and_in_order(
    translator, line, copied, search
):
    (found,) = translator.lines([line], **SEARCHES[search])

    for each in found.candidates:
        places = [each.text.find(value) for value in copied]
        assert -1 not in places
        assert places == sorted(places)
        assert all(each.text.count(value) == 1 for value in copied)


@pytest.mark.parametrize(
    "number", ["2024", "3:30", "1,000.50", "12/03/2024", "+49 30 1234567", "20 €"]
)
def test_numbers_are_copied_if_asked_for(translator, number):
    output = translator.translate(f"one {number} two.", beam=2, copy_numbers=True)

    assert output.count(number) == 1


def test_numbers_are_not_copied_by_a_model_without_placeholders(tiny_run):
    with pytest.raises(UsageError, match="copy_numbers is for models"):
        load(tiny_run).translate("one 2024 two.", copy_numbers=True)


def test_lines_without_words_are_copied_whole(translator):
    lines = [URL, f"  ({URL})", "Привет, мир!", ""]

    assert translator.translate(lines) == lines


def test_a_line_beside_it_is_translated_as_alone(translator):
    """A law: a batch does not change a sentence."""
    lines = ["one two.", f"two {URL}.", "three Ada six."]

    together = translator.translate(lines, beam=3)

    assert together == [translator.translate(each, beam=3) for each in lines]
    assert PLACEHOLDER not in "".join(together)


def test_a_long_line_is_split_and_keeps_them(translator):
    line = " ".join(f"one two {URL}{n}." for n in range(8))

    with pytest.warns(UserWarning, match="pieces"):
        output = translator.translate(line)

    assert [word for word in output.replace(". ", " ").split() if "http" in word]
    assert all(f"{URL}{n}" in output for n in range(8))


def test_a_look_inside_sees_what_is_translated(translator):
    line = f"one {URL}, two."
    head = parse_head("cross.0.0")

    found = translator.inspector.compare(line, HeadOff(head), **NO_LOOPS)

    assert found.before[0].text == translator.translate(line, **NO_LOOPS)
    assert found.after[0].text.count(URL) == 1
    shown = translator.inspector.attention(line, heads=[head]).maps[0]
    assert shown.weights.shape[1] == len(translator.inspector.pair(line).source)


def test_bleu_without_heads_is_of_what_is_translated(translator):
    """It was of texts without placeholders, and of an output for the blank line."""
    lines = [f"one {URL}, two.", "", "two Привет мир one."]
    outputs = translator.translate(lines, **NO_LOOPS)

    bleu = translator.inspector.bleu_without([], lines, outputs, **NO_LOOPS)

    assert bleu == pytest.approx(100)


def test_predictions_are_the_translations(run, translator):
    """JSON lines of ``predict`` and validation once had the text unmasked."""
    lines = [f"one {URL}, two.", "", "two Привет мир one."]
    predictor = Predictor(open_model_folder(run / BEST))

    found = predictor.with_search(NO_LOOPS).predictions(lines)

    assert [each.output for each in found] == translator.translate(lines, **NO_LOOPS)
    assert found[0].output.count(URL) == 1


def test_ctranslate2_loses_none_of_them(run):
    """It knows no such rule: what has no place in an output stands at its end."""
    translator = load(run, engine="ctranslate2")

    output = translator.translate(f"one {URL}, two.")

    assert output.count(URL) == 1
    assert PLACEHOLDER not in output


@pytest.mark.parametrize("engine", ["torch", "ctranslate2", "auto"])
def test_no_output_has_one_that_its_source_has_not(run, engine):
    lines = [f"{word} Ada {other}." for word in WORDS for other in WORDS]

    outputs = load(run, engine=engine).translate(lines, beam=3)

    assert PLACEHOLDER not in "".join(outputs)


@pytest.mark.usefixtures("no_kernels_to_choose")
@pytest.mark.parametrize("text", [f"one {URL}.", "one."])
def test_auto_leaves_such_a_model_to_torch_in_place_of_ctranslate2(run, text):
    """To forbid one, CTranslate2 gives all other tokens other probabilities."""
    translator = load(run, engine="auto")

    translator.translate([text])

    assert list(translator.engine.used) == ["torch"]


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface"])
def test_exports_of_such_a_model_may_give_other_words(run, target):
    """Their scripts put no placeholders into texts."""
    opened = open_model_folder(run / BEST)
    search = replace(opened.decoding, patience=1.0, stopping="first-k")

    assert not _same_search(replace(opened, decoding=search), target)


def test_a_model_without_placeholders_has_none(tiny_run):
    opened = load(tiny_run).opened

    assert opened.texts.source_placeholder is None
    assert opened.texts.mask_copied(URL, DecodingSettings()) == (URL, ())


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"text": {"placeholders": 1.5}}, "placeholders must be from 0 to 1, not 1.5"),
        (
            {"text": {"placeholders": 0.1, "tokenizer": "words"}},
            "placeholders needs bpe, unigram or characters, not words",
        ),
        (
            {"text": {"placeholders": 0.1, "symbols": [PLACEHOLDER]}},
            "symbols contains '<copy>', which placeholders adds",
        ),
        (
            {"text": {"placeholders": 0.1}, "task": "language_model"},
            "text.placeholders is for task = 'translation'",
        ),
        (
            {"decoding": {"copy_numbers": True}},
            "decoding.copy_numbers needs text.placeholders above 0",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(extra, message):
    with pytest.raises(SettingsError, match=message):
        resolve(extra=extra)


def test_unknown_names_are_copied_if_asked_for(translator):
    line = "one McZed two."

    output = translator.translate(line, beam=2, copy_names=True)

    assert output.count("McZed") == 1


def test_what_is_copied_from_a_line_in_capitals_stays_in_capitals(translator):
    """Also where the line was put in small letters before words were looked up."""
    output = translator.translate(
        "MCZED ПРИВЕТ THREE FOUR.", beam=2, copy_names=True, recase=True
    )

    assert "MCZED" in output
    assert "ПРИВЕТ" in output


def test_names_are_not_copied_by_a_model_without_placeholders(tiny_run):
    with pytest.raises(UsageError, match="copy_names is for models"):
        load(tiny_run).translate("one McZed two.", copy_names=True)


def test_names_are_not_copied_by_a_model_without_known_words(run):
    codec = open_model_folder(run / BEST).texts
    without = replace(codec, tokenizers=replace(codec.tokenizers, known_words=None))

    with pytest.raises(UsageError, match="needs the list of words"):
        without.mask_copied("one McZed two.", DecodingSettings(copy_names=True))


def test_a_model_has_the_words_of_its_training_sources(run):
    known = open_tokenizers(run / BEST / "tokenizer").known_words

    assert known is not None
    assert known.words == {*WORDS, *map(str.lower, NAMES)}


def test_a_list_of_words_that_was_changed_is_named(run, tmp_path):
    folder = tmp_path / "tokenizer"
    shutil.copytree(run / BEST / "tokenizer", folder)
    (folder / "known_words.json").write_text("{}")

    with pytest.raises(ModelError, match=r"known_words\.json is not the file listed"):
        open_tokenizers(folder)


def test_the_words_of_both_sides_are_known_in_both_directions(tmp_path):
    source, target = write_named_text(tmp_path)
    recipe = resolve(
        extra={
            **SETTINGS,
            "text": {"vocab_size": 60, "placeholders": 0.5},
            "data": {
                "corpora": [{"source": source, "target": target}],
                "both_directions": True,
            },
        }
    )
    corpus = prepare(recipe.data, recipe.text, tmp_path / "corpus", seed=1)

    known = corpus.tokenizers.known_words.words
    assert known == {*WORDS, *WORDS.values(), *map(str.lower, NAMES)}
