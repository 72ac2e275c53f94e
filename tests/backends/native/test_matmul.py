"""Products of many rows with one matrix, against numpy's in float64."""

from __future__ import annotations

import math
from ctypes import CDLL, byref
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwise.backends.native.ctypes_structs import (
    ALIGNED,
    BENDS,
    ROUNDED,
    WHOLE,
    Manner,
    Product,
    kernels,
)


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def library(request, a_compiler_here):
    """Return the kernels for what this processor has, and for one with nothing."""
    if request.param == "this processor":
        return kernels()
    return request.getfixturevalue("kernels_of_any")


WAYS = (0, ROUNDED, WHOLE)
"""Numbers as they are, as one bfloat16, and as three of them."""

UNTOUCHED = 77.0
"""What stands beside a result, and must still stand there."""


def aligned(size: int) -> np.ndarray:
    """Return so many bytes that begin where a matrix may."""
    room = np.zeros(size + ALIGNED, np.uint8)
    first = -room.ctypes.data % ALIGNED
    return room[first : first + size]


class Matrix(NamedTuple):
    """A matrix [inputs, outputs] that was laid out."""

    weight: np.ndarray
    bias: np.ndarray | None
    room: np.ndarray
    parts: int
    library: CDLL

    def times(self, x, *, bend="none", turned=False, add=None):
        """Return bend(x W + b) by the kernel; look that nothing beside it changed."""
        inputs, outputs = self.weight.shape
        rows = len(x)
        facts = Product(
            inputs=inputs,
            outputs=outputs,
            parts=self.parts,
            weight=self.room.ctypes.data,
            bias=None if self.bias is None else self.bias.ctypes.data,
        )
        given = np.ascontiguousarray(x.T if turned else x, dtype=np.float32)
        y = np.full((rows + 1, outputs + 3), UNTOUCHED, np.float32)
        if add is not None:
            y[:rows, :outputs] = add
        spare = aligned(self.library.product_spare(inputs, rows))
        self.library.product_apply(
            byref(facts),
            given.ctypes.data,
            rows if turned else inputs,
            rows,
            y.ctypes.data,
            outputs + 3,
            Manner(bend=BENDS[bend], turned=turned, add=add is not None),
            spare.ctypes.data,
        )
        assert (y[rows:] == UNTOUCHED).all()
        assert (y[:, outputs:] == UNTOUCHED).all()
        return y[:rows, :outputs].copy()


def laid_out(library, weight, bias=None, *, parts=0) -> Matrix:
    inputs, outputs = weight.shape
    room = aligned(library.product_size(inputs, outputs, parts))
    turned = np.ascontiguousarray(weight.T)
    library.product_pack(turned.ctypes.data, inputs, outputs, parts, room.ctypes.data)
    return Matrix(weight, bias, room, parts, library)


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def rounded(x):
    """Return numbers as bfloat16 has them, by the definition: ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)


BEND = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: np.array(
        [0.5 * each * (1 + math.erf(each / math.sqrt(2))) for each in x.flat]
    ).reshape(x.shape),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def expected(x, matrix, bend="none"):
    weight = matrix.weight
    if matrix.parts == ROUNDED:
        x, weight = rounded(x), rounded(weight)
    sums = x.astype(np.float64) @ weight.astype(np.float64)
    return BEND[bend](sums + (0 if matrix.bias is None else matrix.bias))


def assert_near(found, wanted, inputs):
    np.testing.assert_allclose(
        found, wanted, rtol=2e-5, atol=3e-6 * math.sqrt(inputs) + 1e-6
    )


SIZES = st.sampled_from([1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 530])
ROWS = st.sampled_from([0, 1, 2, 3, 4, 5, 11, 12, 13, 16, 17, 24, 25, 31, 32, 33, 50])


DEEP = {"inputs": 530, "bend": "none", "turned": True}
"""A sum of so many, the left side turned, is made in parts."""


@settings(deadline=None, max_examples=300)
@example(**DEEP, rows=13, outputs=33, biased=True, parts=0)
@example(**DEEP, rows=50, outputs=5, biased=False, parts=0)
@given(
    rows=ROWS,
    inputs=SIZES,
    outputs=SIZES,
    bend=st.sampled_from(list(BENDS)),
    biased=st.booleans(),
    parts=st.sampled_from(WAYS),
    turned=st.booleans(),
)
def test_a_product_is_that_of_numpy(
    library, rows, inputs, outputs, bend, biased, parts, turned
):
    weight, bias = drawn(1, inputs, outputs), drawn(2, outputs)
    matrix = laid_out(library, weight, bias if biased else None, parts=parts)
    x = drawn(3, rows, inputs)

    found = matrix.times(x, bend=bend, turned=turned)

    assert_near(found, expected(x, matrix, bend), inputs)


@pytest.mark.parametrize("parts", WAYS)
@pytest.mark.parametrize("outputs", [5, 32, 40])
def test_a_product_can_be_added_to_what_is_there(library, parts, outputs):
    matrix = laid_out(library, drawn(1, 20, outputs), parts=parts)
    x, before = drawn(2, 7, 20), drawn(3, 7, outputs)

    found = matrix.times(x, add=before)

    assert_near(found, expected(x, matrix) + before, 20)


@pytest.mark.parametrize("parts", WAYS)
@pytest.mark.parametrize(("inputs", "outputs"), [(33, 70), (128, 96), (1, 1)])
def test_a_row_is_the_same_bits_in_any_batch(library, parts, inputs, outputs):
    """Few rows, many rows, another place among them: not even the last bit changes."""
    matrix = laid_out(
        library, drawn(1, inputs, outputs), drawn(2, outputs), parts=parts
    )
    x = drawn(3, 50, inputs)

    whole = matrix.times(x, bend="relu")

    for first in range(0, 50, 7):
        for size in (1, 2, 3, 4, 5, 12, 17, 32):
            part = matrix.times(x[first : first + size], bend="relu")
            np.testing.assert_array_equal(part, whole[first : first + size])


@pytest.mark.parametrize("parts", WAYS)
@pytest.mark.parametrize("bend", BENDS)
@pytest.mark.parametrize("outputs", [16, 20, 64])
def test_what_is_no_number_stays_none_and_in_its_row(library, parts, bend, outputs):
    matrix = laid_out(library, drawn(1, 40, outputs), drawn(2, outputs), parts=parts)
    x = drawn(3, 14, 40)
    clean = matrix.times(x, bend=bend)
    x[3, 17] = math.nan

    found = matrix.times(x, bend=bend)

    assert np.isnan(found[3]).all()
    kept = np.arange(14) != 3
    np.testing.assert_array_equal(found[kept], clean[kept])


@pytest.mark.parametrize("parts", [0, ROUNDED])
def test_infinite_numbers_stay_so(library, parts):
    """Worked by hand: an infinite input times weights of one sign."""
    weight = np.ones((10, 40), np.float32)
    weight[:, 20:] = -1
    matrix = laid_out(library, weight, parts=parts)
    x = np.ones((3, 10), np.float32)
    x[1, 4] = math.inf

    found = matrix.times(x)
    bent = matrix.times(x, bend="relu")

    assert (found[[0, 2]] == np.where(np.arange(40) < 20, 10, -10)).all()
    assert (found[1, :20] == math.inf).all()
    assert (found[1, 20:] == -math.inf).all()
    assert (bent[1] == np.where(np.arange(40) < 20, math.inf, 0)).all()


@pytest.mark.parametrize("parts", WAYS)
@pytest.mark.parametrize("shape", [(7, 5), (64, 33), (70, 100)])
def test_a_matrix_given_either_way_is_laid_out_the_same(library, parts, shape):
    """Panels beyond the last column hold zeros, so all bytes can be compared."""
    weight = drawn(1, *shape)
    room = aligned(library.product_size(*shape, parts))
    library.product_lay_out(
        weight.ctypes.data, shape[1], *shape, parts, room.ctypes.data
    )

    np.testing.assert_array_equal(room, laid_out(library, weight, parts=parts).room)


def test_what_is_infinite_does_not_become_finite_in_parts(library):
    matrix = laid_out(library, drawn(1, 40, 50), parts=WHOLE)
    x = drawn(2, 20, 40)
    clean = matrix.times(x)
    x[5, 7] = math.inf

    found = matrix.times(x)

    assert not np.isfinite(found[5]).any()
    kept = np.arange(20) != 5
    np.testing.assert_array_equal(found[kept], clean[kept])


@pytest.mark.parametrize("turned", [False, True])
def test_three_parts_are_a_float32_to_the_last_bit(library, turned):
    """A law: what is multiplied by 1 alone stays as it is, whichever side it is on."""
    numbers = drawn(1, 40, 40) * 10.0 ** np.arange(-20, 20, dtype=np.float32)
    one = np.eye(40, dtype=np.float32)

    right = laid_out(library, numbers, parts=WHOLE).times(one, turned=turned)
    left = laid_out(library, one, parts=WHOLE).times(numbers, turned=turned)

    np.testing.assert_array_equal(right, numbers)
    np.testing.assert_array_equal(left, numbers)


@pytest.mark.parametrize("parts", [0, WHOLE])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_many_long_rows_are_as_exact_as_float32_is(library, parts, turned, biased):
    """More rows and inputs than stay near at a time; two parts would be far outside."""
    weight, bias = drawn(1, 1100, 70), drawn(2, 70)
    matrix = laid_out(library, weight, bias if biased else None, parts=parts)
    x, before = drawn(3, 600, 1100), drawn(4, 600, 70)

    found = matrix.times(x, turned=turned, add=before)

    wanted = expected(x, matrix) + before.astype(np.float64)
    size = np.abs(x).astype(np.float64) @ np.abs(weight)
    assert (np.abs(found - wanted) < 2.0**-21 * size).all()
    assert np.sqrt(((found - wanted) ** 2).mean()) < 2.0**-24 * size.mean()


@pytest.mark.parametrize("bend", ["none", "relu", "gelu"])
def test_many_long_rows_of_bfloat16_are_those_of_numpy(library, bend):
    matrix = laid_out(library, drawn(1, 1100, 70), drawn(2, 70), parts=ROUNDED)
    x = drawn(3, 900, 1100)

    found = matrix.times(x, bend=bend)

    assert_near(found, expected(x, matrix, bend), 1100)
