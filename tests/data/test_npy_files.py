"""Arrays in ``.npy`` files: numpy reads what was appended."""

import numpy as np
import pytest

from headwise.data.npy_files import MappedNpyFile, NpyWriter
from headwise.errors import DataError


@pytest.fixture
def path(tmp_path):
    with NpyWriter(tmp_path / "a.npy", np.uint16) as array:
        array.append([1, 2, 3])
        array.append([])
        array.append(np.arange(60_000))
    return tmp_path / "a.npy"


def test_appended_pieces_are_one_npy_array(path):
    expected = np.concatenate([[1, 2, 3], np.arange(60_000)])

    np.testing.assert_array_equal(np.load(path, allow_pickle=False), expected)
    np.testing.assert_array_equal(MappedNpyFile(path).values, expected)
    assert MappedNpyFile(path).values.dtype == np.uint16


def test_an_npy_array_may_be_empty(tmp_path):
    with NpyWriter(tmp_path / "a.npy", np.int64):
        pass

    assert len(MappedNpyFile(tmp_path / "a.npy").values) == 0


def test_values_are_the_same_after_their_pages_were_released(path):
    array = MappedNpyFile(path)
    before = array.values[:100].copy()

    array.release_pages()

    np.testing.assert_array_equal(array.values[:100], before)


def test_a_memory_map_is_read_only(path):
    with pytest.raises(ValueError, match="read-only"):
        MappedNpyFile(path).values[0] = 7


DAMAGES = {
    "cut": lambda raw: raw[:-1],
    "cut in the header": lambda raw: raw[:50],
    "empty": lambda raw: b"",
    "longer": lambda raw: raw + b"more",
    "no array": lambda raw: b"PK" + raw[2:],
    "of objects": lambda raw: raw.replace(b"<u2", b"|O8", 1),
    "of fractions": lambda raw: raw.replace(b"<u2", b"<f2", 1),
    "of negative length": lambda raw: raw.replace(b"(60003,)", b"(-1,)   "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_npy_file_is_refused(path, damage):
    path.write_bytes(DAMAGES[damage](path.read_bytes()))

    with pytest.raises(DataError, match="cannot be read as an array"):
        MappedNpyFile(path)
