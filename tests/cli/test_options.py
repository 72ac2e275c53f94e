"""A GPU is looked for without torch, where none can be."""

import sys

import pytest

from headwise.cli.options import GPU_DEVICES, may_have_gpu


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev of Linux")
@pytest.mark.parametrize("name", GPU_DEVICES)
def test_a_driver_of_a_gpu_is_seen_in_its_device(name, tmp_path):
    assert not may_have_gpu(tmp_path)
    (tmp_path / name).touch()

    assert may_have_gpu(tmp_path)


def test_other_systems_than_linux_ask_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    assert may_have_gpu(tmp_path)
