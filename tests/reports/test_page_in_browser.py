"""The page does in a real browser what its script promises.

Skipped where there is no browser; Debian has one as ``chromium``.
"""

from dataclasses import replace

import pytest
from tests.reports.browser import Browser, found
from tests.reports.conftest import NASTY, a_run, history_of, start, update, validation

from headwise.reports.run_report import RunInfo, run_report

pytestmark = pytest.mark.skipif(
    found() is None, reason="no browser here; apt-get install chromium brings one"
)

ABOUT = RunInfo(name="en-de", steps=40, epoch=1.5, epochs=2, recipe="seed = 1\n")
RUNNING = a_run()[:-1]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Return one browser for all tests, as to start one takes seconds."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def shown(browser, tmp_path):
    """Open the page of a run in a window of usual size."""

    def show(entries, about=ABOUT, change=lambda page: page):
        browser.resize(1280)
        browser.prefer("light")
        path = tmp_path / "report.html"
        path.write_text(change(run_report(history_of(entries), about)), "utf-8")
        browser.open(path)
        return browser

    return show


def test_a_page_fetches_nothing_and_nothing_in_it_is_blocked(shown):
    """Its policy names its style and its script by their hashes."""
    browser = shown(a_run())

    assert [each for each in browser.fetched if not each.startswith("file:")] == []
    assert browser.complaints == []
    assert browser.ask("getComputedStyle(document.body).maxWidth") == "1360px"


def test_a_pointer_on_a_curve_reads_every_curve_there(shown):
    """Updates are at 1 to 40, the loss 9 / step + 1; a validation is at each tenth."""
    browser = shown(a_run())
    latest = browser.texts("figure.plot:first-child .key b")
    browser.point("figure.plot:first-child .area", 20 / 40)

    assert browser.text(".plot .at") == "step 20"
    assert browser.texts("figure.plot:first-child .key b") == ["1.45", "0.2"]
    cross = "getComputedStyle(document.querySelector('.cross')).visibility"
    assert browser.ask(cross) == "visible"
    assert browser.ask("document.querySelector('.cross').getAttribute('x1')") == "50%"

    browser.point("h1")
    assert browser.ask(cross) == "hidden"
    assert browser.text(".plot .at") == "latest"
    assert browser.texts("figure.plot:first-child .key b") == latest


def test_where_a_curve_has_no_value_near_the_pointer_it_says_so(shown):
    browser = shown(a_run())
    browser.point("figure.plot:first-child .area", 25 / 40)

    assert browser.text(".plot .at") == "step 25"
    assert browser.texts("figure.plot:first-child .key b") == ["1.36", "–"]


def test_arrow_keys_do_what_a_pointer_does(shown):
    browser = shown(a_run())
    browser.ask("document.querySelector('.area').focus()")
    browser.press("ArrowLeft")
    assert browser.text(".plot .at") == "step 39"
    browser.press("PageUp")
    browser.press("PageDown")
    assert browser.text(".plot .at") == "step 20"
    for _ in range(3):
        browser.press("PageDown")
    assert browser.text(".plot .at") == "step 1"

    browser.ask("document.activeElement.blur()")
    assert browser.text(".plot .at") == "latest"


def attending(weights):
    """Return a validation whose picture of attention is that of ``weights``."""
    entry = validation(10)
    picture = {**entry["samples"][0]["attention"], "weights": weights}
    entry["samples"] = [{**entry["samples"][0], "attention": picture}]
    return entry


def test_a_click_shows_the_attention_of_another_step(shown):
    even, sharp = [[0.5, 0.5]] * 3, [[1.0, 0.0], [0.0, 1.0], [0.25, 0.75]]
    browser = shown(
        [start(), update(1), attending(even), {**attending(sharp), "step": 20}]
    )
    cells = "document.querySelector('.large .squares g').innerHTML"
    latest = browser.ask(cells)
    assert browser.text(".which") == "step 20"

    browser.point(".steps button:first-child", click=True)
    assert browser.text(".which") == "step 10"
    assert browser.ask(cells) != latest
    pressed = "[...document.querySelectorAll('.steps button')].map(b => b.ariaPressed)"
    assert browser.ask(pressed) == ["true", "false"]

    browser.point(".large .squares", 0.75, 5 / 6)
    assert browser.text(".pointed") == "</s> takes 0.500 from </s>"
    browser.point(".steps button:last-child", click=True)
    assert browser.ask(cells) == latest
    browser.point(".large .squares", 0.75, 5 / 6)
    assert browser.text(".pointed") == "</s> takes 0.750 from </s>"


def test_text_of_a_corpus_stays_text(shown):
    entry = validation(10)
    sample = {"source": NASTY, "reference": NASTY, "output": NASTY}
    picture = {"source": [NASTY], "target": [NASTY], "weights": [[1.0]]}
    entry["samples"] = [{**sample, "attention": picture}]
    browser = shown([start(), update(1), entry], replace(ABOUT, name=NASTY))
    browser.point(".large .squares")

    assert browser.ask("document.images.length") == 0
    assert browser.text("h1") == NASTY
    assert browser.text(".pointed") == f"{NASTY} takes 1.000 from {NASTY}"
    assert browser.complaints == []


def test_an_open_page_reloads_and_keeps_what_was_opened(shown):
    """Every 30 seconds, of which a test makes 1."""
    browser = shown(RUNNING, change=hurried)
    browser.ask("document.querySelectorAll('details')[1].open = true")
    browser.ask("window.isTheSame = true")
    browser.events.clear()
    browser.wait_for("Page.loadEventFired")

    assert browser.ask("window.isTheSame") is None
    opened = "[...document.querySelectorAll('details')].map((each) => each.open)"
    assert browser.ask(opened)[:3] == [False, True, False]


def hurried(page):
    assert 'data-running="30"' in page
    return page.replace('data-running="30"', 'data-running="1"')


def test_a_page_that_nobody_writes_any_more_says_so(shown):
    browser = shown(RUNNING, change=an_hour_old)

    assert browser.text(".state") == "no news for 60 min"


def an_hour_old(page):
    before, _, after = page.partition('data-written="')
    number, _, rest = after.partition('"')
    return f'{before}data-written="{int(number) - 3600}"{rest}'


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
@pytest.mark.parametrize(
    "entries", [[start()], [start(), update(1)], a_run()], ids=["none", "one", "many"]
)
def test_no_page_is_wider_than_its_window(shown, width, entries):
    browser = shown(entries)
    browser.resize(width)

    assert browser.ask("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("entries", [[start(), update(1), validation(1)], a_run()])
def test_no_number_on_an_axis_covers_another_or_leaves_its_figure(shown, entries):
    browser = shown(entries)
    boxes = browser.ask(BOXES_OF_AXES)

    assert boxes
    for frame, texts in boxes:
        for number, one in enumerate(texts):
            assert frame[0] <= one[0], (frame, one)
            assert one[1] <= frame[1], (frame, one)
            assert all(apart(one, other) for other in texts[:number]), (one, texts)


BOXES_OF_AXES = """
(() => {
  const box = (each) => {
    const b = each.getBoundingClientRect();
    return [b.left, b.right, b.top, b.bottom, each.textContent];
  };
  return [...document.querySelectorAll("figure.plot")].map((figure) => [
    box(figure),
    [...figure.querySelectorAll(".side text, .area text.x")].map(box),
  ]);
})()
"""


def apart(one, other):
    """Tell whether two boxes do not cover each other by more than their margins."""
    beside = one[1] <= other[0] + 1 or other[1] <= one[0] + 1
    return beside or one[3] <= other[2] + 4 or other[3] <= one[2] + 4


def test_in_the_dark_the_page_is_dark_and_can_be_read(shown):
    browser = shown(a_run())
    bright = browser.ask("getComputedStyle(document.body).backgroundColor")
    browser.prefer("dark")

    dark = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (bright, dark) == ("rgb(253, 253, 251)", "rgb(20, 23, 26)")
    ink = browser.ask("getComputedStyle(document.body).color")
    assert ink == "rgb(230, 232, 234)"
