"""Our safetensors are safetensors: the library reads them, and writes the same."""

import os
import stat

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from headwise.errors import ModelError
from headwise.run_folder import safetensors_files
from headwise.run_folder.safetensors_files import NAMES, read_tensors, write_tensors


def test_the_bytes_are_those_that_the_library_writes(tmp_path):
    weights = {
        "b": torch.randn(3, 5),
        "a": torch.randn(7, dtype=torch.float64),
        "updates": torch.tensor(12),
        "é": torch.randn(0, 4),
    }
    write_tensors(tmp_path / "file", weights)

    assert (tmp_path / "file").read_bytes() == save(weights)


@pytest.mark.parametrize("dtype", NAMES, ids=str)
def test_every_kind_of_number_comes_back(tmp_path, dtype):
    numbers = (torch.arange(15).reshape(3, 5) % 2).to(dtype)
    write_tensors(tmp_path / "file", {"odd": numbers.T, "w": torch.ones(2)})

    with safe_open(tmp_path / "file", framework="pt") as file:
        assert torch.equal(file.get_tensor("odd"), numbers.T)
    assert read_tensors(tmp_path / "file")["odd"].dtype == dtype


def test_pieces_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors_files, "PIECE_BYTES", 24)
    numbers = torch.randn(100)
    write_tensors(tmp_path / "file", {"w": numbers})

    assert torch.equal(read_tensors(tmp_path / "file")["w"], numbers)


def test_others_may_read_the_weights_as_the_umask_allows(tmp_path):
    """The library's own writer leaves a file that only its owner can read."""
    before = os.umask(0o022)
    try:
        write_tensors(tmp_path / "file", {"w": torch.ones(1)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_a_folder_whose_name_is_not_utf_8_holds_tensors_too(tmp_path):
    """The library opens names in UTF-8 only: a run could not load its own model."""
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([7])}
    write_tensors(folder / "file", tensors)
    found = read_tensors(folder / "file")

    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
    (folder / "file").write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match="cannot be read"):
        read_tensors(folder / "file")


def test_what_is_no_safetensors_file_is_said(tmp_path):
    (tmp_path / "file").write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match="file cannot be read"):
        read_tensors(tmp_path / "file")
