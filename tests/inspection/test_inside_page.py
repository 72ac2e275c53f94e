"""docs/inside.md shows what its commands print."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image

from headwise.__main__ import main
from headwise.demo_corpus import demo_corpus
from headwise.sample_data.scenes import scenes
from headwise.sample_data.sentiment import reviews

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")

NUMBER = re.compile(r"-?\d+\.\d+")

SCENE = "a green cross to the left of a blue circle"

AT_MOST = 0.02
"""By how much a number may differ: processors round differently."""


def shown():
    """Return each command of the page with the lines that it is said to print."""
    found = []
    for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and block.startswith("$ "):
                found[-1][1].append(line)
    return found


SHOWN = shown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with what the page supposes; commands add to it in order."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("demo", "reviews", "trees", "scenes"):
        shutil.copytree(ROOT / "tests" / "models" / name, folder / f"{name}-model")
    tests = reviews().test[:300]
    for side, lines in (
        ("reviews", [each.text for each in tests]),
        ("labels", [each.label for each in tests]),
    ):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{side}.txt").write_text(text, encoding="utf-8")
    scene = next(each for each in scenes().test if each.sentence == SCENE)
    Image.fromarray(scene.pixels()).save(folder / "scene.png")
    pairs = demo_corpus(num_train=0, num_dev=0, num_held_out=300, seed=7).held_out
    for side, lines in (
        ("en", [pair.english for pair in pairs]),
        ("fr", [pair.french for pair in pairs]),
    ):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"dev.{side}").write_text(text, encoding="utf-8")
    return folder


def same(ours, theirs):
    """Tell whether two lines have the same words, and nearly the same numbers."""
    if NUMBER.sub("#", ours).split() != NUMBER.sub("#", theirs).split():
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(
        float(a) == pytest.approx(float(b), abs=AT_MOST, rel=AT_MOST) for a, b in pairs
    )


@pytest.mark.parametrize(
    ("command", "lines"), SHOWN, ids=[f"{n}" for n in range(len(SHOWN))]
)
def test_a_command_prints_what_the_page_says(
    command, lines, folder, monkeypatch, capfdbinary
):
    monkeypatch.chdir(folder)
    engine = ["--engine", "torch"] if " evaluate " in command else []
    monkeypatch.setattr("sys.argv", [*shlex.split(command), *engine])
    with pytest.raises(SystemExit) as ending:
        main()

    assert not ending.value.code
    captured = capfdbinary.readouterr()
    printed = (captured.out + captured.err).decode("utf-8").splitlines()
    position = 0
    for line in (each for each in lines if each != "..."):
        rest = printed[position:]
        matches = [number for number, each in enumerate(rest) if same(line, each)]
        assert matches, f"{line!r} is not among {rest}"
        position += matches[0] + 1


def test_there_are_commands():
    assert len(SHOWN) > 15
    assert all(command.startswith("headwise ") for command, _ in SHOWN)


def test_the_python_example_runs(folder, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(folder)

    exec(compile(code, "docs/inside.md", "exec"), {})

    assert "parce qu'elle était" in capsys.readouterr().out
