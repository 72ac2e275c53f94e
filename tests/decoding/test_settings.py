import math
import subprocess
import sys

import pytest

from headwise.decoding.ensemble import AVERAGES
from headwise.decoding.length_penalty import LENGTH_PENALTIES
from headwise.decoding.search import SEARCHES
from headwise.decoding.settings import PRESETS, DecodingSettings, paper
from headwise.decoding.stopping import STOPPING
from headwise.errors import SettingsError
from headwise.metrics.sentence_scores import SENTENCE_SCORES
from headwise.settings import as_table, read


def test_the_paper_preset_is_section_6_1():
    """Beam 4, alpha 0.6, and a source of 7 may become at most 57 tokens."""
    settings = paper()

    assert (settings.beam, settings.alpha) == (4, 0.6)
    assert settings.max_length(7) == 57
    assert settings.penalty(7) == pytest.approx(2**0.6)  # (5 + 7) / 6 = 2


def test_the_default_patience_is_2():
    """With as many as its beam, a sure model ended sentences after two words."""
    settings = DecodingSettings()

    assert settings.stopping == "first-k"
    assert settings.outputs_to_finish == 2 * settings.beam == 8


def test_the_default_ranks_by_the_mean():
    assert DecodingSettings().penalty(7) == 7.0


def test_a_longest_output_is_rounded_down():
    """floor(1.5 * 5) + 3 = 7 + 3; an empty source has the 3 alone."""
    settings = DecodingSettings(max_length_factor=1.5, max_length_offset=3)

    assert settings.max_length(5) == 10
    assert settings.max_length(0) == 3


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_come_back_from_a_table(preset):
    settings = PRESETS[preset]()

    assert read(DecodingSettings, as_table(settings)) == settings


@pytest.mark.parametrize("form", LENGTH_PENALTIES)
@pytest.mark.parametrize("stopping", STOPPING)
def test_every_choice_can_be_set(form, stopping):
    table = {"length_penalty": form, "stopping": stopping}

    assert as_table(read(DecodingSettings, table)).items() >= table.items()


@pytest.mark.parametrize("form", LENGTH_PENALTIES)
def test_alpha_0_makes_all_length_penalties_equal(form):
    assert LENGTH_PENALTIES[form](12, 0.0) == 1.0


def test_all_invalid_settings_are_reported_together():
    with pytest.raises(SettingsError) as caught:
        DecodingSettings(
            beam=2,
            num_best=3,
            alpha=float("nan"),
            max_length_factor=-1.0,
            max_length_offset=0,
            length_penalty="wu",
            stopping="at once",
        )

    assert caught.value.problems == [
        "max_length_offset must be 1 or more, not 0",
        "num_best must be at most beam=2, not 3; beam=3 would allow it",
        "alpha must be a finite number, 0 or more, not nan",
        "max_length_factor must be a finite number, 0 or more, not -1.0",
        "min_length_factor must be at most max_length_factor=-1.0, not 0.0",
        "length_penalty must be one of n^alpha, gnmt, none, word-reward, not 'wu'",
        "stopping must be one of first-k, exact, never, not 'at once'",
    ]


def test_settings_need_no_torch():
    code = "import sys, headwise.decoding.settings as s; print('torch' in sys.modules)"

    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert shown.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "value"), [("max_length_factor", 1e300), ("max_length_offset", 10**12)]
)
def test_a_length_limit_without_room_for_end_is_refused(name, value):
    """Nobody would write it, but a model folder from elsewhere could."""
    with pytest.raises(SettingsError, match=f"{name} must be at most"):
        DecodingSettings(**{name: value})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"beam": 100_000}, "beam must be at most 1,000, not 100,000"),
        ({"num_best": 100_000}, "num_best must be at most 1,000, not 100,000"),
        (
            {"search": "sampling", "samples": 10**9},
            "samples must be at most 1,000, not 1,000,000,000",
        ),
        ({"patience": 1e6}, "patience must be at most 100"),
        (
            {"search": "diverse-beam", "beam": 1000, "groups": 1000},
            "groups must be at most 100, not 1,000: each group of a step waits",
        ),
        (
            {"beam": 500, "max_length_offset": 10_000},
            "beam=500 and outputs of up to 10,200 tokens (for a source of 100) are "
            "5,100,000 tokens for one sentence, and at most 1,000,000 are "
            "allowed; beam=98 would be",
        ),
        ({"beam": 500, "choose": "bleu"}, "beam must be at most 256 with choose"),
    ],
)
def test_expensive_searches_are_refused(changes, problem):
    """A beam of 100,000 used to run for minutes, of which nobody had been told."""
    with pytest.raises(SettingsError) as caught:
        DecodingSettings(**changes)

    (told,) = caught.value.problems
    assert problem in told


@pytest.mark.parametrize(
    "changes",
    [
        {"beam": 1000, "num_best": 1000},
        {"beam": 98, "max_length_offset": 10_000},
        {"search": "sampling", "samples": 1000},
        {"beam": 256, "choose": "chrf"},
    ],
    ids=str,
)
def test_the_largest_allowed_search_is_allowed(changes):
    assert DecodingSettings(**changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"alpha": 500.0}, "alpha must be at most 10, not 500.0"),
        ({"coverage": 1e300}, "coverage must be at most 100"),
        ({"diversity": 1e300}, "diversity must be at most 1,000"),
        ({"repetition_penalty": 1e300}, "repetition_penalty must be at most 100"),
        ({"temperature": 1e300}, "temperature must be at most 1,000"),
        ({"temperature": 1e-300}, "temperature must be 0.001 or more"),
    ],
)
def test_settings_whose_scores_would_overflow_are_refused(changes, problem):
    """20 tokens to the power of 500 once ended in a traceback."""
    with pytest.raises(SettingsError) as caught:
        DecodingSettings(**changes)

    (told,) = caught.value.problems
    assert problem in told


@pytest.mark.parametrize("form", LENGTH_PENALTIES)
def test_every_score_of_the_strongest_penalty_is_a_number(form):
    strongest = DecodingSettings(length_penalty=form, alpha=10.0)
    longest = DecodingSettings(max_length_factor=100, max_length_offset=10_000)

    assert math.isfinite(strongest.score(-1e6, longest.max_length(10_000)))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"patience": 0.0}, "patience must be a finite number above 0"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1"),
        ({"epsilon": 1.0}, "epsilon must be less than 1"),
        ({"min_length_factor": 3.0}, "at most max_length_factor=2.0"),
        ({"min_length_offset": 10}, "less than max_length_offset=10"),
        ({"search": "diverse-beam", "groups": 3}, "beam must be a multiple of groups"),
        ({"search": "diverse-beam", "coverage": 0.1}, "coverage is for search"),
        ({"search": "sampling", "num_best": 2}, "at most samples=1"),
        ({"banned": ("a", " ")}, "one of them is empty"),
        ({"alignment_head": "first"}, "alignment_head must be"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram must be 0 or more"),
        ({"search": "luck"}, "search must be one of beam, diverse-beam, sampling"),
        ({"choose": "wer"}, "choose must be one of score, chrf, bleu"),
    ],
)
def test_invalid_search_settings_are_refused(changes, problem):
    with pytest.raises(SettingsError) as caught:
        DecodingSettings(**changes)

    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


def test_a_least_length_is_always_below_the_greatest():
    settings = DecodingSettings(
        min_length_factor=0.5,
        max_length_factor=0.5,
        min_length_offset=2,
        max_length_offset=3,
    )

    for source in range(20):
        assert settings.min_length(source) == source // 2 + 2
        assert settings.min_length(source) < settings.max_length(source)


def test_the_word_reward_adds_where_others_divide():
    """ln p of -6 in 3 tokens: -6 + 0.5 * 3, and -6 / 3."""
    reward = DecodingSettings(length_penalty="word-reward", alpha=0.5)

    assert reward.score(-6.0, 3) == -4.5
    assert DecodingSettings().score(-6.0, 3) == -2.0


def test_no_length_penalty_falls_as_outputs_grow():
    """Exact stopping relies on it."""
    for form in LENGTH_PENALTIES.values():
        for alpha in (0.0, 0.3, 1.0, 2.0):
            divisors = [form(length, alpha) for length in range(1, 200)]
            assert divisors == sorted(divisors)


def test_choices_of_settings_are_the_keys_of_the_dicts():
    for name, known in (
        ("search", SEARCHES),
        ("ensemble", AVERAGES),
        ("choose", {"score": None, **SENTENCE_SCORES}),
    ):
        for value in known:
            assert read(DecodingSettings, {name: value})
        with pytest.raises(SettingsError) as caught:
            read(DecodingSettings, {name: "none of these"})
        assert all(value in str(caught.value) for value in known)


@pytest.mark.parametrize("head", ["average", "0:0", "5:7", "5:7+1"])
def test_an_existing_alignment_head_is_accepted(head):
    DecodingSettings(alignment_head=head).check_head(6, 8)


@pytest.mark.parametrize("head", ["6:0", "0:8", "99:99", "6:0+1"])
def test_a_missing_alignment_head_is_refused(head):
    settings = DecodingSettings(alignment_head=head)
    with pytest.raises(SettingsError) as caught:
        settings.check_head(6, 8)

    assert caught.value.problems == [
        f"alignment_head = '{head}', but this model has 6 decoder blocks of 8 heads, "
        "counted from 0: '5:7' is the last, and 'average' believes no single one"
    ]


@pytest.mark.parametrize(
    ("search", "names", "notes"),
    [
        ({}, ["beam", "alpha", "patience", "coverage"], []),
        ({}, ["groups"], ["groups changes nothing with search=beam"]),
        ({}, ["seed", "beam"], ["seed changes nothing with search=beam"]),
        ({"search": "diverse-beam"}, ["groups", "diversity"], []),
        ({"search": "sampling"}, ["seed", "top_k"], []),
        (
            {"search": "sampling"},
            ["beam"],
            ["beam changes nothing with search=sampling, only with search=beam or"],
        ),
        (
            {"stopping": "exact"},
            ["patience"],
            ["patience changes nothing with stopping=exact, only with stopping=first"],
        ),
        (
            {"search": "sampling", "stopping": "exact"},
            ["stopping", "patience", "coverage"],
            [
                "stopping changes nothing with search=sampling",
                "patience changes nothing with search=sampling",
                "coverage changes nothing with search=sampling, only with search=beam",
            ],
        ),
        (
            {"beam": 1},
            ["beam", "stopping", "patience"],
            ["patience changes nothing with beam=1, only with beam=2 or more"],
        ),
    ],
)
def test_settings_without_effect_are_reported(search, names, notes):
    told = [*DecodingSettings(**search).without_effect(names)]

    assert len(told) == len(notes)
    assert all(each.startswith(note) for each, note in zip(told, notes, strict=True))
