"""A translator takes any text and gives as many lines as it was given."""

import shutil
import warnings
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headwise
from headwise.decoding.warnings import CUT_OFF
from headwise.errors import (
    ModelError,
    SettingsError,
    TranslationWarning,
    UsageError,
)
from headwise.inference.engines.registry import ENGINES
from headwise.inference.translator import Translated, Translator, load
from headwise.run_folder.editing import edit_model

# Of every kind: what ends lines elsewhere, what has no width, halves of characters.
ODD = "\r\x00\x0b\x0c\x1c\x85\u2028\u2029\u200b\ufeff\u0301👩‍👩‍👧\ud800 \t。"
TEXT = st.text(alphabet=st.one_of(st.sampled_from("one two.,;" + ODD), st.characters()))


@pytest.fixture(scope="module")
def translator(tiny_run):
    return load(tiny_run, engine="torch")


@pytest.fixture(scope="module")
def translate(translator):
    def one(text, **search):
        return translator.translate(text, **{"beam": 1, **search})

    return one


def test_the_translator_gives_the_translations_it_was_trained_on(translate):
    """The tiny model is no master; but it has learned how a line ends."""
    assert translate("six six.").endswith(".")


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lines=st.lists(TEXT.map(lambda text: text[:30]), max_size=4))
def test_as_many_lines_come_out_as_went_in_whatever_they_hold(translate, lines):
    lines = [line.replace("\n", " ") for line in lines]
    outputs = translate(lines)

    assert len(outputs) == len(lines)
    for line, output in zip(lines, outputs, strict=True):
        assert "\n" not in output
        assert "\r" not in output or "\r" in line
        if not line.strip():
            assert not output.strip()


def test_a_text_gives_a_text_and_a_list_a_list(translate):
    assert isinstance(translate("one."), str)
    assert translate(["one.", "two."]) == [translate("one."), translate("two.")]
    assert translate([]) == []


def test_translate_accepts_any_iterable(translate):
    texts = ["one.", "two two."]

    assert translate(text for text in texts) == translate(texts)
    assert translate(tuple(texts)) == translate(texts)


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000", "\x85", "\x1c"])
def test_a_blank_line_stays_blank(translate, blank):
    """Also one that a tokenizer has an unknown token for: 0x85 was translated once."""
    assert translate(blank).strip() == ""
    assert translate(["one.", blank, "two."])[::2] == translate(["one.", "two."])


def test_line_breaks_inside_a_text_stay_where_they_are(translate):
    one, two = translate("one."), translate("two two.")

    assert translate("one.\n\ntwo two.\n") == f"{one}\n\n{two}\n"
    assert translate(["one.\ntwo two.", "one."]) == [f"{one}\n{two}", one]
    assert translate("one.\r\ntwo two.\r\n") == f"{one}\r\n{two}\r\n"


def test_lines_may_end_as_those_of_a_file_do(translator):
    """The return of Windows was a space at the end of the translation."""
    lines = ["one.", "one.\n", "one.\r\n"]

    assert len({each.text for each in translator.lines(lines)}) == 1
    assert [each.source for each in translator.lines(lines)] == ["one."] * 3


@pytest.mark.parametrize("left", [chr(0xD800), "\ufffd"])
def test_characters_that_were_no_text_are_told_of(translator, left):
    """They are dropped: a line of them became a blank one without a word."""
    alone, beside = translator.lines([left * 2, f"one {left} two."])

    for number, found in ((2, alone), (1, beside)):
        (warning,) = [each for each in found.warnings if "U+FFFD" in each]
        assert f"{number} U+FFFD or lone surrogate" in warning
    assert "\ud800" not in alone.text


@pytest.mark.parametrize(
    "text", [b"one.", 3, None, [b"one."], ["one.", 3], {"one.": 1}]
)
def test_anything_but_text_is_an_error_that_names_its_type(translate, text):
    with pytest.raises(UsageError, match=r"text.*not (bytes|int|NoneType|dict)"):
        translate(text)


def test_a_line_longer_than_any_before_is_one_line_again_with_a_warning(translator):
    longest = translator.opened.facts.longest_source
    line = "one two three. " * 40
    (result,) = translator.lines([line], beam=1)

    assert "\n" not in result.text
    assert result.source == line
    assert len(result.candidates) == 1
    assert result.warnings[0].startswith(
        f"the line is longer than the {longest} tokens the model was trained for; it "
        "was translated in 40 pieces"
    )
    assert len(result.text.split()) >= 40


def test_a_model_of_single_tokens_is_told_of_one(translator, monkeypatch):
    """It said "the 1 tokens the model was trained for"."""
    facts = replace(translator.opened.facts, longest_source=1)
    opened = replace(translator.opened, facts=facts)
    monkeypatch.setattr(translator, "opened", opened)
    (result,) = translator.lines(["one two."], beam=1)

    assert result.warnings[0].startswith(
        "the line is longer than the 1 token the model was trained for; "
    )


def test_a_line_of_one_endless_word_comes_through_too(translator):
    (result,) = translator.lines(["one" * 300], beam=1)

    assert result.text
    assert "pieces" in result.warnings[0]


def test_a_split_line_says_what_it_goes_without(translator):
    line = "one two three. " * 40

    (found,) = translator.lines([line], num_best=2, alignments=True)

    assert len(found.candidates) == 1
    assert not found.candidates[0].alignment
    (said,) = [each for each in found.warnings if "pieces" in each]
    assert said.endswith("pieces, without alignment, without translations but the best")


def test_n_best_candidates_come_best_first(translator):
    (result,) = translator.lines(["one two six."], beam=4, num_best=3)

    scores = [candidate.score for candidate in result.candidates]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert len({candidate.text for candidate in result.candidates}) == 3
    assert result.text == result.candidates[0].text
    assert all(c.log_probability <= 0 for c in result.candidates)


def test_of_a_line_in_pieces_there_is_one_candidate_with_the_sum_of_scores(translator):
    (whole,) = translator.lines(["one two three. " * 9], beam=2, num_best=2)
    (part,) = translator.lines(["one two three."], beam=2, num_best=1)

    assert len(whole.candidates) == 1
    total = whole.candidates[0].log_probability
    assert total == pytest.approx(9 * part.candidates[0].log_probability, rel=1e-3)


def test_a_cut_off_output_gives_a_warning(translator):
    (result,) = translator.lines(
        ["one two three."], beam=1, max_length_factor=0.0, max_length_offset=1
    )

    assert result.warnings == (CUT_OFF,)


def test_translate_warns_of_each_kind_once_and_names_the_line_of_the_caller(
    translator,
):
    """Texts alone came back: an output that was cut off looked like any other."""
    short = {"max_length_factor": 0.0, "max_length_offset": 1}
    with pytest.warns(TranslationWarning) as one:
        translator.translate("one two.", **short)
    with pytest.warns(TranslationWarning) as several:
        translator.translate(["one.\ntwo.", "", "six."], **short)

    assert [str(each.message) for each in one] == [CUT_OFF]
    assert [str(each.message) for each in several] == [f"in 3 of 4 lines: {CUT_OFF}"]
    assert {each.filename for each in (*one, *several)} == {__file__}


def test_a_good_output_gives_no_warning(translator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert translator.translate(["", "one."])[0] == ""
        with pytest.raises(headwise.TranslationWarning, match="may be cut off"):
            translator.translate("one.", max_length_factor=0.0, max_length_offset=1)


def test_a_missing_alignment_head_is_refused_before_the_search(translator):
    """Without alignments it was taken, and looked for in none of the outputs."""
    for call in (
        lambda **search: translator.translate("one.", **search),
        lambda **search: translator.score(["one."], ["eins."], **search),
        lambda **search: list(translator.lines(["one."], each=[search])),
    ):
        with pytest.raises(SettingsError, match="has 1 decoder block of 2 heads"):
            call(alignment_head="1:0")


def test_one_threshold_of_warnings_leaves_the_others_of_the_model(tiny_run, tmp_path):
    """It put all of them back to their defaults, whatever the model had."""
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    edit_model(folder, search={"warnings": {"unknown": False}})
    (found,) = load(folder).lines(["one Ж."], warnings={"copied": 0.5})

    assert not any("unknown" in each for each in found.warnings)


def test_lines_are_read_as_they_are_needed(translator, monkeypatch):
    """A stream of any length, in bounded memory, first lines first."""
    monkeypatch.setattr("headwise.inference.streaming_translation.BLOCK_LINES", 2)
    taken = []

    def stream():
        for number in range(100):
            taken.append(number)
            yield "one."

    results = translator.lines(stream(), beam=1)
    first = next(results)

    assert isinstance(first, Translated)
    assert len(taken) <= 3


def test_lines_keep_their_order_over_many_blocks(translator, monkeypatch):
    texts = ["one.", "two two two two.", "", "three.", "six five.", " ", "four."]
    whole = translator.translate(texts, beam=1)
    monkeypatch.setattr("headwise.inference.streaming_translation.BLOCK_LINES", 2)

    assert translator.translate(texts, beam=1) == whole


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_outputs(translator, tiny_run, tmp_path, engine):
    texts = ["one two.", "", "five six four."]
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    other = load(folder, engine=engine)  # which may keep an export in it

    assert other.translate(texts) == translator.translate(texts)


def test_an_unknown_engine_is_refused_with_the_known_ones(tiny_run):
    with pytest.raises(UsageError, match="'warp' is not an engine; known: auto"):
        load(tiny_run, engine="warp")


def test_an_invalid_search_setting_is_refused(translate):
    with pytest.raises(SettingsError, match="beam must be 1 or more"):
        translate("one.", beam=0)
    with pytest.raises(SettingsError, match="beem is not a setting; did you mean beam"):
        translate("one.", beem=3)
    with pytest.raises(SettingsError, match="alpha must be a number, not 'much'"):
        translate("one.", alpha="much")


def test_a_run_folder_and_its_model_folder_are_opened_alike(tiny_run, translator):
    for folder in (tiny_run, str(tiny_run), tiny_run / "best"):
        assert load(folder).translate("one six.") == translator.translate("one six.")


def test_a_missing_folder_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="is not a folder"):
        load(tmp_path / "nowhere")


def test_headwise_load_opens_a_translator(tiny_run):
    translator = headwise.load(tiny_run)

    assert isinstance(translator, headwise.Translator)
    assert isinstance(translator, Translator)
    assert translator.decoding == translator.opened.decoding
    with pytest.raises(AttributeError, match="lode"):
        _ = headwise.lode


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"engine": "torch"}, "it was searched again with no_repeat_ngram=3"),
        ({"engine": "auto"}, "it was searched again with no_repeat_ngram=3"),
        ({"engine": "ctranslate2"}, "the translation repeats itself"),
        ({"precision": "int8"}, "the translation repeats itself"),
    ],
    ids=str,
)
def test_a_loop_gives_a_warning_in_an_engine_that_cannot_search_again(
    tiny_run, tmp_path, monkeypatch, how, said
):
    loops = "headwise.decoding.warnings.find_loop"
    monkeypatch.setattr(loops, lambda tokens, limits: tokens[:1])  # whatever it is
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    (found,) = load(folder, **how).lines(["one two."])

    assert any(said in warning for warning in found.warnings)


@pytest.mark.usefixtures("no_kernels_to_choose")
def test_a_forced_prefix_is_for_engines_that_support_it(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run / "best", tmp_path / "model")
    auto = load(folder)
    (slow,) = load(folder, engine="torch").lines(["one two."], prefixes=["zwei"])
    (found,) = auto.lines(["one two."], prefixes=["zwei"])

    assert found.text == slow.text
    assert found.text.startswith("zwei")
    assert auto.engine.used == {"torch": "CTranslate2 supports no forced prefix"}
    with pytest.raises(SettingsError, match="CTranslate2 supports no forced prefix"):
        list(load(folder, engine="ctranslate2").lines(["one."], prefixes=["zwei"]))


@pytest.mark.parametrize("threads", [0, -1, 10**9, "2", 1.5])
def test_an_invalid_number_of_threads_is_refused(tiny_run, threads):
    """A billion of them ended the process, after minutes, without a word."""
    with pytest.raises(UsageError, match=r"from 1 to 1,024, not "):
        load(tiny_run, threads=threads)
