"""Available and peak memory, as Linux reports them."""

import sys

import pytest
import torch

from headwise.training.memory_usage import ProcessMemory, memory_usage_of

MIB = 2**20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it")


@pytest.fixture
def system(tmp_path):
    """Return a function that writes what a system says, and the usage that reads it."""

    def says(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return ProcessMemory(tmp_path / "proc", tmp_path / "groups")

    (tmp_path / "proc" / "self").mkdir(parents=True)
    return says


@LINUX
def test_peak_memory_includes_freed_memory():
    usage = memory_usage_of(torch.device("cpu"))
    usage.reset_peak()
    before = usage.used()
    block = torch.ones(200 * MIB, dtype=torch.uint8)
    assert usage.used() - before > 190 * MIB
    del block

    assert 190 * MIB < usage.peak() - before < 230 * MIB


@LINUX
def test_an_older_peak_is_reset():
    usage = memory_usage_of(torch.device("cpu"))
    torch.ones(200 * MIB, dtype=torch.uint8)
    usage.reset_peak()

    assert usage.peak() - usage.used() < 20 * MIB


def test_without_leave_to_reset_a_peak_the_memory_in_use_counts(system):
    """A peak of long ago would be taken for one of now."""
    status = "VmHWM:\t    5000 kB\nVmRSS:\t    3000 kB\n"
    usage = system(proc__self__status=status)
    assert usage.peak() == 3000 * 1024

    usage = system(proc__self__clear_refs="")
    usage.reset_peak()
    assert usage.peak() == 5000 * 1024


def test_without_proc_the_peak_is_that_of_getrusage(system):
    usage = system()
    usage.reset_peak()

    assert 50 * MIB < usage.used() < 2**40
    assert usage.free() is None


def test_private_counts_neither_libraries_nor_shared_memory(system):
    """Libraries used to count once more for each process: they lie in memory once."""
    status = (
        "VmRSS:\t 900 kB\nRssAnon:\t 200 kB\nRssFile:\t 300 kB\nRssShmem:\t 400 kB\n"
    )
    assert system(proc__self__status=status).private() == 200 * 1024


MEMINFO = "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n"


def test_free_memory_is_what_the_system_calls_available(system):
    assert system(proc__meminfo=MEMINFO).free() == 8000 * 1024


def test_a_cgroup_of_version_2_may_leave_less(system):
    """2,000,000 may be used and 1,500,000 are; but 300,000 of them can be dropped."""
    usage = system(
        proc__meminfo=MEMINFO,
        proc__self__cgroup="0::/a/b\n",
        **{
            "groups__a__b__memory.max": "max\n",
            "groups__a__b__memory.current": "1\n",
            "groups__a__memory.max": "2000000\n",
            "groups__a__memory.current": "1500000\n",
            "groups__a__memory.stat": "anon 5\ninactive_file 300000\n",
        },
    )

    assert usage.free() == 800_000


def test_a_cgroup_of_version_1_may_leave_less(system):
    """A container sees its own at the root, whatever its name is outside."""
    usage = system(
        proc__meminfo=MEMINFO,
        proc__self__cgroup="4:cpu,memory:/docker/1234\n0::/\n",
        **{
            "groups__memory__memory.limit_in_bytes": "1000000\n",
            "groups__memory__memory.usage_in_bytes": "400000\n",
            "groups__memory__memory.stat": "cache 5\ntotal_inactive_file 1000\n",
        },
    )

    assert usage.free() == 601_000


def test_a_cgroup_over_its_limit_leaves_nothing(system):
    usage = system(
        proc__meminfo=MEMINFO,
        proc__self__cgroup="0::/\n",
        **{"groups__memory.max": "100\n", "groups__memory.current": "150\n"},
    )

    assert usage.free() == 0


def test_on_a_gpu_torchs_unused_cache_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 200)
    usage = memory_usage_of(torch.device("cuda", 0))

    assert (usage.used(), usage.free()) == (200, 1300)
