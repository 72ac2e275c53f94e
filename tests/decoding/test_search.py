import pytest

from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import PRESETS, DecodingSettings

START, A, B, END = range(4)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_search_preset_finds_outputs(history, preset):
    model = history(seed=0, vocabulary=7)
    settings = PRESETS[preset]()
    sentences = list(range(6))

    outputs = search(
        model,
        model.state(sentences),
        settings,
        SearchRequest(source_lengths=[2] * 6, start=START, end=END, forbidden=(START,)),
    )

    for found in outputs:
        assert len(found) == settings.num_best
        assert len(found[0].tokens) <= settings.max_length(2)
        assert START not in found[0].tokens


def test_length_limits_depend_on_the_source(table):
    """No END is ever written: 2 * 3 + 1 and 2 * 0 + 1 tokens."""
    model = table([[0, 1.0, 0, 0]] * 4)

    for beam in (1, 3):
        settings = DecodingSettings(
            beam=beam, max_length_factor=2.0, max_length_offset=1
        )
        (long,), (short,) = search(
            model,
            model.state(),
            settings,
            SearchRequest(source_lengths=[3, 0], start=START, end=END),
        )
        assert (len(long.tokens), len(short.tokens)) == (7, 1)
