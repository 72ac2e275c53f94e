"""The page around the views, in a browser."""

import json
from pathlib import Path

from tests.serving.demo_requests import TIRED


def test_a_link_restores_the_state(open_page):
    """Whatever was clicked: the address says it all."""
    first = open_page(text=TIRED)
    first.click("[id='head-decoder.1.0']")
    first.click("[id='power-decoder.1.0']")
    first.click(".token-list.queries li:nth-child(3) .token")
    second = open_page(text="something else")
    second.page.goto("about:blank")
    second.goto(first.page.url)
    for selector in ("#comparison", "#changes", ".matrix-readout", ".cell-numbers"):
        assert second.text(selector) == first.text(selector)
    assert second.text(".title h3") == "decoder.1.0"


def test_back_takes_a_change_back(open_page):
    page = open_page(text=TIRED)
    page.click("[id='power-cross.0.3']")
    assert page.texts(".chip bdi") == ["cross.0.3 off"]
    page.page.go_back()
    page.settle()
    assert page.texts(".chip bdi") == []
    assert page.texts("#comparison del") == []


def test_what_an_address_should_not_hold_is_ignored(open_page):
    page = open_page(
        text=TIRED, query="-1", nonsense="1", rows="x@y", head="encoder.9.9"
    )
    assert page.text(".title h3") == "cross.0.0"
    assert page.texts(".chip") == []


def test_a_forced_beginning_is_kept(open_page):
    page = open_page(text=TIRED)
    page.page.fill("#question-prefix", "L'animal n'a pas traversé la rue parce qu'elle")
    page.click("#question button[type=submit]")
    assert page.texts("#comparison ins") == ["qu'elle", "fatiguée"]


def test_an_error_of_the_server_is_shown_in_its_words(open_page):
    page = open_page(text=TIRED, off="cross.9.9")
    assert "there is no attention layer cross.9" in page.text("#panel .problem")
    page.click("[id='chip-0']")
    assert page.texts(".problem[role=alert]:not([hidden])") == []


def test_a_blank_text_is_refused_at_the_field(open_page):
    page = open_page(text=TIRED)
    page.page.fill("#question-text", "   ")
    page.click("#question button[type=submit]")
    assert "blank" in page.text("#text-problem")
    assert "il était" in page.text("#comparison"), "what was shown stays"


def test_an_answer_that_comes_late_is_dropped(open_page):
    """The first text is answered after the second: the second is what is shown."""
    held = []

    def hold(route):
        if json.loads(route.request.post_data)["text"] == TIRED:
            held.append(route)
        else:
            route.continue_()

    page = open_page(text="A dog.", routes={"api/output": hold})
    page.page.fill("#question-text", TIRED)
    page.page.press("#question-text", "Enter")
    page.page.wait_for_selector("#comparison.busy")
    page.page.fill("#question-text", "Antoine was washing the coat.")
    page.page.press("#question-text", "Enter")
    page.page.wait_for_selector("#comparison:not(.busy)")
    (late,) = held
    late.continue_()
    page.settle()
    assert "Antoine" in page.text("#comparison")


def test_the_old_result_stays_dimmed_while_another_is_computed(open_page):
    page = open_page(text=TIRED)
    page.page.route(f"{page.address}api/*", lambda route: None)  # no answer yet
    page.page.click("[id='power-cross.0.3']")
    page.page.wait_for_selector("#comparison[aria-busy=true]")
    assert "qu'il" in page.text("#comparison")
    page.page.wait_for_selector("#status:not(:empty)")
    page.page.unroute(f"{page.address}api/*")  # what waits goes on
    page.settle()
    assert page.texts("#comparison ins")[:1] == ["qu'elle"]
    assert page.text("#status") == ""


def test_the_json_that_is_saved_has_the_weights_of_the_head(open_page):
    page = open_page(text=TIRED, head="cross.0.3")
    with page.page.expect_download() as saved:
        page.page.click("button[aria-label='Save as JSON']")
    found = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert [each["head"] for each in found["maps"]] == ["cross.0.3"]
    weights = found["maps"][0]["weights"]
    assert len(weights) == len(found["target"])
    assert all(abs(sum(row) - 1) < 1e-3 for row in weights)
