"""The number of cores in a container."""

import os

import pytest

from headwise.doctor.cores import allowed_cores


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes a machine of 8 cores with control groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def make(lines, **files):
        (tmp_path / "proc" / "self").mkdir(parents=True)
        (tmp_path / "proc" / "self" / "cgroup").write_text(lines)
        for name, text in files.items():
            path = tmp_path / "groups" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "proc", tmp_path / "groups"

    return make


def test_without_limits_it_is_those_we_may_run_on(machine):
    assert allowed_cores(*machine("0::/\n")) == 8


def test_half_a_core_is_half_a_core(machine):
    files = {"ours__cpu.max": "50000 100000\n"}
    assert allowed_cores(*machine("0::/ours\n", **files)) == 0.5


def test_the_narrowest_group_counts(machine):
    files = {"a__cpu.max": "200000 100000\n", "a__b__cpu.max": "max 100000\n"}
    assert allowed_cores(*machine("0::/a/b\n", **files)) == 2.0


def test_the_first_version_of_control_groups_is_read_too(machine):
    files = {
        "cpu__ours__cpu.cfs_quota_us": "300000\n",
        "cpu__ours__cpu.cfs_period_us": "100000\n",
    }
    assert allowed_cores(*machine("4:cpu,cpuacct:/ours\n", **files)) == 3.0


def test_no_quota_is_no_limit(machine):
    files = {"cpu__cpu.cfs_quota_us": "-1\n", "cpu__cpu.cfs_period_us": "100000\n"}
    assert allowed_cores(*machine("4:cpu:/\n5:memory:/\n", **files)) == 8


def test_a_system_without_control_groups_has_no_limit(tmp_path, machine):
    machine("")
    assert allowed_cores(tmp_path / "none", tmp_path / "none") == 8
