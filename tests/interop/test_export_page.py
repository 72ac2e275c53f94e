"""The programs in docs/export.md are what stands in exports, and they run."""

import json
import re
import site
import subprocess
import venv
from dataclasses import replace
from pathlib import Path

import ctranslate2
import pytest
from tests.processes import environment

from headwise.decoding.settings import DecodingSettings
from headwise.interop import ctranslate2_script, huggingface_script
from headwise.interop.exports import EXPORTS, export

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "export.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
SCRIPTS = {
    "ctranslate2": ctranslate2_script.SCRIPT,
    "huggingface": huggingface_script.SCRIPT,
}


def test_the_page_shows_the_program_of_each_target():
    assert [SCRIPTS[target] for target in EXPORTS] == PROGRAMS


@pytest.mark.parametrize("name", ["export_parity", "export_parity_multi30k"])
def test_what_was_measured_is_what_is_promised(name):
    """The same words and logits to 1e-4 in float32."""
    measured = json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text())
    rows, sentences = measured["rows"], measured["sentences"]
    for row in (
        "headwise --engine ctranslate2",
        "transformers float32",
        "ctranslate2 float32",
    ):
        assert min(rows[row]["equal"].values()) >= 0.999 * sentences
    assert max(measured["largest_difference_of_logits"].values()) <= 1e-4


SHORT = DecodingSettings(patience=1.0, max_length_factor=1.2, max_length_offset=1)
"""A search whose limit, which follows each source, cuts off many outputs; by the rule
of stopping that all tools have."""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Make an environment that has all packages of this one, and no headwise.

    A link to each, but for ``.pth`` files, by which an editable install would come in.
    """
    place = tmp_path_factory.mktemp("elsewhere")
    venv.create(place / "venv", symlinks=True, with_pip=False)
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    for here in map(Path, dict.fromkeys([*site.getsitepackages(), PACKAGES])):
        for each in here.iterdir() if here.is_dir() else ():
            ours = "headwise" in each.name.lower()
            linked = packages / each.name
            if not (ours or each.suffix == ".pth" or linked.exists()):
                linked.symlink_to(each)

    def run(*arguments, **more):
        return subprocess.run(
            [place / "venv" / "bin" / "python", "-I", "-X", "faulthandler", *arguments],
            cwd=place,
            env=environment(HF_HUB_OFFLINE="1"),
            capture_output=True,
            timeout=300,
            **more,
        )

    return run


PACKAGES = Path(ctranslate2.__file__).parents[1]


def test_there_is_no_headwise_elsewhere(elsewhere):
    """Or the next test would say nothing."""
    assert b"No module named 'headwise'" in elsewhere("-c", "import headwise").stderr
    there = elsewhere("-c", "import ctranslate2, sentencepiece, torch, transformers")
    assert there.returncode == 0, there.stderr


@pytest.mark.parametrize("target", SCRIPTS)
def test_the_program_translates_as_we_do_and_knows_nothing_of_us(
    trained, elsewhere, tmp_path, target
):
    """The program is taken from the export's own README.md, as its reader would."""
    opened = replace(trained.opened, decoding=SHORT)
    found = opened.task.search(opened.model, trained.ids[:21], SHORT)
    mine = trained.decode([best for (best,) in found])
    assert 5 < sum(best.finished for (best,) in found) < 16

    export(tmp_path / "out", opened, target=target)
    readme = (tmp_path / "out" / "README.md").read_text()
    (text,) = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
    program = tmp_path / "translate.py"
    program.write_text(text)
    lines = ["", *trained.sentences[:20], "", trained.sentences[20]]

    done = elsewhere(
        program,
        tmp_path / "out",
        input="".join(f"{line}\n" for line in lines).encode(),
    )

    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split("\n") == ["", *mine[:20], "", mine[20], ""]


@pytest.mark.parametrize("target", SCRIPTS)
def test_the_program_stands_in_the_readme_of_the_export(trained, tmp_path, target):
    export(tmp_path / "out", trained.opened, target=target)

    assert SCRIPTS[target] in (tmp_path / "out" / "README.md").read_text()
