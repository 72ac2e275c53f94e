"""The variable that CTranslate2 reads is there while it opens, and only then."""

import os
import sys

import pytest

from headwise.inference.engines.ctranslate2_processor import (
    REQUIRED_FLAGS,
    VARIABLE,
    avx512_enabled,
)


@pytest.fixture(autouse=True)
def nobody_brought_it_in(monkeypatch):
    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def newer(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(
        f"processor\t: 0\nflags\t\t: fpu {' '.join(REQUIRED_FLAGS)} amx_tile\n"
    )
    return file


def test_avx512_is_enabled_on_a_newer_processor(newer):
    with avx512_enabled(newer):
        assert os.environ[VARIABLE] == "AVX512"
    assert VARIABLE not in os.environ


def test_the_variable_is_removed_also_when_opening_fails(newer):
    with pytest.raises(ValueError, match="no model"), avx512_enabled(newer):
        raise ValueError("no model")
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("lacking", sorted(REQUIRED_FLAGS))
def test_any_other_processor_is_left_to_ctranslate2(tmp_path, lacking):
    file = tmp_path / "cpuinfo"
    file.write_text(f"flags\t\t: {' '.join(REQUIRED_FLAGS - {lacking})}\n")

    with avx512_enabled(file):
        assert VARIABLE not in os.environ


def test_an_unknown_processor_is_left_to_ctranslate2(tmp_path):
    with avx512_enabled(tmp_path / "nothing"):
        assert VARIABLE not in os.environ


def test_an_instruction_set_of_the_user_is_kept(newer, monkeypatch):
    monkeypatch.setenv(VARIABLE, "GENERIC")

    with avx512_enabled(newer):
        assert os.environ[VARIABLE] == "GENERIC"
    assert os.environ[VARIABLE] == "GENERIC"


def test_a_package_that_somebody_else_brought_in_stays_as_it_is(newer, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", object())

    with avx512_enabled(newer):
        assert VARIABLE not in os.environ
