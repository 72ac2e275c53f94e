"""The programs in docs/export.md are what stands in exports, and they run."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwise.decoding.settings import DecodingSettings
from headwise.interop import ctranslate2_script, huggingface_script
from headwise.interop.exports import EXPORTS, export

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
SCRIPTS = {
    "ctranslate2": ctranslate2_script.SCRIPT,
    "huggingface": huggingface_script.SCRIPT,
}


def test_the_page_shows_the_program_of_each_target():
    assert [SCRIPTS[target] for target in EXPORTS] == PROGRAMS


SHORT = DecodingSettings(max_length_factor=1.2, max_length_offset=1)
"""A search whose limit, which follows each source, cuts off many outputs."""


@pytest.mark.parametrize("target", SCRIPTS)
def test_the_program_translates_as_we_do_and_knows_nothing_of_us(
    trained, tmp_path, target
):
    opened = replace(trained.opened, decoding=SHORT)
    found = opened.task.search(opened.model, trained.ids[:21], SHORT)
    mine = trained.decode([best for (best,) in found])
    assert 5 < sum(best.finished for (best,) in found) < 16

    export(tmp_path / "out", opened, target=target)
    program = tmp_path / "translate.py"
    # An import of headwise, by whatever way, would fail.
    program.write_text(f'import sys\nsys.modules["headwise"] = None\n{SCRIPTS[target]}')
    lines = ["", *trained.sentences[:20], "", trained.sentences[20]]

    done = subprocess.run(
        [sys.executable, program, tmp_path / "out"],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )

    assert done.stdout.decode().split("\n") == ["", *mine[:20], "", mine[20], ""]


@pytest.mark.parametrize("target", SCRIPTS)
def test_the_program_stands_in_the_readme_of_the_export(trained, tmp_path, target):
    export(tmp_path / "out", trained.opened, target=target)

    assert SCRIPTS[target] in (tmp_path / "out" / "README.md").read_text()
