"""``headwise average``: what it says, and what it refuses."""

import pytest


def test_an_average_says_what_it_is_made_of(headwise, tiny_run, tmp_path):
    mean = tmp_path / "mean"
    found = headwise(
        *("average", tiny_run, tiny_run / "best", "--shares", "3,1", "--out", mean)
    )

    assert (found.code, found.out) == (0, "")
    assert f"{mean}: 0.75 of {tiny_run}, 0.25 of {tiny_run / 'best'}; " in found.error
    assert "note:" not in found.error
    assert headwise("doctor", mean).code == 0
    assert headwise("translate", mean, stdin=b"one two.\n").out == (
        headwise("translate", tiny_run, stdin=b"one two.\n").out
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("RUN",), "two models or more"),
        (("RUN", "RUN", "--shares", "1;2"), "such as 3,1; not '1;2'"),
        (("RUN", "RUN", "--shares", ""), "such as 3,1; not ''"),
        (("RUN", "RUN", "--shares", "1,2,3"), "2 models need 2 shares, not 3"),
        (("RUN", "RUN", "--shares", "1e308,1e308"), "add up to inf; give smaller"),
        (("RUN", "RUN", "--shares", "1e-320,1"), "is nothing beside the 1 of all"),
        (("RUN", "nowhere"), "nowhere does not exist"),
    ],
)
def test_mistakes_leave_nothing_behind(headwise, tiny_run, tmp_path, arguments, said):
    named = [tiny_run if each == "RUN" else each for each in arguments]
    found = headwise("average", *named, "--out", tmp_path / "mean")

    assert found.code == 2
    assert said in found.error
    assert not (tmp_path / "mean").exists()


def test_a_folder_with_files_is_not_replaced(headwise, tiny_run, tmp_path):
    """Not even a model: it may be one of those that are averaged."""
    (tmp_path / "mine").write_text("kept")
    found = headwise("average", tiny_run, tiny_run, "--out", tmp_path)
    own = headwise("average", tiny_run, tiny_run, "--out", tiny_run / "best")

    assert (found.code, own.code) == (2, 2)
    assert "exists; choose a folder that is new or empty" in found.error
    assert (tmp_path / "mine").read_text() == "kept"
