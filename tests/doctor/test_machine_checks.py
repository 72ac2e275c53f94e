"""Checks of the machine, simulated ones included."""

import shutil
import tempfile

import pytest
import torch

from headwise import __version__
from headwise.doctor import check_machine, machine_checks
from headwise.doctor.machine_checks import (
    check_allocator,
    check_cpu,
    check_disk_here,
    check_encoding,
    check_temporary_disk,
    check_threads,
    check_torch_build,
)


def test_the_machine_is_described():
    found = {each.what: each for each in check_machine()}

    assert found["headwise"].found == __version__
    assert found["torch"].found == torch.__version__
    assert {
        *("build of torch", "GPU", "threads", "processor", "allocator", "memory"),
        *("disk here", "disk for temporary files", "encoding"),
    } <= found.keys()
    assert all(each.advice for each in found.values() if each.status == "FAILED")


def test_a_full_disk_is_a_fault(monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=2**20)
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda path: usage)

    found = {each.what: each for each in check_machine()}
    assert found["disk here"].status == "FAILED"
    assert "free some space" in found["disk here"].advice


def test_a_current_folder_that_was_deleted_is_a_fault(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    check = check_disk_here()

    assert (check.status, check.found) == ("FAILED", "the current folder was deleted")


def test_no_place_for_temporary_files_is_a_fault(monkeypatch):
    """With a full /tmp the doctor ended there, before what came after."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    check = check_temporary_disk({})

    assert check.status == "FAILED"
    assert check.found.startswith("No usable temporary directory found in ['/proc/")
    assert "set TMPDIR" in check.advice


def test_a_folder_for_temporary_files_that_python_passes_over_is_noted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    assert check_temporary_disk({"TMPDIR": str(tmp_path)}).status == "ok"
    check = check_temporary_disk({"TMPDIR": "/full"})
    assert check.status == "note"
    assert (
        check.found == f"TMPDIR=/full cannot be written to; {tmp_path} is used instead"
    )


def test_little_memory_is_a_fault(monkeypatch):
    monkeypatch.setattr(machine_checks.ProcessMemory, "free", lambda self: 2**28)

    found = {each.what: each for each in check_machine()}
    assert found["memory"].found.startswith("0.2 GiB free")
    assert "--batch-tokens auto" in found["memory"].advice


@pytest.mark.parametrize(
    ("cuda", "usable", "driver", "status", "said"),
    [
        (None, False, False, "ok", "for the CPU"),
        (None, False, True, "note", "install the CUDA build"),
        ("12.8", True, True, "ok", "for CUDA 12.8"),
        ("12.8", False, False, "note", "gigabytes smaller"),
        ("12.8", False, True, "FAILED", "nvidia-smi"),
    ],
)
def test_the_build_of_torch_is_held_against_the_machine(
    tmp_path, cuda, usable, driver, status, said
):
    if driver:
        (tmp_path / "version").write_text("NVRM version: 580")

    check = check_torch_build(cuda, usable, tmp_path / "version")
    assert check.status == status
    assert said in f"{check.found} {check.advice}"


@pytest.mark.parametrize(
    ("threads", "cores", "environment", "status", "advice"),
    [
        (2, 2.0, {}, "ok", None),
        (8, 2.0, {}, "FAILED", "--threads 2"),
        (16, 0.5, {}, "FAILED", "OMP_NUM_THREADS=1"),
        (1, 0.5, {}, "ok", None),
        (1, 4.0, {"OMP_NUM_THREADS": "1"}, "note", "--threads 4"),
        (4, 8.0, {}, "ok", None),  # cores may come in pairs that share their units
    ],
)
def test_threads_are_held_against_cores(threads, cores, environment, status, advice):
    check = check_threads(threads, cores, environment)

    assert check.status == status
    assert advice is None if check.advice is None else advice in check.advice


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        ("fpu sse2", "note", "a fraction of the speed"),
        ("avx2 fma", "ok", "training uses float32"),
        (
            *("avx2 avx512f avx512_bf16", "ok"),
            "bf16 dot products, not measured to be faster, so training uses float32",
        ),
        (
            "avx2 avx512f avx512_bf16\nvendor_id\t: AuthenticAMD",
            *("ok", "bf16 dot products (AVX-512 BF16), so training uses bf16"),
        ),
        ("avx2 avx512f amx_bf16 amx_tile", "ok", "training uses bf16"),
    ],
)
def test_what_a_processor_can_do_is_said(tmp_path, monkeypatch, flags, status, said):
    monkeypatch.setattr(machine_checks.platform, "machine", lambda: "x86_64")
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")

    check = check_cpu(tmp_path / "cpuinfo")
    assert check.status == status
    assert said in f"{check.found} {check.advice}"


def test_a_system_that_tells_nothing_of_its_processor_is_no_fault(tmp_path):
    check = check_cpu(tmp_path / "not there")

    assert check.status == "ok"
    assert "not known" in check.found


def test_the_allocator_is_named(monkeypatch):
    jemalloc = {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}
    assert "jemalloc" in check_allocator("linux", jemalloc).found
    assert check_allocator("darwin", {}).status == "skipped"
    monkeypatch.setattr(machine_checks.platform, "libc_ver", lambda: ("glibc", "2.36"))
    assert check_allocator("linux", {}).found.startswith("glibc 2.36")
    monkeypatch.setattr(machine_checks.platform, "libc_ver", lambda: ("", ""))
    assert check_allocator("linux", {}).status == "note"


def test_an_encoding_that_cannot_hold_every_character_is_noted():
    assert check_encoding("utf-8", "UTF-8").status == "ok"
    check = check_encoding("ascii", "ANSI_X3.4-1968")
    assert check.status == "note"
    assert "PYTHONUTF8=1" in check.advice
