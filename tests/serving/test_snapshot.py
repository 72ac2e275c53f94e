"""The page as one file: it has its answers, and can fetch nothing."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from tests.serving.demo_requests import ARGUMENTS, BODIES, DEMO, ELLE, IL, TIRED, WIDE

from headwise.errors import DataError, ResourceError
from headwise.inspection.views import VIEWS
from headwise.serving import snapshot
from headwise.serving.inspected_model import open_model
from headwise.serving.recorded_questions import questions_of, record_page
from headwise.serving.snapshot import Question, make_snapshot


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.inside = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), ""))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside in ("script", "style", "title"):
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def of(self, name):
        return [each for each in self.elements if each[0] == name]

    @property
    def data(self):
        (found,) = [each for each in self.of("script") if each[1].get("id")]
        assert found[1] == {"type": "application/json", "id": "snapshot"}
        return json.loads(found[2])

    @property
    def policy(self):
        (found,) = [x[1] for x in self.of("meta") if "http-equiv" in x[1]]
        assert found["http-equiv"] == "Content-Security-Policy"
        return dict(each.split(" ", 1) for each in found["content"].split("; "))


@pytest.fixture(scope="module")
def saved(model):
    """Return the page of one sentence, in a model with a head off."""
    table = {"text": TIRED, **BODIES["compare"]}
    return Page(record_page(model, table, {"text": TIRED, "off": ["cross.0.3"]}))


def digest(text):
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(found).decode('ascii')}'"


def test_its_policy_allows_its_own_script_and_styles_alone(saved):
    scripts = [x[2] for x in saved.of("script") if x[1].get("id") != "snapshot"]
    styles = [x[2] for x in saved.of("style")]

    assert len(scripts) == 1
    assert styles
    assert saved.policy == {
        "default-src": "'none'",
        "script-src": digest(scripts[0]),
        "style-src": " ".join(map(digest, styles)),
        "img-src": "data: blob:",
        "connect-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_it_fetches_nothing(saved):
    for _, attributes, text in saved.elements:
        for name in ("src", "srcset", "data", "action", "poster"):
            assert name not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:"))
        assert "@import" not in text
    for _, _, style in saved.of("style"):
        assert "url(" not in style
    assert not [name for name, *_ in saved.elements if name in ("iframe", "object")]


def test_it_has_the_answers_that_the_server_gives(saved, ask):
    data = saved.data

    assert data["format"] == 1
    assert data["model"]["name"] == "demo"
    assert data["state"] == {"text": TIRED, "off": ["cross.0.3"]}
    views = [each["view"] for each in data["answers"]]
    assert sorted(views) == sorted(set(VIEWS) - {"patch"})
    for each in data["answers"]:
        served = ask(each["view"], **each["request"])
        if each["view"] == "attention":
            assert base64.b64decode(each["answer"]["base64"]) == served.content
            assert each["request"]["norms"] is True
        else:
            assert each["answer"] == served.json()
    assert all(each["request"]["changes"] for each in data["answers"])


def test_texts_cannot_end_the_script(model):
    text = 'The dog </script><script>alert("1")</script><!-- sleeps & &lt;.'

    page = Page(record_page(model, {"text": text}, {"text": text}))

    assert len(page.of("script")) == 2
    assert page.data["state"]["text"] == text
    (first, *_) = page.data["answers"]
    assert first["request"]["text"] == text


def test_the_name_of_a_model_is_no_html(model, monkeypatch):
    monkeypatch.setattr(model, "name", "<b>&\\1")

    page = Page(make_snapshot(model, [], {}))

    assert page.of("title")[0][2] == "<b>&\\1 · headwise inspect"
    assert not page.of("b")


def test_what_each_view_needs_decides_whether_it_is_asked(model):
    plain = {each.view for each in questions_of(model, {"text": TIRED})}
    table = {"text": TIRED, "donor": WIDE, "target": IL, "other": ELLE}
    table |= {"heads": ["cross.0.3"], "position": 4, "prefix": "L'animal"}
    asked = {each.view: each.table for each in questions_of(model, table)}

    assert plain == set(model.views) - {"patch", "compare"}
    assert set(asked) == set(model.views)
    assert asked["patch"] == {
        **{name: table[name] for name in ("text", "donor", "target", "other")},
        "changes": [],
    }
    assert asked["word"]["heads"] == ["cross.0.3"]
    assert asked["word"]["position"] == 4
    assert asked["attention"]["heads"] == ["cross.0.3"]
    assert "target" not in asked["compare"]


def test_a_page_may_be_without_a_view_but_not_without_its_output(model, monkeypatch):
    left_out = {}

    page = record_page(
        model,
        {"text": TIRED},
        {},
        max_bytes=110_000,
        on_left_out=lambda view, error: left_out.setdefault(view, str(error)),
    )

    views = {each["view"] for each in Page(page).data["answers"]}
    assert {"output", "attention"} <= views
    assert left_out
    assert not views & left_out.keys()
    assert "more than the 0 MB that a page may have" in next(iter(left_out.values()))
    with pytest.raises(ResourceError, match="choose a shorter text"):
        record_page(model, {"text": TIRED}, {}, max_bytes=1_000)
    with pytest.raises(DataError, match="the text is blank"):
        record_page(model, {"text": " "}, {})


def test_large_attention_is_saved_without_norms(model, monkeypatch):
    monkeypatch.setattr("headwise.serving.recorded_questions.NORMS_BYTES", 1_000)

    page = Page(record_page(model, {"text": TIRED}, {}))

    (found,) = [x for x in page.data["answers"] if x["view"] == "attention"]
    assert found["request"] == {"text": TIRED}


def test_too_many_bytes_are_refused(model, monkeypatch):
    questions = [Question("attention", {"text": TIRED})] * 2
    (size,) = {len(snapshot.recorded(model, each)) for each in questions}

    monkeypatch.setattr(snapshot, "MAX_BYTES", 2 * size)
    assert "snapshot" in make_snapshot(model, questions, {})
    monkeypatch.setattr(snapshot, "MAX_BYTES", 2 * size - 1)
    with pytest.raises(ResourceError, match="MB that a page may have; choose"):
        make_snapshot(model, questions, {})


def test_the_server_saves_what_it_is_asked_for(client, ask):
    requests = [
        {"view": "output", "request": {"text": TIRED, "count": 3}},
        {"view": "attention", "request": {"text": TIRED, "kinds": ["cross"]}},
    ]

    found = client.post(
        "/api/snapshot", json={"requests": requests, "state": {"view": "output"}}
    )

    assert found.status_code == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers["content-disposition"].startswith("attachment")
    data = Page(found.text).data
    asked = [{key: x[key] for key in ("view", "request")} for x in data["answers"]]
    assert asked == requests
    assert data["state"] == {"view": "output"}
    assert data["answers"][0]["answer"] == ask("output", count=3).json()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "a snapshot is asked for by"),
        ({"requests": [], "state": 3}, "a snapshot is asked for by"),
        ({"requests": [{"view": "all", "request": {}}]}, "each request of a snapshot"),
        ({"requests": [{"view": "output"}]}, "each request of a snapshot"),
        ({"requests": [{"view": "output", "request": {}}]}, "text must be a text"),
        (
            {"requests": [{"view": "output", "request": {"text": "a"}}] * 65},
            "65 answers are more than the 64",
        ),
    ],
)
def test_mistakes_of_snapshots_are_named(client, body, said):
    answer = client.post("/api/snapshot", json=body)

    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_the_command_writes_the_page(headwise, tmp_path):
    out = tmp_path / "page.html"
    arguments = [*ARGUMENTS["patch"], *ARGUMENTS["word"], "--show", "patch"]

    done = headwise("inspect", DEMO, TIRED, *arguments, "--out", out)

    assert (done.code, done.out) == (0, "")
    assert done.error == f"{out}: open it in a browser\n"
    data = Page(out.read_text(encoding="utf-8")).data
    assert {"patch", "word"} <= {each["view"] for each in data["answers"]}
    assert data["state"] == {
        "text": TIRED,
        "view": "patch",
        "target": IL,
        "donor": WIDE,
        "other": ELLE,
        "head": "encoder.1.1",
        "query": 9,
    }


def test_the_command_names_views_that_the_page_is_without(headwise, tmp_path):
    out = tmp_path / "page.html"

    done = headwise("inspect", DEMO, TIRED, "--search", "beam=1", "--out", out)

    assert done.code == 0
    assert re.search(r"note: .*page.html is without beam: there is no tree", done.error)
    views = {x["view"] for x in Page(out.read_text(encoding="utf-8")).data["answers"]}
    assert "beam" not in views


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([" "], 4, "the text is blank"),
        ([], 2, "give a TEXT"),
        ([TIRED, "--off", "cross.9.0"], 2, "no attention layer cross.9"),
        ([TIRED, "--head", "cross"], 2, "does not name a head"),
        ([TIRED, "--show", "all"], 2, "--show must be one of"),
    ],
)
def test_mistakes_write_no_page(headwise, given, code, said, tmp_path):
    out = tmp_path / "page.html"

    done = headwise("inspect", DEMO, *given, "--out", out)

    assert (done.code, done.out) == (code, "")
    assert said in done.error
    assert not out.exists()


def test_a_text_that_is_too_long_to_save_is_an_error(headwise, tmp_path, monkeypatch):
    out = tmp_path / "page.html"
    monkeypatch.setattr("headwise.inspection.attention.MAX_WEIGHTS", 1_000)

    done = headwise("inspect", DEMO, TIRED, "--out", out)

    assert done.code == 6
    assert "more than the 1,000 that are kept at a time; choose fewer" in done.error
    assert not out.exists()


def test_a_model_that_reads_no_text_has_no_page(model, monkeypatch):
    other = open_model(DEMO, "cpu")
    monkeypatch.setattr(other, "views", ())

    with pytest.raises(ValueError, match="cannot be looked at"):
        record_page(other, {"text": TIRED}, {})
