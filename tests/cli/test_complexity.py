"""``headwise complexity``: output, page and mistakes."""

import json
import re
from html import unescape

import pytest
from tests.complexity.conftest import made_up_ratio, made_up_times

from headwise.complexity import benchmark
from headwise.complexity.layers import LAYERS

TINY = (
    *("--lengths", "8,16,32", "--widths", "4,8,16", "--kernels", "3,5,7"),
    *("--windows", "3,5,9", "--batch", "1", "--max-time", "0.01s"),
)


@pytest.fixture
def measured(monkeypatch):
    """Put a result with made-up times in the place of measuring one."""
    monkeypatch.setattr(benchmark, "measure", made_up_times)
    monkeypatch.setattr(benchmark, "_time_ratio", made_up_ratio)
    monkeypatch.setattr(benchmark, "PATH_LENGTHS", (4, 8))


def cells(page):
    """Return the text of every cell of every table of a page."""
    found = re.findall(r"<td>(.*?)</td>", page)
    return [unescape(each) for each in found]


def test_json_and_page_have_the_same_numbers(headwise, tmp_path):
    """Measured, all of it, in little sizes."""
    page = tmp_path / "complexity.html"

    found = headwise("complexity", *TINY, "--json", "--out", page)

    assert found.code == 0
    table, shown = json.loads(found.out), cells(page.read_text("utf-8"))
    assert [each["name"] for each in table["layers"]] == list(LAYERS)
    for layer in table["layers"]:
        assert layer["middle"]["counted"] == layer["middle"]["multiply_adds"]
        at = shown.index(layer["name"])
        assert shown[at + 1 : at + 5] == [
            layer["complexity"],
            layer["formula"],
            f"{layer['middle']['counted']:,}",
            layer["sequential"],
        ]
        assert shown[at + 6] == f"{layer['operations_per_second'] / 1e9:.1f}"
        for each in layer["exponents"]:
            assert f"{each['time']['r_squared']:.4f}" in shown
            assert any(
                cell.startswith(f"{each['time']['exponent']:z.2f}") for cell in shown
            )
    for each in table["crossovers"]:
        at = next(
            place
            for place, cell in enumerate(shown)
            if cell == each["other"] and shown[place + 1] == str(each["width"])
        )
        assert shown[at + 2] == f"{each['predicted']:.0f}"
        measured = each["measured"]
        assert shown[at + 3] == (
            "not reached" if measured is None else f"{measured:.0f}"
        )


def test_a_page_fetches_nothing(headwise, measured, tmp_path):
    page = tmp_path / "complexity.html"
    assert headwise("complexity", *TINY, "--out", page).code == 0

    text = page.read_text("utf-8")

    assert "default-src 'none'" in text
    fetches = r"(?:src|href)\s*=|url\(|@import|//[a-z]"
    assert not re.search(fetches, text.split("<body")[1].split("<script>")[0])
    assert text.count('<figure class="dots">') == 7


def test_a_pipe_gets_a_line_for_each_layer(headwise, measured):
    found = headwise("complexity", *TINY)

    head, *lines = [line.split("\t") for line in found.out.splitlines()]
    assert [line[0] for line in lines] == list(LAYERS)
    assert {len(line) for line in lines} == {len(head)}
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    for row in rows:
        assert (row["time_k"] != "") == ("kernel" in LAYERS[row["layer"]].sizes)
        assert float(row["time_n_low"]) <= float(row["time_n"])
    assert "note: each time is the median of" in found.error


def test_a_terminal_gets_tables(headwise, measured, monkeypatch):
    """No process of its own: only what tells a terminal is replaced."""
    monkeypatch.setattr("headwise.cli.complexity.is_terminal", lambda: True)

    found = headwise("complexity", *TINY)

    assert found.code == 0
    assert "\t" not in found.out
    tables = found.out.split("\n\n")
    titles = ("One layer", "Exponents", "Maximum path length", "Crossovers")
    for title in titles:
        assert any(each.strip().startswith(title) for each in tables)
    assert re.search(r"^self-attention +O\(n²·d\) +2 n² d ", found.out, re.M)
    gru = r"^GRU +8 +24 +not reached"  # it would be at 72, beyond twice 32
    assert re.search(gru, found.out, re.M)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--lengths", "128"], "3 different sizes or more"),
        (["--lengths", "128,256,256"], "3 different sizes or more"),
        (["--lengths", "a,b,c"], "takes whole numbers, such as 128,256,512"),
        (["--lengths", "-8,16,32"], "takes whole numbers"),
        (["--widths", "1,2,3"], "from 2 to 65,536"),
        (["--kernels", "3,4,5"], "4 is even, 5 is not"),
        (["--windows", "8,9,11"], "8 is even, 9 is not"),
        (["--max-time", "fast"], "--max-time must be a number"),
        (["--out", "."], "is a folder"),
        (["--out", "nowhere/page.html"], "nowhere is not a folder"),
    ],
)
def test_mistakes_are_named_before_anything_is_measured(headwise, arguments, words):
    found = headwise("complexity", *arguments)

    assert (found.code, found.out) == (2, "")
    assert words in found.error
    assert "counting" not in found.error


def test_sizes_that_do_not_fit_into_memory_are_refused(headwise):
    found = headwise("complexity", "--lengths", "16384,32768,65536", "--batch", "1024")

    assert (found.code, found.out) == (6, "")
    assert "GiB of memory" in found.error
    assert "twice the longest of --lengths" in found.error
