"""The HTML page in one file, and the facts on top of it."""

from tests.reports.conftest import NASTY, Opened

from headwise.reports.page import facts, page


def test_a_page_says_when_it_was_written():
    (body,) = Opened(page("title", "", written=1234.6)).all("body")

    assert body == {"data-written": "1235"}


def test_a_page_that_is_to_reload_does_so_without_scripts_too():
    opened = Opened(page("title", "", written=0.0, reload_seconds=30))

    assert opened.all("body")[0]["data-running"] == "30"
    assert opened.all("meta", **{"http-equiv": "refresh"})[0]["content"] == "30"


def test_titles_and_facts_are_text():
    opened = Opened(page(NASTY, facts({NASTY: (NASTY, NASTY)}), written=0.0))

    assert opened.all("img") == []
    assert opened.said("title", "dt", "dd", "small") == [NASTY] * 4


def test_a_fact_without_a_remark_has_none():
    assert "small" not in facts({"step": ("5", "")})
