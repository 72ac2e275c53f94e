"""The C kernels are compiled once, cached where only the user writes, and optional."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headwise.backends.native import compiler
from headwise.backends.native.compiler import NoKernelsError
from headwise.errors import UsageError


class Fake:
    """A compiler that hands out what was compiled before, and counts."""

    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls"
        self.program = folder / "fake-cc"
        self.runs("cp {library} $out")

    def runs(self, command: str) -> None:
        text = f"""\
            #!/bin/sh
            echo called >> {self.calls}
            while [ $# -gt 0 ]; do
                if [ "$1" = -o ]; then out=$2; fi
                shift
            done
            {command.format(library=compiler.library()._name)}
            """
        self.program.write_text(textwrap.dedent(text))
        self.program.chmod(0o755)

    @property
    def count(self) -> int:
        return len(self.calls.read_text().split()) if self.calls.exists() else 0


@pytest.fixture
def fake(kernels_here, tmp_path, monkeypatch):
    """Let the compiler be a fake one, and the cache an empty one."""
    made = Fake(tmp_path)
    monkeypatch.setenv("CC", str(made.program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(compiler.SWITCH, raising=False)
    return made


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "cache" / "headwise" / "kernels"


def test_they_are_compiled_once(fake):
    compiler._loaded()
    assert fake.count == 1

    compiler._loaded()
    assert fake.count == 1


def test_another_compiler_compiles_them_anew(fake):
    compiler._loaded()
    fake.runs("cp {library} $out; true")

    compiler._loaded()
    assert fake.count == 2


def test_what_is_kept_can_be_written_by_nobody_else(fake, kept):
    compiler._loaded()

    files = list(kept.iterdir())
    assert len(files) == 2  # nothing is left over
    assert all(not each.stat().st_mode & 0o077 for each in [kept, *files])


@pytest.mark.parametrize(
    "damage",
    [
        lambda library: library[: len(library) // 2],
        lambda library: b"",
        lambda library: library + b"more",
        lambda library: library[:3000] + b"other" + library[3005:],
    ],
    ids=["half", "nothing", "more", "other"],
)
def test_what_is_not_as_it_was_written_is_compiled_anew(fake, kept, damage):
    compiler._loaded()
    library = next(kept.glob("*.so"))
    content = library.read_bytes()
    library.unlink()  # this process has it in use, so it is another file that is there
    library.write_bytes(damage(content))
    library.chmod(0o600)

    compiler._loaded()
    assert fake.count == 2

    compiler._loaded()
    assert fake.count == 2


@pytest.mark.parametrize("change", [Path.unlink, lambda library: library.chmod(0o666)])
def test_what_is_gone_or_open_to_all_is_compiled_anew(fake, kept, change):
    compiler._loaded()
    change(next(kept.glob("*.so")))

    compiler._loaded()
    assert fake.count == 2


def test_a_note_that_says_nothing_is_written_anew(fake, kept):
    compiler._loaded()
    note = next(each for each in kept.iterdir() if each.suffix != ".so")
    note.write_text("../../elsewhere")

    compiler._loaded()
    assert fake.count == 2


def test_two_processes_may_compile_at_once(fake, kept):
    fake.runs("sleep 0.3; cp {library} $out")
    code = "from headwise.backends.native.compiler import why_unavailable as why"
    code += "; print(why())"

    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=60)[0] for each in both]

    assert said == [b"None\n"] * 2
    assert fake.count == 2
    assert len(list(kept.iterdir())) == 2


def refusal() -> str:
    with pytest.raises(NoKernelsError) as raised:
        compiler._loaded()
    return str(raised.value)


def test_without_a_compiler_it_is_said_what_would_help(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv(compiler.SWITCH, raising=False)
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)

    assert refusal().startswith("no C compiler was found (cc, gcc, clang, ")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no such option >&2; exit 1", "cannot compile the kernels: no such"),
        ("exit 0", "cannot compile the kernels: it wrote no library"),
        ("echo nonsense > $out", "cannot be loaded"),
    ],
)
def test_a_compiler_that_fails_is_quoted(fake, command, said):
    fake.runs(command)

    assert said in refusal()


def test_a_compiler_that_cannot_be_run_is_named(fake):
    fake.program.write_bytes(b"\x7fELF, but no more")

    assert str(fake.program) in refusal()


def test_a_cache_that_cannot_be_made_is_named(fake, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert "XDG_CACHE_HOME may name another folder" in refusal()


def test_a_full_disk_is_told(fake, monkeypatch):
    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)

    assert "No space left on device; XDG_CACHE_HOME" in refusal()


def test_nothing_is_run_from_where_others_may_write(fake, kept):
    kept.mkdir(parents=True)
    kept.chmod(0o777)

    assert f"`chmod 700 {kept}`" in refusal()
    assert fake.count == 0


@pytest.mark.parametrize("off", ["off", "0", "no", "false", "OFF", " No "])
def test_they_can_be_switched_off(fake, monkeypatch, off):
    """``0`` and ``no`` were ignored once, and the kernels ran."""
    monkeypatch.setenv(compiler.SWITCH, off)

    said = f"the C kernels are switched off by HEADWISE_KERNELS={off}"
    assert refusal() == said
    assert fake.count == 0


@pytest.mark.parametrize("on", ["on", "1", "yes", "true", "True", "auto", ""])
def test_what_means_on_or_nothing_switches_nothing_off(fake, monkeypatch, on):
    monkeypatch.setenv(compiler.SWITCH, on)

    compiler._loaded()

    assert compiler.requested() is (None if on in ("auto", "") else True)
    assert fake.count == 1


def test_a_switch_that_means_nothing_is_refused(fake, monkeypatch):
    monkeypatch.setenv(compiler.SWITCH, "offf")

    with pytest.raises(UsageError, match=r"must be off .* or auto, not 'offf'"):
        compiler._loaded()
    assert fake.count == 0


def test_imports_compile_nothing(fake):
    code = "import headwise.model, headwise.inference.translator"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

    assert fake.count == 0


@pytest.mark.usefixtures("a_compiler_here")
def test_the_library_says_what_it_is():
    """Not what its compiler was asked for: the compiler itself fills it in."""
    found = compiler.build()

    assert found.compiler.split()[0] in ("gcc", "clang")
    assert found.flags.startswith("-O3 ")
    assert found.vectors in ("AMX", "AVX-512", "AVX2", "SVE", "NEON", "any processor")
    content = Path(compiler.library()._name).read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith(found.digest)
    for part in (found.compiler, found.flags, found.digest, *found.instructions):
        assert part in str(found)
