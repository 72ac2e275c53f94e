"""``headwise inspect``, as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest

from headwise.inspection.views import VIEWS
from headwise.reports.inspection_views import DRAWINGS

DEMO = Path(__file__).parents[1] / "models" / "demo"
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
IL = "L'animal n'a pas traversé la rue parce qu'il"
ELLE = "L'animal n'a pas traversé la rue parce qu'elle"

OPTIONS = {
    "word": ["--head", "encoder.1.1", "--position", "9"],
    "patch": ["--donor", WIDE, "--target", IL, "--other", ELLE],
    "compare": ["--off", "cross.0.3"],
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Return two files of text, one pair of which has a blank side."""
    folder = tmp_path_factory.mktemp("pairs")
    lines = [
        ("The dog sees two cats.", "Le chien voit deux chats."),
        ("", ""),
        ("The animal is tired.", "L'animal est fatigué."),
        ("The street is wide.", "La rue est large."),
    ]
    paths = folder / "dev.en", folder / "dev.fr"
    for path, side in zip(paths, zip(*lines, strict=True), strict=True):
        path.write_text("".join(f"{each}\n" for each in side), encoding="utf-8")
    return paths


@pytest.mark.parametrize("show", VIEWS)
def test_every_view_prints_a_summary_and_writes_json(headwise, show, tmp_path):
    given = [DEMO, TIRED, "--show", show, *OPTIONS.get(show, [])]
    out = tmp_path / "found.json"

    printed = headwise("inspect", *given)
    written = headwise("inspect", *given, "--out", out)

    assert (printed.code, printed.error) == (0, "")
    assert len(printed.out.splitlines()) > 2
    assert (written.code, written.out) == (0, "")
    table = json.loads(out.read_text(encoding="utf-8"))
    assert (table["format"], table["show"]) == (1, show)


@pytest.mark.parametrize("show", DRAWINGS)
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_views_are_drawn(headwise, show, suffix, tmp_path):
    out = tmp_path / f"found.{suffix}"

    done = headwise(
        "inspect", DEMO, TIRED, "--show", show, *OPTIONS.get(show, []), "--out", out
    )

    assert done.code == 0
    start = {"svg": b"<svg xmlns=", "png": b"\x89PNG"}[suffix]
    assert out.read_bytes().startswith(start)


def test_the_output_is_shown_unless_something_else_is_asked_for(headwise):
    done = headwise("inspect", DEMO, TIRED)

    assert done.out.startswith(f"{IL} était trop fatigué.  (ln p -2.0")
    assert "·fatigué" in done.out


def test_a_head_off_turns_il_into_elle(headwise):
    """What docs/inside.md says of this model."""
    done = headwise("inspect", DEMO, TIRED, "--off", "cross.0.3")

    lines = done.out.splitlines()
    assert lines[0] == "cross.0.3 off:"
    assert lines[1].startswith(f"before  {IL} était")
    assert lines[2].startswith(f"after   {ELLE} était")


def test_a_view_is_of_the_changed_model(headwise):
    plain = headwise("inspect", DEMO, TIRED, "--show", "output", "--target", IL)
    changed = headwise(
        "inspect",
        DEMO,
        TIRED,
        *("--show", "output", "--target", IL),
        *("--off", "cross.0.3", "--no-residual", "decoder.1.feed_forward"),
    )

    assert (plain.code, changed.code) == (0, 0)
    assert plain.out != changed.out


def test_a_prefix_forces_the_next_word(headwise):
    done = headwise("inspect", DEMO, TIRED, "--prefix", ELLE)

    assert f"after   {ELLE} était" in done.out


def test_an_option_without_effect_is_named(headwise):
    done = headwise("inspect", DEMO, TIRED, "--show", "lens", "--head", "cross.0.0")

    assert done.code == 0
    assert done.error == "note: --show lens does without --head\n"


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([], 2, "give a TEXT to look at"),
        ([" "], 4, "the text is blank"),
        (["a\nb"], 4, "the text has several lines; give one"),
        ([TIRED, "--target", " "], 4, "the target is blank"),
        ([TIRED, "--show", "all"], 2, "--show must be one of these, not 'all'"),
        ([TIRED, "--out", "found.txt"], 2, "must end in .json, .svg, .png"),
        ([TIRED, "--out", "no/found.svg"], 2, "no is not a folder"),
        ([TIRED, "--off", "cross.2.0"], 2, "no attention layer cross.2"),
        ([TIRED, "--off", "cross.1.4"], 2, "no head cross.1.4: cross.1 has 4 heads"),
        ([TIRED, "--off", "cross"], 2, "names neither a head"),
        ([TIRED, "--no-residual", "cross.0.0"], 2, "is around a sublayer"),
        ([TIRED, "--show", "word"], 2, "needs one head and one position"),
        ([TIRED, "--show", "patch"], 2, "needs --donor TEXT"),
        ([TIRED, "--show", "compare"], 2, "needs a change"),
        ([TIRED, *OPTIONS["compare"], "--out", "x.svg"], 2, "is not drawn"),
        ([TIRED, "--show", "beam", "--search", "beam=1"], 2, "no tree of a beam"),
        ([TIRED, "--search", "bean=1"], 3, "did you mean beam"),
        ([TIRED, "--prune", "2"], 2, "need --rank-heads"),
        (["--rank-heads", "no.en", "no.fr"], 2, "no.en does not exist"),
        ([TIRED, "--rank-heads", "a", "b"], 2, "TEXT is for one sentence"),
    ],
)
def test_mistakes_are_named(headwise, given, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = headwise("inspect", DEMO, *given)

    assert done.code == code
    assert said in done.error
    assert done.out == ""


def test_heads_are_ranked_with_bleu(headwise, pairs, tmp_path):
    out = tmp_path / "ranking.json"

    done = headwise("inspect", DEMO, "--rank-heads", *pairs, "--bleu", "1")
    written = headwise("inspect", DEMO, "--rank-heads", *pairs, "--out", out)

    lines = done.out.splitlines()
    assert lines[0].split() == ["head", "loss", "95%", "interval", "BLEU"]
    assert lines[1].split()[:3] == ["(none", "off)", "0"]
    assert len([line for line in lines if line.startswith(("enc", "dec", "cro"))]) == 24
    assert "1 pair with a blank side left out" in done.error
    assert written.code == 0
    table = json.loads(out.read_text(encoding="utf-8"))
    assert len(table["heads"]) == 24
    assert table["heads"][0]["heads"][0] == lines[2].split()[0]
    assert table["heads"][0]["sentences"] == 3


def test_a_pruned_model_is_a_model_of_its_own(headwise, pairs, tmp_path):
    out = tmp_path / "pruned"

    done = headwise("inspect", DEMO, "--rank-heads", *pairs, "--prune", 3, "--out", out)

    assert done.code == 0
    assert "the model without 3 heads" in done.error
    assert headwise("doctor", out).code == 0
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "3 heads removed after training, by zeros in W^O: " in card
    assert headwise("translate", out, stdin=b"The dog sleeps.\n").out.strip()


def test_a_model_is_not_replaced_by_its_pruned_self(headwise, pairs, tmp_path):
    folder = tmp_path / "demo"
    shutil.copytree(DEMO, folder)
    before = (folder / "manifest.json").read_bytes()

    given = ["--rank-heads", *pairs, "--prune", 3, "--out", folder]
    done = headwise("inspect", folder, *given)

    assert done.code == 2
    assert "is the model itself" in done.error
    assert (folder / "manifest.json").read_bytes() == before

    other = headwise("inspect", DEMO, *given)  # it was replaced, best models too

    assert other.code == 2
    assert "demo exists; choose a folder that is new or empty" in other.error
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--prune", 3], "--prune needs --out FOLDER"),
        (["--prune", 24, "--out", "new"], "give 1 to 23"),
        (["--out", "found.svg"], "must end in .json here"),
        (["--head", "cross.0.0"], "--head is for one sentence"),
        (["--position", 0], "--position is for one sentence"),
    ],
)
def test_mistakes_of_rankings_are_named(
    headwise, pairs, given, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    done = headwise("inspect", DEMO, "--rank-heads", *pairs, *given)

    assert done.code == 2
    assert said in done.error


def test_files_of_other_lengths_are_refused(headwise, pairs, tmp_path):
    short = tmp_path / "short.fr"
    short.write_text("Le chien.\n", encoding="utf-8")

    done = headwise("inspect", DEMO, "--rank-heads", pairs[0], short)

    assert done.code == 4
    assert "has 4 lines and" in done.error
    empty = tmp_path / "empty"
    empty.write_text("")
    assert (
        "no pair with text"
        in headwise("inspect", DEMO, "--rank-heads", empty, empty).error
    )


def test_statistics_of_heads_are_printed(headwise, pairs, tmp_path):
    out = tmp_path / "statistics.json"

    done = headwise("inspect", DEMO, "--head-statistics", *pairs)
    headwise("inspect", DEMO, "--head-statistics", *pairs, "--out", out)

    lines = done.out.splitlines()
    assert lines[0].split()[:3] == ["head", "entropy", "distance"]
    assert len(lines) == 25
    assert len(json.loads(out.read_text(encoding="utf-8"))["heads"]) == 24


def test_a_target_that_is_not_the_models_own_is_looked_at(headwise, tmp_path):
    out = tmp_path / "found.json"

    headwise("inspect", DEMO, TIRED, "--target", f"{ELLE} rit.", "--out", out)

    table = json.loads(out.read_text(encoding="utf-8"))
    assert table["text"] == f"{ELLE} rit."
    worst = min(table["positions"], key=lambda each: each["log_probability"])
    assert worst["piece"] in ("elle", "▁rit", "▁r")
