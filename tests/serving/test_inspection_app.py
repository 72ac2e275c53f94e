"""The routes of the inspection page, against ``headwise inspect`` itself."""

import json
import struct
import threading
import time

import numpy as np
import pytest
import torch
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from tests.serving.demo_requests import ARGUMENTS, BODIES, DEMO, IL, TIRED

from headwise.errors import ResourceError
from headwise.inspection.interventions import HeadOff
from headwise.inspection.places import all_heads, parse_head
from headwise.inspection.views import VIEWS
from headwise.reports.inspection_views import DRAWINGS
from headwise.serving import computations, inspection_app
from headwise.serving.attention_binary import max_pooled
from headwise.serving.inspection_app import inspection_routes


def decoded(content):
    """Return the header and head, what -> array, read without our own code."""
    (length,) = struct.unpack("<I", content[:4])
    header = json.loads(content[4 : 4 + length])
    assert length % 4 == 0
    numbers = np.frombuffer(content, "<f4", offset=4 + length)
    arrays = {}
    for each in header["arrays"]:
        end = each["offset"] + each["rows"] * each["columns"]
        shape = each["rows"], each["columns"]
        array = numbers[each["offset"] : end].reshape(shape)
        arrays[each["head"], each["what"]] = array
    assert sum(each.size for each in arrays.values()) == numbers.size
    return header, arrays


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "attention"])
def test_an_answer_is_what_the_command_writes(ask, headwise, view, tmp_path):
    out = tmp_path / "found.json"
    arguments = [*ARGUMENTS.get(view, []), "--show", view, "--out", out]
    assert headwise("inspect", DEMO, TIRED, *arguments).code == 0

    answer = ask(view, **BODIES.get(view, {}))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == out.read_text(encoding="utf-8")


def test_attention_has_the_same_bits_as_the_inspectors(ask, model):
    found = model.inspector.attention(TIRED, norms=True, rollout=True)

    header, arrays = decoded(ask("attention", norms=True, rollout=True).content)

    assert tuple(header["source"]) == found.source
    assert tuple(header["target"]) == found.target
    assert tuple(header["decoder_input"]) == found.decoder_input
    assert len(arrays) == 2 * 24 + 1
    for each in found.maps:
        head = str(each.head)
        assert arrays[head, "weights"].tobytes() == each.weights.numpy().tobytes()
        assert arrays[head, "norms"].tobytes() == each.norms.numpy().tobytes()
    assert arrays[None, "rollout"].tobytes() == found.rollout.numpy().tobytes()


def test_attention_is_of_the_heads_that_are_asked_for(ask, model):
    (_, of_kind) = decoded(ask("attention", kinds=["cross"]).content)
    (_, of_heads) = decoded(
        ask("attention", heads=["cross.0.3", "encoder.0.0"], kinds=["encoder"]).content
    )

    every = [str(x) for x in all_heads(model.inspector.model) if x.kind == "cross"]
    assert [head for head, _ in of_kind] == every
    assert [*of_heads] == [("encoder.0.0", "weights")]


def test_attention_is_of_the_changed_model(ask, model):
    change = HeadOff(parse_head("encoder.0.0"))
    with model.inspector.intervene(change):
        found = model.inspector.attention(TIRED, IL)

    changes = [{"off": "encoder.0.0"}]
    header, arrays = decoded(ask("attention", target=IL, changes=changes).content)

    assert header["changes"] == ["encoder.0.0 off"]
    name = parse_head("cross.1.0")
    ours, theirs = arrays["cross.1.0", "weights"], found.of(name).weights.numpy()
    assert ours.tobytes() == theirs.tobytes()
    _, plain = decoded(ask("attention", target=IL).content)
    assert not np.array_equal(plain["cross.1.0", "weights"], ours)


def test_a_large_map_is_max_pooled(ask, model):
    found = model.inspector.attention(TIRED, heads=[parse_head("cross.0.0")])
    rows, columns = found.maps[0].weights.shape  # 19, 15

    answer = ask("attention", heads=["cross.0.0"], max_side=8)
    header, arrays = decoded(answer.content)

    (array,) = header["arrays"]
    assert (array["rows"], array["row_factor"]) == (-(-rows // 3), 3)
    assert (array["columns"], array["column_factor"]) == (-(-columns // 2), 2)
    whole = found.maps[0].weights.numpy()
    for row in range(array["rows"]):
        for column in range(array["columns"]):
            block = whole[3 * row : 3 * row + 3, 2 * column : 2 * column + 2]
            assert arrays["cross.0.0", "weights"][row, column] == block.max()


def test_pooling_by_hand():
    values = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 0.0]])

    pooled, factors = max_pooled(values, 2)

    assert pooled.tolist() == [[5.0, 2.0], [4.0, 0.0]]
    assert factors == {"row_factor": 1, "column_factor": 2}


@pytest.mark.parametrize("view", DRAWINGS)
def test_views_are_drawn(ask, view):
    body = BODIES.get(view, {})
    if view == "attention":
        body = {"heads": ["cross.0.3"], "max_side": 8}

    svg, png = ask(f"{view}.svg", **body), ask(f"{view}.png", **body)

    assert svg.headers["content-type"] == "image/svg+xml"
    assert svg.text.startswith("<svg xmlns=")
    assert png.headers["content-type"] == "image/png"
    assert png.content.startswith(b"\x89PNG")


def test_the_model_is_described(client):
    found = client.get("/api/model").json()

    assert (found["format"], found["name"], found["task"]) == (1, "demo", "translation")
    assert found["languages"] == ["en", "fr"]
    assert found["config"]["d_model"] == 96
    assert found["config"]["d_k"] == 24
    assert found["config"]["vocab_size"] == 1500
    assert found["parameters"] == 515_712
    assert (len(found["heads"]), len(found["sublayers"])) == (24, 10)
    assert found["views"] == list(VIEWS)
    assert found["drawn"] == [name for name in VIEWS if name in DRAWINGS]
    assert found["examples"][0] == {"text": "Antoine was washing the coat."}


@pytest.mark.parametrize(
    ("view", "body", "said"),
    [
        ("output", {"text": " "}, "the text is blank"),
        ("output", {"text": "a\nb"}, "several lines"),
        ("output", {"text": 3}, "text must be a text, not 3"),
        ("output", {}, "text must be a text, not None"),
        ("output", {"text": "a", "target": 4}, "target must be a text"),
        ("output", {"text": "a", "txt": "b"}, "'txt' is not an entry of a request"),
        ("output", {"text": "a", "norms": True}, "'norms' is not an entry"),
        ("output", {"text": "a", "count": 0}, "count must be from 1 to 1,000, not 0"),
        ("output", {"text": "a", "count": True}, "count must be from 1"),
        ("output", {"text": "a", "heads": "cross.0.0"}, "heads must be a list"),
        ("output", {"text": "a", "heads": [7]}, "not 7"),
        ("output", {"text": "a", "changes": ["cross"]}, "a change is"),
        ("output", {"text": "a", "changes": [{"off": "cross"}]}, "names neither"),
        ("output", {"text": "a", "changes": [{"off": "cross.7.0"}]}, "no attention"),
        ("output", {"text": "a", "changes": [{"on": "cross.0.0"}]}, "a change is"),
        (
            "output",
            {"text": "a", "changes": [{"no_residual": "cross.0.0"}]},
            "is around a sublayer",
        ),
        ("output", {"text": "a", "changes": [{"row": {}}]}, "a row has head"),
        (
            "attention",
            {
                "text": "a",
                "changes": [
                    {"row": {"head": "cross.0.0", "position": 0, "weights": [0.5]}}
                ],
            },
            "sum to 1, not to 0.5",
        ),
        ("attention", {"text": "a", "kinds": ["both"]}, "kinds are encoder"),
        ("attention", {"text": "a", "max_side": 0}, "max_side must be 1 or more"),
        ("attention", {"text": "a", "norms": "yes"}, "norms must be true or false"),
        ("attention", {"text": "a", "heads": ["cross.0.9"]}, "cross.0 has 4 heads"),
        ("word", {"text": "a"}, "needs one head and one position"),
        ("word", {"text": "a", "position": -1}, "position must be 0 or more"),
        ("patch", {"text": "a"}, "needs --donor"),
        ("compare", {"text": "a"}, "needs a change"),
        ("compare.svg", {"text": "a"}, "compare is not drawn"),
        ("beam", {"text": "a", "search": {"beam": 1}}, "no tree of a beam"),
        ("beam", {"text": "a", "search": {"bean": 1}}, "did you mean beam"),
        ("beam", {"text": "a", "search": [1]}, "search must be an object"),
    ],
)
def test_mistakes_are_named(client, view, body, said):
    answer = client.post(f"/api/{view}", json=body)

    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert said in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_table_is_refused(client, body):
    headers = {"content-type": "application/json"}

    answer = client.post("/api/output", content=body, headers=headers)

    assert answer.status_code == 400
    assert "the body" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/../pyproject.toml", 404),
        ("GET", "/%2e%2e/__init__.py", 404),
        ("GET", "/views/../../__init__.py", 404),
        ("GET", "/views", 404),
        ("GET", "/__init__.py", 404),
        ("POST", "/api/nothing", 404),
        ("POST", "/api/output.pdf", 404),
        ("POST", "/", 405),
        ("PUT", "/api/output", 405),
    ],
)
def test_what_there_is_not_is_an_error_of_the_same_form(client, method, path, status):
    answer = client.request(method, path, json={})

    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_every_view_is_of_the_output_that_is_forced(ask):
    """Attention too, which is not answered as the others are."""
    forced = {"prefix": "L'animal n'a pas traversé la rue parce qu'elle"}

    header, _ = decoded(ask("attention", **forced).content)
    output = ask("output", **forced).json()

    assert header["target"] == [each["piece"] for each in output["positions"]]
    assert "elle" in header["target"]
    assert "il" not in header["target"]


def test_the_same_routes_can_be_mounted_under_a_prefix(model):
    app = Starlette(routes=[Mount("/inside", routes=inspection_routes(model))])
    client = TestClient(app, base_url="http://127.0.0.1")

    assert client.get("/inside/dom.js").status_code == 200
    assert client.get("/inside/api/model").json()["name"] == "demo"
    answer = client.post("/inside/api/output", json={"text": TIRED})
    assert answer.json()["show"] == "output"


def test_what_is_too_large_is_413(ask, model, monkeypatch):
    def too_much(*arguments, **named):
        raise ResourceError("more than fits")

    monkeypatch.setattr(model, "answer", too_much)

    answer = ask("output")

    assert (answer.status_code, answer.json()) == (
        413,
        {"error": {"message": "more than fits"}},
    )


def test_a_bug_is_500_and_is_printed(ask, model, monkeypatch, capsys):
    def broken(*arguments, **named):
        raise RuntimeError("unexpected")

    monkeypatch.setattr(model, "answer", broken)

    answer = ask("output")

    assert answer.status_code == 500
    assert "RuntimeError: unexpected" in answer.json()["error"]["message"]
    assert "Traceback" in capsys.readouterr().err


class Busy:
    """A model that computes until it is told to go on, and says what it did."""

    def __init__(self):
        self.go_on = threading.Event()
        self.running = 0
        self.most = 0
        self.done = []

    def answer(self, view, table, check_stop):
        self.running += 1
        self.most = max(self.most, self.running)
        assert self.go_on.wait(20)
        time.sleep(0.01)
        self.running -= 1
        self.done.append(table["text"])
        return "application/json", b"{}"

    def facts(self):
        return {"name": "busy"}


def started(client, texts):
    answers = []

    def post(text):
        answers.append(client.post("/api/output", json={"text": text}).status_code)

    threads = [threading.Thread(target=post, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    return threads, answers


def test_one_computation_runs_at_a_time_and_the_server_answers_meanwhile():
    busy = Busy()
    app = inspection_app.inspection_app(busy)
    with TestClient(app, base_url="http://localhost") as client:
        threads, answers = started(client, "abc")
        assert client.get("/api/model").json() == {"name": "busy"}
        assert busy.done == []
        busy.go_on.set()
        for thread in threads:
            thread.join()

    assert answers == [200] * 3
    assert sorted(busy.done) == ["a", "b", "c"]
    assert busy.most == 1


def test_too_many_that_wait_are_refused(monkeypatch):
    monkeypatch.setattr(computations, "MAX_WAITING", 2)
    busy = Busy()
    app = inspection_app.inspection_app(busy)
    with TestClient(app, base_url="http://localhost") as client:
        threads, answers = started(client, "abc")
        while not answers:
            time.sleep(0.01)
        refused = client.post("/api/output", json={"text": "d"})
        busy.go_on.set()
        for thread in threads:
            thread.join()

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "5"
    assert answers == [503, 200, 200]
    assert len(busy.done) == 2
