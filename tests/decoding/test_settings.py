import subprocess
import sys

import pytest

from headwise.decoding.length import LENGTH_PENALTIES
from headwise.decoding.settings import PRESETS, DecodingSettings, paper
from headwise.decoding.stopping import STOPPING
from headwise.errors import SettingsError
from headwise.settings import as_table, read


def test_the_paper_is_section_6_1():
    """Beam 4, alpha 0.6, and a source of 7 may become at most 57 tokens."""
    settings = paper()

    assert (settings.beam, settings.alpha) == (4, 0.6)
    assert settings.max_length(7) == 57
    assert settings.penalty(7) == pytest.approx(2**0.6)  # (5 + 7) / 6 = 2


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
def test_without_alpha_no_form_changes_anything(form):
    assert LENGTH_PENALTIES[form](12, 0.0) == 1.0


def test_all_problems_are_told_together():
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
def test_a_search_without_an_end_is_refused(name, value):
    """Nobody would write it, but a model folder from elsewhere could."""
    with pytest.raises(SettingsError, match=f"{name} must be at most"):
        DecodingSettings(**{name: value})
