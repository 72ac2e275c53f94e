"""The page of a run: all of it there, nothing fetched, nothing run that is not ours."""

import re
from pathlib import Path

import pytest
from tests.reports.conftest import (
    NASTY,
    Opened,
    a_run,
    end,
    history_of,
    note,
    sha256,
    start,
    update,
    validation,
)

from headwise.reports import history as history_module
from headwise.reports import page as page_module
from headwise.reports.run_report import MAX_EVENTS, RunInfo, run_report

ABOUT = RunInfo(name="en-de", steps=40, left=61.0, recipe="seed = 1\n")
ASSETS = Path(page_module.__file__).parent


def opened(entries, about=ABOUT):
    return Opened(run_report(history_of(entries), about))


def cells(page):
    """Return the samples as the table shows them: what each row says."""
    start = page.text.index('<table class="samples">')
    table = page.text[start : page.text.index("</table>", start)]
    return [
        re.sub(r"<[^>]*>", " ", row).split()
        for row in table.split("<tbody>")[1].split("</tr>")
        if row.strip("</tbody>\n")
    ]


def test_a_page_of_a_whole_run_has_everything():
    page = opened(a_run())

    assert page.said("h1") == ["en-de"]
    assert page.said("h3") == [
        *("Loss", "BLEU", "Learning rate", "Gradient norm", "Throughput")
    ]
    assert page.said("h2") == [*("Sample outputs", "Attention", "Events", "Settings")]
    assert "ended: all is done" in page.said("span")
    assert "40.0 ± 1.2" in page.said("dd")
    assert page.said("pre") == ["seed = 1\n"]


def test_a_page_of_a_run_that_has_just_begun_is_one_already():
    page = opened([start()])

    assert page.said("h1") == ["en-de"]
    assert page.said("h3") == []
    assert "training" in page.said("span")


def test_the_speed_says_what_it_is_the_mean_of():
    """It was "lately", and not the number at which the curve beside it ends."""
    slow = [update(step, tokens=100, seconds=1.0) for step in range(1, 31)]
    fast = [update(step, tokens=300, seconds=1.0) for step in range(31, 41)]
    page = opened([start(), *slow, *fast])

    assert "200 per second, mean of the last 20 updates" in page.text
    assert "each point is one update, or the mean of neighbouring updates" in page.text
    just_begun = opened([start(), slow[0]])
    assert "100 per second, mean of the last update" in just_begun.text


def test_nothing_is_fetched():
    page = opened(a_run())

    assert not [
        name
        for _, attributes in page.tags
        for name in attributes
        if name in ("src", "href", "srcset", "action", "data", "style")
        or name.startswith("on")
    ]
    assert not re.search(r"url\(|@import|//[a-z]+\.", page.text)
    script = (ASSETS / "page.js").read_text()
    assert not re.search(r"fetch\(|XMLHttp|import\(|eval\(|innerHTML", script)


def test_nothing_runs_but_what_we_wrote():
    """The policy names the hashes of the one style and the one script."""
    page = opened(a_run())
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    (style,) = page.said("style")
    scripts = [text for text in page.said("script") if text[0] != "{"]

    assert policy["content"] == (
        f"default-src 'none'; style-src {sha256(style)}; script-src "
        f"{sha256(scripts[0])}; base-uri 'none'; form-action 'none'"
    )
    assert len(scripts) == 1
    data = [each for each in page.all("script") if each]
    assert all(each == {"type": "application/json"} for each in data)


def test_no_text_of_users_can_become_markup():
    nasty = validation(10, name=NASTY)
    nasty["samples"][0] |= {"source": NASTY, "reference": NASTY, "output": NASTY}
    picture = nasty["samples"][0]["attention"]
    nasty["samples"][0]["attention"] = {**picture, "source": [NASTY, NASTY]}
    nasty["scores"]["bleu"] |= {"name": NASTY, "signature": NASTY}
    entries = [start(), update(1), nasty, note(NASTY), end(10, NASTY)]
    plain = opened([start(), update(1), validation(10), note("x"), end(10)])
    page = opened(entries, RunInfo(name=NASTY, steps=1, recipe=NASTY))

    assert page.all("img") == []
    assert [tag for tag, _ in page.tags if tag == "script"] == (
        [tag for tag, _ in plain.tags if tag == "script"]
    )
    assert page.said("h1") == [NASTY]


def test_a_page_reloads_only_while_the_run_is_running():
    running, ended = opened(a_run()[:-1]), opened(a_run())

    assert running.all("body")[0]["data-running"] == "30"
    assert running.all("meta", **{"http-equiv": "refresh"})[0]["content"] == "30"
    assert "data-running" not in ended.all("body")[0]
    assert ended.all("meta", **{"http-equiv": "refresh"}) == []


@pytest.mark.parametrize(
    ("reason", "shown", "kind"),
    [
        ("40 updates are done", "ended: 40 updates are done", "ended"),
        ("stopped", "stopped", "stopped"),
        ("failed", "failed", "failed"),
        ("lost another process", "stopped: lost another process", "stopped"),
    ],
)
def test_how_it_ended_is_said(reason, shown, kind):
    page = opened([*a_run()[:-1], end(40, reason)])

    assert shown in page.said("span")
    assert page.all("span", **{"class": f"state {kind}"})


def test_the_time_left_is_said_while_there_is_some():
    assert "about 1 min 01 s left" in opened(a_run()[:-1]).said("small")
    assert "left" not in "".join(opened(a_run()).said("small"))


def test_samples_stand_newest_first_with_what_changed():
    rows = cells(opened(a_run()))

    assert rows == [
        ["step", "40", "best", "model", "ein", "40"],
        ["step", "30", "ein", "30"],
        ["step", "20", "ein", "20"],
        ["step", "10", "ein", "10"],
    ]


def test_words_that_the_reference_has_not_are_underlined():
    assert opened([start(), validation(7)]).said("u") == ["7"]


def test_an_output_that_did_not_change_is_grey():
    again = validation(20)
    again["samples"][0]["output"] = "ein 10"
    page = opened([start(), validation(10), again])

    assert [each.get("class") for each in page.all("td") if "data-label" in each] == [
        "same",
        None,
    ]


def test_after_other_pairs_were_chosen_the_columns_are_theirs():
    other = validation(20)
    other["samples"][0] |= {"source": "another", "attention": None}
    del other["samples"][0]["attention"]
    page = opened([start(), validation(10), other])

    assert [row[:2] for row in cells(page)] == [["step", "20"]]


def test_attention_is_shown_over_time_and_its_numbers_are_for_the_script():
    page = opened(a_run())
    buttons = page.all("button")
    (data,) = [each for each in page.data if "weights" in each]

    assert [each["data-step"] for each in buttons] == [
        *("step 10", "step 20", "step 30", "step 40")
    ]
    assert [each["aria-pressed"] for each in buttons] == [*["false"] * 3, "true"]
    assert data["source"] == ["·a", "</s>"]
    assert data["weights"] == [[[0.75, 0.25], [1.0, 0.0], [0.0, 1.0]]] * 4


def test_what_happened_is_told_newest_first():
    entries = [
        start(),
        update(1),
        note("heard"),
        end(1, "stopped"),
        start(1),
        update(2),
    ]
    page = opened(entries)

    shown = [text for text in page.said("li") if text.strip()]
    assert shown == ["resumed from step 1", "stopped", "heard", "training started"]
    lines = page.all("line", **{"class": "resume"})
    assert len(lines) == 4  # one in each figure


def test_a_run_that_says_much_is_cut_and_says_so():
    entries = [start(), *(note(f"note {number}") for number in range(MAX_EVENTS + 4))]
    page = opened(entries)

    assert len(page.all("li")) == MAX_EVENTS
    assert "5 earlier ones are in log.jsonl." in page.said("p")


def test_a_long_run_makes_a_page_of_less_than_a_megabyte(monkeypatch):
    """100,000 updates, 200 validations of 3 long sentences; attention of 24 pieces."""
    picture = {
        "source": ["▁source"] * 24,
        "target": ["▁target"] * 24,
        "weights": [[0.042] * 24] * 24,
    }
    entries = [start()]
    for step in range(1, 100_001):
        if step % 5 == 0:  # each fifth is enough to fill every stretch
            entries.append(update(step, loss=1.234567 + (step % 7) / 10))
        if step % 500 == 0:
            samples = [
                {
                    "source": "s " * 200,
                    "reference": "r " * 200,
                    "output": f"{step} " * 200,
                }
            ] * 3
            entries.append(
                validation(
                    step, samples=[*samples[:2], {**samples[2], "attention": picture}]
                )
            )
    page = run_report(history_of(entries), ABOUT)

    assert len(page.encode()) < 1_000_000
    assert len(history_of(entries).buckets) <= history_module.MAX_BUCKETS


def test_a_sample_links_to_the_page_that_looks_inside():
    about = RunInfo(name="en-de", steps=40, inspections={"a b": "inspection/1.html"})

    page = opened(a_run(), about)

    (link,) = page.all("a")
    assert link == {
        "href": "inspection/1.html",
        "aria-label": "inspect the best model: a b",
    }
    assert "<th></th>" not in page.text


def test_samples_of_other_sources_have_no_link():
    about = RunInfo(name="en-de", steps=40, inspections={"another": "x.html"})

    assert opened(a_run(), about).all("a") == opened(a_run()).all("a") == []
