"""Addresses of arrays, as the native library is given them."""

import numpy as np

from headwise.backends.native.arrays import address


def test_an_array_has_the_address_of_its_first_number():
    array = np.arange(6, dtype=np.int64)
    frozen = array[2:]
    frozen.flags.writeable = False

    assert address(array) == array.ctypes.data
    assert address(array[3:]) == array.ctypes.data + 3 * 8
    assert address(frozen) == array.ctypes.data + 2 * 8


def test_an_empty_array_has_an_address_too():
    assert address(np.empty(0, dtype=np.int64))
