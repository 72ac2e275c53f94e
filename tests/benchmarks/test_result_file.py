"""A result file records what made it, and detects when its sources have changed."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import result_file
from benchmarks.result_file import MODEL, Measurement, digest
from tests.processes import environment

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder of sources in the place of the repository."""
    monkeypatch.setattr(result_file, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    return tmp_path / "src"


PYTHON = '''"""What this is."""

def root(x: float) -> float:
    """Return the root."""
    return x**0.5  # not math.sqrt
'''


def digest_of(sources, name, text):
    (sources / name).write_text(text)
    return digest(f"src/{name}")


def test_comments_docstrings_and_layout_of_python_count_nothing(sources):
    bare = "def root(x: float) -> float:\n    return (x\n        ** 0.5)\n"

    assert digest_of(sources, "a.py", PYTHON) == digest_of(sources, "a.py", bare)


@pytest.mark.parametrize(
    "other", [PYTHON.replace("0.5", "0.25"), PYTHON.replace("x**", "-x**"), "root = 1"]
)
def test_another_program_in_python_is_noticed(sources, other):
    assert digest_of(sources, "a.py", PYTHON) != digest_of(sources, "a.py", other)


def test_a_string_that_something_is_done_with_is_no_docstring(sources):
    one, other = (f"def f():\n    g()\n    return '{each}'\n" for each in "ab")

    assert digest_of(sources, "a.py", one) != digest_of(sources, "a.py", other)


C = '/* what\n * this is */\nint twice(int x) {\n    return 2 * x; // "twice"\n}\n'


def test_comments_and_indents_of_c_count_nothing(sources):
    bare = "int twice(int x) {\n\n  return 2 * x;\n}"

    assert digest_of(sources, "a.c", C) == digest_of(sources, "a.c", bare)
    assert digest_of(sources, "a.c", C) != digest_of(sources, "a.c", bare + "int y;")


def test_what_looks_like_a_comment_in_a_string_of_c_counts(sources):
    one, other = (f'char *a = "\\"//{each}";' for each in "xy")

    assert digest_of(sources, "a.c", one) != digest_of(sources, "a.c", other)


def test_a_file_that_is_added_renamed_or_taken_away_is_noticed(sources):
    (sources / "a.py").write_text("x = 1")
    one = digest("src/**/*")
    (sources / "more").mkdir()
    (sources / "more" / "b.py").write_text("x = 1")
    two = digest("src/**/*")
    (sources / "a.py").rename(sources / "c.py")

    assert len({one, two, digest("src/**/*")}) == 3


def test_what_is_no_source_counts_nothing(sources):
    (sources / "a.py").write_text("x = 1")
    before = digest("src/**/*")
    (sources / "a.pyc").write_bytes(b"\0")

    assert digest("src/**/*") == before


def test_a_glob_without_a_source_is_refused(sources):
    with pytest.raises(ValueError, match=r"no source is found by 'src/gone/\*'"):
        digest("src/gone/*")


@pytest.mark.parametrize(
    "group", ["MODEL", "TRAINING", "TRANSLATION", "EXPORTS", "SAVING", "COMMAND_LINE"]
)
def test_every_glob_of_a_group_finds_sources(group):
    assert all(digest(glob) for glob in getattr(result_file, group))


SCRIPT = """
import sys
sys.path.insert(0, {benchmarks!r})
from pathlib import Path
from result_file import MODEL, Measurement
measurement = Measurement.begin(MODEL)
measurement.write(Path({out!r}), {{"rows": [1, 2]}})
"""


def test_a_result_says_what_made_it(tmp_path):
    script, out = tmp_path / "measure.py", tmp_path / "new" / "result.json"
    script.write_text(SCRIPT.format(benchmarks=str(ROOT / "benchmarks"), out=str(out)))
    own = ROOT / "benchmarks" / "README.md"
    words = [f"--corpora={tmp_path}/some", "--set", "a=1", str(own), "~/here"]

    subprocess.run(
        [sys.executable, script, *words],
        check=True,
        env=environment(),
        timeout=120,
    )

    told = json.loads(out.read_text())
    typed = shlex.split(told["command"])
    assert "OMP_NUM_THREADS=1" in typed
    assert typed[typed.index("python") + 1 :] == [
        *(".../measure.py", "--corpora=.../some", "--set", "a=1"),
        *("benchmarks/README.md", ".../here"),
    ]
    assert str(tmp_path) not in out.read_text()
    assert told["rows"] == [1, 2]
    assert told["sources"] == {glob: digest(glob) for glob in MODEL}
    assert told["versions"]["torch"]
    assert told["machine"]["cores"] >= 1
    assert told["run"].keys() == {"load_before", "seconds", "cores_busy_for_others"}
    assert "outcome" in told["native_library"]


def test_figures_may_not_hide_where_they_come_from(tmp_path):
    measurement = Measurement.begin(["src/headwise/losses.py"])

    with pytest.raises(ValueError, match="figures may not be named date"):
        measurement.write(tmp_path / "result.json", {"date": "today"})
    assert "native_library" not in measurement.provenance()


def test_a_result_that_cannot_be_written_leaves_the_old_one(tmp_path):
    measurement = Measurement.begin(["src/headwise/losses.py"])
    measurement.write(tmp_path / "result.json", {"rows": 1})

    with pytest.raises(TypeError):
        measurement.write(tmp_path / "result.json", {"rows": object()})

    assert json.loads((tmp_path / "result.json").read_text())["rows"] == 1


SCRIPTS = [
    path
    for path in sorted((ROOT / "benchmarks").glob("*.py"))
    if re.search(r"\bRESULTS\b", path.read_text()) and path.name != "result_file.py"
]


OPTIONS = "--rehearse", "add_options(parser", "parse_trial_options(parser"
"""How a script comes by its option to rehearse."""

ALL_IN_ONE = "run_data_trials("
"""What takes the options and begins the measurement in place of a script."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_that_has_results_says_where_they_come_from(script):
    text = script.read_text()

    assert "Measurement.begin(" in text or ALL_IN_ONE in text
    assert any(each in text for each in (*OPTIONS, ALL_IN_ONE))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_names_sources_that_are_there(script):
    named = re.findall(
        r'"((?:src|recipes|benchmarks)/[^"]*\*?[^"]*)"', script.read_text()
    )

    assert all(digest(glob) for glob in named if glob.endswith(("*", ".py", ".toml")))
