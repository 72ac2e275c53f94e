"""Lines: split and encoded, searched by settings, and assembled again."""

from dataclasses import replace

import pytest

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import greedy
from headwise.decoding.warning_settings import WarningSettings
from headwise.inference.line_translator import LineTranslator
from headwise.inference.translator import load

APART = replace(greedy(), split_sentences=True)


@pytest.fixture(scope="module")
def translator(tiny_run):
    opened = load(tiny_run, engine="torch")
    return LineTranslator(opened.opened, opened.engine)


def encoded(translator, line, settings, prefix=""):
    return list(translator.encode(line, settings, prefix))


def test_a_short_line_is_one_piece_and_a_blank_one_has_no_tokens(translator):
    ((piece, one),) = encoded(translator, "one two.", greedy())
    ((_, blank),) = encoded(translator, "  ", greedy())

    assert piece.text == one.text == "one two."
    assert list(one.tokens) == translator.codec.encode(["one two."])[0]
    assert blank.tokens == ()


def test_a_line_of_the_longest_length_is_one_piece(tiny_run):
    opened = load(tiny_run, engine="torch")
    translator = LineTranslator(opened.opened, opened.engine)
    line = "one two three."
    translator.longest_source = len(translator.codec.encode([line])[0])
    assert len(encoded(translator, line, greedy())) == 1

    translator.longest_source -= 1
    assert len(encoded(translator, line, greedy())) > 1


def test_only_the_first_piece_with_text_has_the_prefix(translator):
    pieces = encoded(translator, "\rone.\rtwo.", greedy(), prefix="sechs")

    prefixes = [bool(each.prefix) for _, each in pieces if each.tokens]
    assert prefixes == [True, False]


def test_pieces_with_equal_settings_are_searched_together(translator):
    """Thresholds of warnings are no part of a search, but kept for its results."""
    strict = replace(greedy(), warnings=WarningSettings(shorter_than=0.0))
    pieces = [
        piece
        for settings in (greedy(), strict, greedy())
        for _, piece in encoded(translator, "one.", settings)
    ]

    searches = translator.submit(pieces)

    assert [list(each.indices) for each in searches] == [[0, 2], [1]]
    assert all(each.settings == greedy() for each in searches)
    assert searches[1].thresholds.shorter_than == 0.0


def test_a_loop_is_searched_again_with_its_prefix(translator):
    asked = []

    class LoopingEngine:
        def can_search(self, settings):
            return True

        def search(self, sources, settings, prefixes=None):
            asked.append((settings.no_repeat_ngram, list(sources), prefixes))
            tokens = (5, 6) if settings.no_repeat_ngram else (5,) * 20
            return [[Hypothesis(tokens, -1.0, -1.0, True)] for _ in sources]

    looping = LineTranslator(translator.opened, LoopingEngine())
    ((_, piece),) = encoded(looping, "one two.", greedy(), prefix="sechs")
    (search,) = looping.submit([piece])
    looping.collect(search)

    source, prefix = [piece.tokens], [translator.codec.prefix("sechs")]
    assert asked == [(0, source, prefix), (3, source, prefix)]


def test_a_line_is_assembled_from_the_results_of_its_pieces(translator):
    line = "one.\r\rtwo."
    pieces, parts = zip(*encoded(translator, line, greedy()), strict=True)
    (search,) = translator.submit([each for each in parts if each.tokens])
    found = iter(translator.collect(search).values())
    results = [next(found) if each.tokens else ([], ()) for each in parts]

    assembled = translator.assemble(line, pieces, parts, results)

    texts = [
        translator.decode(hypotheses[0], part)
        for (hypotheses, _), part in zip(results, parts, strict=True)
        if hypotheses
    ]
    assert assembled.source == line
    assert all(text in assembled.text for text in texts)
    assert "in 2 pieces" in assembled.warnings[0]


def test_a_line_has_the_sum_of_the_scores_of_its_pieces(translator):
    line = "one. Two! Six."
    pieces, parts = zip(*encoded(translator, line, APART), strict=True)
    scores = iter([(-1.0, -2.0), (-0.5, -4.0), (-0.25, -8.0)])
    results = [
        ([Hypothesis((), *next(scores), True)] if each.tokens else [], ())
        for each in parts
    ]

    (candidate,) = translator.assemble(line, pieces, parts, results).candidates

    assert candidate.log_probability == -1.75
    assert candidate.score == -14.0


def test_each_sentence_is_a_piece_if_asked_for(translator):
    pieces, parts = zip(*encoded(translator, " one. Two! ", APART), strict=True)

    assert [each.text for each in parts if each.tokens] == ["one.", "Two!"]
    assert "".join(each.text + each.separator for each in pieces) == " one. Two! "


@pytest.mark.parametrize(
    "settings",
    [
        greedy(),
        replace(APART, beam=2, num_best=2),
        replace(APART, token_scores=True),
        replace(APART, alignments=True),
    ],
)
def test_a_line_stays_whole_otherwise_and_where_details_are_asked_for(
    translator, settings
):
    assert len(encoded(translator, "one. Two!", settings)) == 1


def test_one_sentence_is_as_it_is_without_splitting(translator):
    """A law: so are its spaces, which would be pieces of their own."""
    line = "  one two. "

    assert [
        (piece, part._replace(settings=greedy()))
        for piece, part in encoded(translator, line, APART)
    ] == encoded(translator, line, greedy())


def test_sentences_give_no_warning_and_are_translated_as_by_themselves(tiny_run):
    translator = load(tiny_run, engine="torch")
    apart = {"beam": 1, "split_sentences": True}

    (found,) = translator.lines(["one two. Three six."], **apart)

    alone = translator.translate(["one two.", "Three six."], beam=1)
    assert found.text == " ".join(alone)
    assert not any("was translated in" in each for each in found.warnings)


def test_a_long_line_of_several_sentences_has_the_warning(tiny_run):
    translator = load(tiny_run, engine="torch")
    line = "one two. " + "three " * 200 + "six."

    (found,) = translator.lines([line], beam=1, split_sentences=True)

    assert any("is longer than the" in each for each in found.warnings)


RECASED = replace(greedy(), recase=True)


def test_capitals_are_translated_in_small_letters_and_put_back(tiny_run):
    translator = load(tiny_run, engine="torch")
    search = {"beam": 1, "recase": True}

    capitals, title = translator.translate(["ONE TWO.", "Three Six One Two."], **search)

    small = translator.translate(["One two.", "Three six one two."], beam=1)
    assert [capitals, title] == [small[0].upper(), small[1]]


def test_the_line_tells_the_casing_of_a_short_sentence(translator):
    """ONE alone could be an acronym."""
    both = replace(RECASED, split_sentences=True)

    pieces = [each for _, each in encoded(translator, "ONE! TWO SIX.", both)]
    (alone,) = (each for _, each in encoded(translator, "ONE!", both))

    assert [(each.text, each.in_capitals) for each in pieces] == [
        ("One!", True),
        ("Two six.", True),
    ]
    assert (alone.text, alone.in_capitals) == ("ONE!", False)


def test_a_sentence_in_capitals_may_stand_among_others(translator):
    both = replace(RECASED, split_sentences=True)

    pieces = [each for _, each in encoded(translator, "One two. TWO SIX.", both)]

    assert [(each.text, each.in_capitals) for each in pieces] == [
        ("One two.", False),
        ("Two six.", True),
    ]


@pytest.mark.parametrize(
    ("settings", "prefix"), [(greedy(), ""), (RECASED, "sechs"), (RECASED, "S")]
)
def test_capitals_stay_without_the_setting_or_with_a_prefix(
    translator, settings, prefix
):
    ((_, one),) = encoded(translator, "ONE TWO.", settings, prefix)

    assert (one.text, one.in_capitals) == ("ONE TWO.", False)


def test_many_capitals_in_a_line_give_no_warning_about_its_length(tiny_run):
    """In lower case the line is just short enough; capitals have more tokens."""
    translator = load(tiny_run, engine="torch")
    line = "ONE TWO. THREE SIX."
    encode = translator.opened.tokenizers.source.encode
    lower, upper = len(encode("One two. three six.")), len(encode(line))
    assert lower < upper
    facts = replace(translator.opened.facts, longest_source=lower)
    translator.opened = replace(translator.opened, facts=facts)

    (found,) = translator.lines([line], beam=1, recase=True, split_sentences=True)

    assert not any("longer than" in each for each in found.warnings)
    assert found.text == found.text.upper()
