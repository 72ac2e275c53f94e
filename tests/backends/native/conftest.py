"""The variants of the native library, each where this processor can run it."""

from __future__ import annotations

import pytest

from headwise.backends.native.cpu_variants import VARIANTS, usable
from headwise.backends.native.ctypes_structs import typed
from headwise.backends.native.library import NativeLibraryError, load_variant


@pytest.fixture(
    scope="module", params=usable() or VARIANTS[:1], ids=lambda each: each.name
)
def each_library(request):
    """Return each variant of the native library that this processor can run."""
    try:
        return typed(load_variant(request.param))
    except NativeLibraryError as error:
        pytest.skip(f"{request.param.name}: {error}")
