"""Matmul by the C kernels, against NumPy's in float64."""

from __future__ import annotations

import math
from ctypes import CDLL, byref
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwise.backends.native.ctypes_structs import (
    ACTIVATIONS,
    ALIGNMENT,
    BF16,
    BF16X3,
    FLOAT32,
    MatmulOptions,
    Matrix,
)


@pytest.fixture(scope="module")
def library(each_library):
    """Return a variant of the native library."""
    return each_library


FORMATS = (FLOAT32, BF16, BF16X3)

UNTOUCHED = 77.0
"""Fills the memory beside a result, which must not change."""


def aligned(size: int) -> np.ndarray:
    """Return so many bytes, aligned as a packed matrix is."""
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + size]


class Packed(NamedTuple):
    """A matrix [inputs, outputs], packed."""

    weight: np.ndarray
    bias: np.ndarray | None
    memory: np.ndarray
    terms: int
    library: CDLL

    def times(self, x, *, activation="none", transposed=False, add=None):
        """Return activation(x W + b) by the kernel; check the memory beside it."""
        inputs, outputs = self.weight.shape
        rows = len(x)
        facts = Matrix(
            inputs=inputs,
            outputs=outputs,
            terms=self.terms,
            weight=self.memory.ctypes.data,
            bias=None if self.bias is None else self.bias.ctypes.data,
        )
        given = np.ascontiguousarray(x.T if transposed else x, dtype=np.float32)
        y = np.full((rows + 1, outputs + 3), UNTOUCHED, np.float32)
        if add is not None:
            y[:rows, :outputs] = add
        scratch = aligned(self.library.matmul_scratch_bytes(inputs, rows))
        self.library.matmul(
            byref(facts),
            given.ctypes.data,
            rows if transposed else inputs,
            rows,
            y.ctypes.data,
            outputs + 3,
            MatmulOptions(
                activation=ACTIVATIONS[activation],
                transposed=transposed,
                accumulate=add is not None,
            ),
            scratch.ctypes.data,
        )
        assert (y[rows:] == UNTOUCHED).all()
        assert (y[:, outputs:] == UNTOUCHED).all()
        return y[:rows, :outputs].copy()


def packed(library, weight, bias=None, *, terms=0) -> Packed:
    inputs, outputs = weight.shape
    memory = aligned(library.packed_bytes(inputs, outputs, terms))
    transposed = np.ascontiguousarray(weight.T)
    library.pack_transposed(
        transposed.ctypes.data, inputs, outputs, terms, memory.ctypes.data
    )
    return Packed(weight, bias, memory, terms, library)


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def rounded(x):
    """Return numbers as bfloat16 has them, by the definition: ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)


REFERENCE = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: np.array(
        [0.5 * each * (1 + math.erf(each / math.sqrt(2))) for each in x.flat]
    ).reshape(x.shape),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def expected(x, matrix, activation="none"):
    weight = matrix.weight
    if matrix.terms == BF16:
        x, weight = rounded(x), rounded(weight)
    sums = x.astype(np.float64) @ weight.astype(np.float64)
    return REFERENCE[activation](sums + (0 if matrix.bias is None else matrix.bias))


def assert_near(found, wanted, inputs):
    np.testing.assert_allclose(
        found, wanted, rtol=2e-5, atol=3e-6 * math.sqrt(inputs) + 1e-6
    )


SIZES = st.sampled_from([1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 530])
ROWS = st.sampled_from([0, 1, 2, 3, 4, 5, 11, 12, 13, 16, 17, 24, 25, 31, 32, 33, 50])


DEEP = {"inputs": 530, "activation": "none", "transposed": True}
"""So deep a matmul with a transposed left operand is computed in several parts."""


@settings(deadline=None, max_examples=300)
@example(**DEEP, rows=13, outputs=33, biased=True, terms=0)
@example(**DEEP, rows=50, outputs=5, biased=False, terms=0)
@given(
    rows=ROWS,
    inputs=SIZES,
    outputs=SIZES,
    activation=st.sampled_from(list(ACTIVATIONS)),
    biased=st.booleans(),
    terms=st.sampled_from(FORMATS),
    transposed=st.booleans(),
)
def test_matmul_equals_numpy(
    library, rows, inputs, outputs, activation, biased, terms, transposed
):
    weight, bias = drawn(1, inputs, outputs), drawn(2, outputs)
    matrix = packed(library, weight, bias if biased else None, terms=terms)
    x = drawn(3, rows, inputs)

    found = matrix.times(x, activation=activation, transposed=transposed)

    assert_near(found, expected(x, matrix, activation), inputs)


@pytest.mark.parametrize("terms", FORMATS)
@pytest.mark.parametrize("outputs", [5, 32, 40])
def test_matmul_can_accumulate_into_its_output(library, terms, outputs):
    matrix = packed(library, drawn(1, 20, outputs), terms=terms)
    x, before = drawn(2, 7, 20), drawn(3, 7, outputs)

    found = matrix.times(x, add=before)

    assert_near(found, expected(x, matrix) + before, 20)


def test_swish_of_large_numbers_is_the_number_or_nothing(library):
    """Worked by hand: e to the power of minus x would be beyond all floats."""
    numbers = np.array([[50, 88, 90, 100, 1000, 1e30]], np.float32)
    one = packed(library, np.eye(6, dtype=np.float32))

    large = one.times(numbers, activation="swish")
    small = one.times(-numbers, activation="swish")

    np.testing.assert_array_equal(large, numbers)
    np.testing.assert_allclose(small[:, :5], 0, atol=1e-18)
    assert -1e-7 < small[0, 5] <= 0


@pytest.mark.parametrize("terms", FORMATS)
@pytest.mark.parametrize(("inputs", "outputs"), [(33, 70), (128, 96), (1, 1)])
def test_a_row_is_the_same_bits_in_any_batch(library, terms, inputs, outputs):
    """Few rows, many rows, another place among them: not even the last bit changes."""
    matrix = packed(library, drawn(1, inputs, outputs), drawn(2, outputs), terms=terms)
    x = drawn(3, 50, inputs)

    whole = matrix.times(x, activation="relu")

    for first in range(0, 50, 7):
        for size in (1, 2, 3, 4, 5, 12, 17, 32):
            part = matrix.times(x[first : first + size], activation="relu")
            np.testing.assert_array_equal(part, whole[first : first + size])


@pytest.mark.parametrize("terms", FORMATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("outputs", [16, 20, 64])
def test_nan_stays_nan_and_in_its_row(library, terms, activation, outputs):
    matrix = packed(library, drawn(1, 40, outputs), drawn(2, outputs), terms=terms)
    x = drawn(3, 14, 40)
    clean = matrix.times(x, activation=activation)
    x[3, 17] = math.nan

    found = matrix.times(x, activation=activation)

    assert np.isnan(found[3]).all()
    kept = np.arange(14) != 3
    np.testing.assert_array_equal(found[kept], clean[kept])


@pytest.mark.parametrize("terms", [0, BF16])
def test_infinite_inputs_stay_infinite(library, terms):
    """Worked by hand: an infinite input times weights of one sign."""
    weight = np.ones((10, 40), np.float32)
    weight[:, 20:] = -1
    matrix = packed(library, weight, terms=terms)
    x = np.ones((3, 10), np.float32)
    x[1, 4] = math.inf

    found = matrix.times(x)
    activated = matrix.times(x, activation="relu")

    assert (found[[0, 2]] == np.where(np.arange(40) < 20, 10, -10)).all()
    assert (found[1, :20] == math.inf).all()
    assert (found[1, 20:] == -math.inf).all()
    assert (activated[1] == np.where(np.arange(40) < 20, math.inf, 0)).all()


@pytest.mark.parametrize("terms", FORMATS)
@pytest.mark.parametrize("shape", [(7, 5), (64, 33), (70, 100)])
def test_pack_matrix_and_pack_transposed_pack_the_same(library, terms, shape):
    """Panels beyond the last column hold zeros, so all bytes can be compared."""
    weight = drawn(1, *shape)
    memory = aligned(library.packed_bytes(*shape, terms))
    library.pack_matrix(weight.ctypes.data, shape[1], *shape, terms, memory.ctypes.data)

    np.testing.assert_array_equal(memory, packed(library, weight, terms=terms).memory)


def test_infinity_does_not_become_finite_in_bf16x3(library):
    matrix = packed(library, drawn(1, 40, 50), terms=BF16X3)
    x = drawn(2, 20, 40)
    clean = matrix.times(x)
    x[5, 7] = math.inf

    found = matrix.times(x)

    assert not np.isfinite(found[5]).any()
    kept = np.arange(20) != 5
    np.testing.assert_array_equal(found[kept], clean[kept])


@pytest.mark.parametrize("transposed", [False, True])
def test_bf16x3_is_float32_to_the_last_bit(library, transposed):
    """A law: the identity matrix changes nothing, on either side."""
    numbers = drawn(1, 40, 40) * 10.0 ** np.arange(-20, 20, dtype=np.float32)
    one = np.eye(40, dtype=np.float32)

    right = packed(library, numbers, terms=BF16X3).times(one, transposed=transposed)
    left = packed(library, one, terms=BF16X3).times(numbers, transposed=transposed)

    np.testing.assert_array_equal(right, numbers)
    np.testing.assert_array_equal(left, numbers)


@pytest.mark.parametrize("terms", [0, BF16X3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_many_long_rows_are_as_exact_as_float32_is(library, terms, transposed, biased):
    """More rows and inputs than stay in cache; two bf16 terms would be far outside."""
    weight, bias = drawn(1, 1100, 70), drawn(2, 70)
    matrix = packed(library, weight, bias if biased else None, terms=terms)
    x, before = drawn(3, 600, 1100), drawn(4, 600, 70)

    found = matrix.times(x, transposed=transposed, add=before)

    wanted = expected(x, matrix) + before.astype(np.float64)
    size = np.abs(x).astype(np.float64) @ np.abs(weight)
    assert (np.abs(found - wanted) < 2.0**-21 * size).all()
    assert np.sqrt(((found - wanted) ** 2).mean()) < 2.0**-24 * size.mean()


@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_many_long_rows_in_bfloat16_equal_numpy(library, activation):
    matrix = packed(library, drawn(1, 1100, 70), drawn(2, 70), terms=BF16)
    x = drawn(3, 900, 1100)

    found = matrix.times(x, activation=activation)

    assert_near(found, expected(x, matrix, activation), 1100)
