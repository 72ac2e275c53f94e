"""A figure in the documents is what was measured, or it is named."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

PAGE = """# Speed

It is {times} times as fast, `--beam 4`,
on [two cores](figures.md#4-ms):

| greedily | {speed} |

```
translate --within 7 ms
```
"""

TIES = """
[[figure]]
page = "README.md"
text = "It is {a:.1f} times as fast"
result = "speed.json"
[figure.values]
a = { quotient = ["/rows/who=ours,beam=4/speed", "/rows/who=theirs,beam=4/speed"] }

[[figure]]
page = "README.md"
text = "| greedily | {a:,.0f} |"
result = "speed.json"
[figure.values]
a = "/rows/who=ours,beam=1/speed"
"""

ROWS = [
    {"who": "ours", "beam": 1, "speed": 1234.4},
    {"who": "ours", "beam": 4, "speed": 850},
    {"who": "theirs", "beam": 4, "speed": 200},
]


class Repository:
    """A small repository, with one page and one result."""

    def __init__(self, root):
        self.root = root
        for folder in ("docs", "src", "benchmarks/results"):
            (root / folder).mkdir(parents=True)
        (root / "src" / "fast.py").write_text("x = 1")
        self.says(times="4.3", speed="1,234")
        self.ties(TIES)

    def says(self, **figures):
        (self.root / "README.md").write_text(PAGE.format(**figures))

    def ties(self, text):
        (self.root / "docs" / "figures.toml").write_text(text)

    def measured(self, **facts):
        path = self.root / "benchmarks" / "results" / "speed.json"
        path.write_text(json.dumps({"rows": ROWS, **facts}))

    def checked(self):
        check_figures = sys.modules["check_figures"]
        check_figures._now.cache_clear()
        check_figures.read.cache_clear()
        return check_figures.checked(self.root)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import check_figures  # noqa: F401 - as a script, it is no part of a package
    import result_file

    monkeypatch.setattr(result_file, "ROOT", tmp_path)
    made = Repository(tmp_path)
    made.measured(sources={"src/*": result_file.digest("src/*")})
    return made


def test_figures_that_were_measured_are_right_and_fresh(repository):
    report = repository.checked()

    assert (report.errors, report.stale, report.tied) == ([], {}, 2)


@pytest.mark.parametrize(("times", "right"), [("4.2", True), ("4.4", False)])
def test_a_half_may_be_rounded_up_or_as_python_does(repository, times, right):
    """850 / 200 is 4.25: people write 4.3, Python 4.2."""
    repository.says(times=times, speed="1,234")

    assert (repository.checked().errors == []) is right


def test_a_figure_that_is_not_the_measured_one_is_wrong(repository):
    repository.says(times="4.3", speed="1,334")

    errors = repository.checked().errors

    assert len(errors) == 2  # the value is not there, and what is there has no result
    assert errors[0].startswith("README.md: does not say '| greedily | 1,234 |'")
    assert "1,334" in errors[1]


def test_a_figure_that_is_tied_to_nothing_is_wrong(repository):
    (repository.root / "docs" / "more.md").write_text("It takes 12 ms, BLEU **37.9**.")

    errors = repository.checked().errors

    assert [each.split(":")[0] for each in errors] == ["docs/more.md"] * 2
    assert all("stands in no result file" in each for each in errors)


def test_what_is_said_to_have_no_result_is_listed_if_it_should_have_one(repository):
    (repository.root / "docs" / "more.md").write_text("It took 12 ms, of 30 s allowed.")
    entry = "[[without]]\npage='docs/more.md'\nkind='{}'\ntext='{}'\nwhy='by hand'\n"
    repository.ties(
        TIES + entry.format("owed", "took 12 ms") + entry.format("given", "30 s")
    )

    report = repository.checked()

    assert report.errors == []
    assert report.owed == ["docs/more.md: 'took 12 ms': by hand"]


def test_a_changed_source_makes_a_figure_stale_but_not_wrong(repository):
    (repository.root / "src" / "fast.py").write_text("x = 2")

    report = repository.checked()

    assert report.errors == []
    assert report.stale == {
        "benchmarks/results/speed.json": {"changed since: src/*": 2}
    }


def test_a_comment_makes_nothing_stale(repository):
    (repository.root / "src" / "fast.py").write_text("# why\nx = 1\n")

    assert repository.checked().stale == {}


def test_a_result_without_digests_is_stale(repository):
    repository.measured()

    (reasons,) = repository.checked().stale.values()

    assert reasons == {"made before result files had digests of sources": 2}


@pytest.mark.parametrize("word", ["--rehearse", "--quick"])
def test_the_result_of_a_rehearsal_is_no_result(repository, word):
    repository.measured(command=f"python benchmarks/speed.py {word}")

    assert "this is the result of a rehearsal" in repository.checked().errors[0]


def test_where_parts_were_measured_apart_the_nearest_says_where_from(repository):
    path = repository.root / "benchmarks" / "results" / "speed.json"
    apart = {"sources": {"src/*": "another"}, "rows": ROWS}
    path.write_text(json.dumps({"part": apart, "sources": {}}))
    repository.ties(TIES.replace('"/rows', '"/part/rows'))

    assert list(repository.checked().stale.values()) == [{"changed since: src/*": 2}]


def test_a_value_in_words_has_bounds(repository):
    text = TIES.replace('text = "It is {a:.1f} times as fast"', 'text = "It is"')
    within = "[figure.within]\na = [{}]\n\n[[figure]]"
    before, after = text.split("[[figure]]")[1:]

    for bounds, errors in (("4, 5", 1), ("5, 6", 2)):  # one is that 4.3 is not tied
        repository.ties("[[figure]]" + before + within.format(bounds) + after)
        assert len(repository.checked().errors) == errors


def test_a_missing_result_file_is_wrong(repository):
    (repository.root / "benchmarks" / "results" / "speed.json").unlink()
    (repository.root / "docs" / "notebook").mkdir()
    (repository.root / "docs" / "notebook" / "day.md").write_text(
        "by [it](../../benchmarks/results/gone.json) and `benchmarks/gone.py`, which "
        "`tests/benchmarks/test_gone.py` tests"
    )

    errors = repository.checked().errors

    assert "FileNotFoundError" in errors[0]
    assert [each for each in errors if "not there" in each] == [
        f"docs/notebook/day.md: names benchmarks/{each}, which is not there"
        for each in ("gone.py", "results/gone.json")
    ]


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ("/rows/who=ours/speed", "fits 2 entries"),
        ("/rows/who=nobody/speed", "fits 0 entries"),
        ("/lines/speed", "there is no 'lines'"),
    ],
)
def test_a_pointer_that_leads_nowhere_is_wrong(repository, pointer, message):
    repository.ties(TIES.replace("/rows/who=ours,beam=1/speed", pointer))

    assert any(message in each for each in repository.checked().errors)


def test_every_row_of_a_table_is_tied(repository):
    repository.measured(equal={"one": {"a": 1, "b": 2}, "two": {"a": 3, "b": 4}}, n=4)
    table = "[[table]]\npage='README.md'\nresult='speed.json'\nat='/equal'\n"
    repository.ties(TIES + table + "divisor='/n'\nformat='.2f'\n")
    page = PAGE.format(times="4.3", speed="1,234")
    rows = "| one | 0.25 | 0.50 |\n| two | 0.75 | 1.00 |\n"

    (repository.root / "README.md").write_text(page + rows)
    assert repository.checked().errors == []

    (repository.root / "README.md").write_text(page + rows.replace("0.75", "0.85"))
    assert "| two | 0.75 | 1.00 |" in repository.checked().errors[0]
