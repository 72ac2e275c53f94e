"""The native backend is preferred where its variant was measured to win."""

from __future__ import annotations

from typing import get_args

import pytest

from headwise.backends.native import measured_speed
from headwise.backends.native.cpu_variants import VARIANTS
from headwise.backends.native.library import SWITCH, Build
from headwise.backends.native.measured_speed import (
    FASTEST_FIRST,
    UNMEASURED,
    Use,
    fastest_precision,
    prefers_native,
    ranked,
    why_not_bf16,
    why_not_preferred,
)
from headwise.errors import UsageError


@pytest.fixture
def loaded(monkeypatch):
    """Pretend that this variant of the native library was loaded."""

    def load(variant):
        made = Build(variant, "clang 22.1.8", "-O3", "0123456789ab")
        monkeypatch.setattr(measured_speed, "build", lambda: made)
        monkeypatch.setattr(measured_speed, "why_unavailable", lambda: None)

    monkeypatch.delenv(SWITCH, raising=False)
    return load


@pytest.mark.parametrize("variant", ["amx", "v4-bf16", "v4", "v3"])
@pytest.mark.parametrize("use", get_args(Use))
def test_on_x86_the_native_backend_is_preferred(loaded, variant, use):
    loaded(variant)

    assert ranked(use)[0] == "native"
    assert why_not_preferred(use) is None


def test_what_was_measured_to_be_slower_is_not_preferred(loaded, monkeypatch):
    """As gcc compiled it for AVX2, an update took 4.3 times as long as PyTorch's."""
    loaded("v3")
    order = {
        "training": ("pytorch", "native"),
        "decoding": ("ctranslate2", "native", "pytorch"),
    }
    monkeypatch.setitem(FASTEST_FIRST, "v3", order)

    said = "the native backend is slower here, with AVX2"
    assert why_not_preferred("training") == said
    assert why_not_preferred("decoding", "ctranslate2") == said
    assert prefers_native("decoding")


def test_an_unmeasured_processor_prefers_no_native_backend(loaded):
    loaded("neon")

    for use in get_args(Use):
        assert not prefers_native(use)
        said = "the native backend was never measured with NEON"
        assert why_not_preferred(use) == said


@pytest.mark.parametrize("variant", [each.name for each in VARIANTS])
def test_the_switch_on_prefers_the_native_backend(loaded, monkeypatch, variant):
    loaded(variant)
    monkeypatch.setenv(SWITCH, "yes")

    for use in get_args(Use):
        assert ranked(use)[0] == "native"
        assert why_not_preferred(use) is None
    assert why_not_preferred("decoding", "ctranslate2") is None


def test_without_a_library_the_native_backend_is_not_ranked(monkeypatch):
    monkeypatch.setattr(measured_speed, "why_unavailable", lambda: "no library")
    monkeypatch.setenv(SWITCH, "on")

    for use in get_args(Use):
        assert "native" not in ranked(use)
        assert why_not_preferred(use) == "no library"


@pytest.mark.parametrize(
    ("variant", "vendor", "precision", "why"),
    [
        ("amx", "GenuineIntel", "bf16", None),
        ("v4-bf16", "AuthenticAMD", "bf16", None),
        (
            *("v4-bf16", "GenuineIntel", "float32"),
            "bf16 is slower here, with AVX-512 BF16",
        ),
        (
            *("v4-bf16", "CentaurHauls", "float32"),
            "bf16 was never measured to be faster here, with AVX-512 BF16",
        ),
        ("v4", "AuthenticAMD", None, None),
        ("v3", "AuthenticAMD", None, None),
        ("neon", "", None, None),
    ],
)
def test_bf16_is_preferred_where_it_was_measured_to_be_faster(
    loaded, monkeypatch, variant, vendor, precision, why
):
    """What computes bf16 in float32 leaves no choice."""
    loaded(variant)
    monkeypatch.setattr(measured_speed, "cpu_vendor", lambda: vendor)

    assert fastest_precision() == precision
    assert why_not_bf16() == why


def test_without_a_library_nothing_is_said_of_bf16(monkeypatch):
    monkeypatch.setattr(measured_speed, "why_unavailable", lambda: "no library")

    assert fastest_precision() is None
    assert why_not_bf16() is None


def test_an_invalid_switch_is_an_error(loaded, monkeypatch):
    loaded("v3")
    monkeypatch.setenv(SWITCH, "maybe")

    with pytest.raises(UsageError, match="HEADWISE_NATIVE must be off"):
        prefers_native("training")


def test_every_backend_of_every_use_is_ranked():
    for ways in (*FASTEST_FIRST.values(), UNMEASURED):
        assert sorted(ways["training"]) == ["native", "pytorch"]
        assert sorted(ways["decoding"]) == ["ctranslate2", "native", "pytorch"]
