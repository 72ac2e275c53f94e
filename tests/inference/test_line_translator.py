"""Lines: split and encoded, searched by settings, and assembled again."""

from dataclasses import replace

import pytest

from headwise.decoding.settings import greedy
from headwise.decoding.warning_settings import WarningSettings
from headwise.inference.line_translator import LineTranslator
from headwise.inference.translator import load


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
