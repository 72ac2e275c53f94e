"""Result files: figures, and where they come from.

    measurement = Measurement.begin(sources=SEARCH)  # before anything is measured
    ...
    measurement.write(RESULTS, {"rows": rows})

Beside the figures stand the command, the date, the machine, the versions, the compiler
of the C kernels, and a digest of the sources that the figures depend on: as soon as one
of them changes, ``check_figures.py`` calls the figures stale. Needs only Python.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"

MODEL = (
    *("src/headwise/model/**/*", "src/headwise/backends/**/*"),
    *("src/headwise/tasks/*", "src/headwise/tasks/translation/**/*"),
)
TRAINING = (
    *MODEL,
    *("src/headwise/training/**/*", "src/headwise/data/*", "src/headwise/losses.py"),
    "src/headwise/consistency.py",
)
SEARCH = (*MODEL, "src/headwise/decoding/**/*", "src/headwise/inference/engines/**/*")
TRANSLATION = (*SEARCH, "src/headwise/text/**/*", "src/headwise/inference/*")
EXPORTS = ("src/headwise/interop/**/*",)
SAVING = ("src/headwise/storage/**/*", "src/headwise/run_folder/**/*")
COMMAND_LINE = ("src/headwise/cli/**/*", "src/headwise/__main__.py")
"""Sources that figures often depend on together: globs below the repository."""

KERNELS = "src/headwise/backends/"

PACKAGES = (
    *("headwise", "torch", "numpy", "safetensors", "sentencepiece", "sacrebleu"),
    *("ctranslate2", "transformers", "nltk", "pyppmd"),
)
FLAGS = (
    *("fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16"),
    *("avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "sve", "sve2", "i8mm", "bf16"),
)
"""Of the instruction set, what our kernels, PyTorch or CTranslate2 may make use of."""

VARIABLES = (
    *("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "ONEDNN_", "ATEN_", "CT2_"),
    *("TORCH_", "HEADWISE_", "CUDA_", "CC", "GLIBC_TUNABLES", "MALLOC_"),
    "LD_PRELOAD",
)
"""Beginnings of environment variables that a figure may depend on."""


@dataclass(frozen=True)
class Measurement:
    """What was known when a benchmark began; made by :meth:`begin`."""

    facts: Mapping[str, Any]
    began: float
    busy: float
    own: float

    @classmethod
    def begin(cls, sources: Iterable[str]) -> Measurement:
        """Take note of machine, versions and sources, before anything is measured.

        ``sources`` are globs below the repository; the script that runs is another. The
        kernels' compiler is noted where they name the kernels. Raises ``ValueError``
        where a glob finds no file.
        """
        load = round(os.getloadavg()[0], 2)
        globs = tuple(dict.fromkeys([*sources, *this_script()]))
        facts = {
            "command": command(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "run": {"load_before": load},
            "machine": machine(),
            "versions": versions(),
            **(native_library() if any(KERNELS in each for each in globs) else {}),
            "sources": {glob: digest(glob) for glob in globs},
        }
        return cls(facts, time.monotonic(), busy_seconds(), own_seconds())

    def provenance(self) -> dict[str, Any]:
        """Return where figures come from, to stand in an object beside them.

        For files whose parts are measured one by one; :meth:`write` does it otherwise.
        """
        seconds = time.monotonic() - self.began
        others = busy_seconds() - self.busy - (own_seconds() - self.own)
        told = {
            "seconds": round(seconds),
            "cores_busy_for_others": round(max(0.0, others) / max(seconds, 0.01), 2),
        }
        return {**self.facts, "run": {**self.facts["run"], **told}}

    def write(self, path: Path | None, figures: Mapping[str, Any]) -> None:
        """Write a result file, whole or not at all; again and again, if wished.

        Of a rehearsal there is none, and ``path`` None.
        """
        provenance = self.provenance()
        both = sorted(provenance.keys() & figures.keys())
        if both:
            raise ValueError(f"figures may not be named {', '.join(both)}")
        if path is not None:
            write_json(path, provenance | dict(figures))


def add_options(parser: argparse.ArgumentParser, default: Path) -> None:
    """Add ``--out`` and ``--rehearse``, which are the same in every benchmark."""
    parser.set_defaults(default_out=default)
    parser.add_argument(
        "--out", type=Path, help=f"default: {default.name}; of a rehearsal, nowhere"
    )
    parser.add_argument(
        *("--rehearse", "--quick"),
        action="store_true",
        help="go through all of it with little of everything; figures mean nothing",
    )


def place_of(arguments: argparse.Namespace) -> Path | None:
    """Return where the result goes, by the options that :func:`add_options` added."""
    usual: Path | None = None if arguments.rehearse else arguments.default_out
    return usual if arguments.out is None else Path(arguments.out)


PAIR_OF_NUMBERS = re.compile(r"\[\s+([-+.\de]+),\s+([-+.\de]+)\s+\]")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON for people and programs, whole or not at all; a pair in one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    text = PAIR_OF_NUMBERS.sub(r"[\1, \2]", text)
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def command() -> str:
    """Return the command of this process, to be typed in the repository.

    Of a path outside of it only the last part is told: where a user keeps files is
    nobody's business.
    """
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES)
    ]
    words = [*variables, "python", *sys.orig_argv[1:]]
    return shlex.join(_without_places(word) for word in words)


def _without_places(word: str) -> str:
    name, equals, value = word.rpartition("=")
    if not value.startswith(("/", "~/", "../")):
        return word
    path = Path(value).expanduser().resolve()
    inside = path.is_relative_to(ROOT)
    shown = str(path.relative_to(ROOT)) if inside else f".../{path.name}"
    return f"{name}{equals}{shown}"


def this_script() -> list[str]:
    """Return the script that runs, if it is one of ours: how things are measured."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    path = Path(file or "").resolve()
    if not path.is_file() or not path.is_relative_to(ROOT / "benchmarks"):
        return []
    return [path.relative_to(ROOT).as_posix()]


def machine() -> dict[str, Any]:
    """Describe this machine; what the system does not tell is left out."""
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    told = dict(re.findall(r"^([\w ]+?)\s*:[ \t]*(.*)$", _text("/proc/cpuinfo"), re.M))
    flags = (told.get("flags") or told.get("Features", "")).split()
    family = [told.get(name) for name in ("vendor_id", "cpu family", "model")]
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _text("/proc/meminfo"), re.M)
    found = {
        "processor": told.get("model name") or platform.processor(),
        "family": "/".join(each for each in family if each),
        "flags": [flag for flag in FLAGS if flag in flags],
        "cores": len(cores),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "system": platform.platform(),
    }
    return {name: value for name, value in found.items() if value}


def versions() -> dict[str, str]:
    """Return the version of Python and of what is installed of ``PACKAGES``."""
    found = {"python": platform.python_version(), "libc": " ".join(platform.libc_ver())}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def native_library() -> dict[str, Any]:
    """Return which build of the native library is loaded, or why there is none.

    A process of its own looks: a benchmark may need the package not to be imported yet.
    """
    here = Path(__file__)
    paths = [str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    code = f"import json, {here.stem} as it; print(json.dumps(it.loaded_library()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def loaded_library() -> dict[str, Any]:
    """Return the same, found by this process."""
    from headwise.backends.native import library

    try:
        facts = asdict(library.build()) | {"outcome": library.description()}
    except library.NativeLibraryError as error:
        facts = {"outcome": str(error)}
    return {"native_library": facts}


def digest(glob: str) -> str:
    """Return a digest of the sources that ``glob`` finds, by name and meaning.

    Comments, docstrings and the layout of Python, C and TOML count nothing. Raises
    ``ValueError`` where there is none.
    """
    files = sorted(
        path for path in ROOT.glob(glob) if path.is_file() and path.suffix in _MEANINGS
    )
    if not files:
        raise ValueError(f"no source is found by {glob!r} in {ROOT}")
    whole = hashlib.sha256()
    for path in files:
        meaning = _MEANINGS[path.suffix](path.read_text(encoding="utf-8"))
        whole.update(f"{path.relative_to(ROOT).as_posix()}\0{meaning}\0".encode())
    return whole.hexdigest()


def _meaning_of_python(text: str) -> str:
    return json.dumps(_shape(ast.parse(text)))


def _shape(node: Any) -> Any:
    """Return a syntax tree as lists.

    Unlike ``ast.dump`` it is the same in all versions of Python, which differ in fields
    that are empty.
    """
    if isinstance(node, list):
        return [_shape(each) for each in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(fields.get("body"), list):
        fields["body"] = [each for each in fields["body"] if not _is_text(each)]
    kept = {name: value for name, value in fields.items() if value not in (None, [])}
    return [type(node).__name__, {name: _shape(kept[name]) for name in sorted(kept)}]


def _is_text(statement: ast.stmt) -> bool:
    """Tell whether this is a string that nothing is done with: a docstring."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


_C_COMMENT = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|/\*.*?\*/|//[^\n]*""", re.S
)


def _meaning_of_c(text: str) -> str:
    bare = _C_COMMENT.sub(lambda found: found[1] or " ", text)
    lines = (" ".join(line.split()) for line in bare.splitlines())
    return "\n".join(line for line in lines if line)


def _meaning_of_toml(text: str) -> str:
    return json.dumps(tomllib.loads(text), sort_keys=True, default=str)


def _meaning_of_page(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


_MEANINGS = {
    ".py": _meaning_of_python,
    ".c": _meaning_of_c,
    ".h": _meaning_of_c,
    ".toml": _meaning_of_toml,
    ".js": _meaning_of_page,
    ".css": _meaning_of_page,
    ".html": _meaning_of_page,
}
"""Suffixes of sources, and what of a text makes a difference."""


def busy_seconds() -> float:
    """Return what all cores have worked since the system began; 0 if it is not told."""
    line = _text("/proc/stat").partition("\n")[0].split()
    if not line:
        return 0.0
    user, nice, system, _, _, irq, soft, *_ = map(int, line[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Return what this process and the children that ended have worked."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
