"""The numbers of each view are those of the server."""

import math

import pytest
from tests.serving.page_tables import (
    ELLE,
    IL,
    TIRED,
    WIDE,
    asked,
    assert_same,
    number,
    same,
    shown,
    table,
)


def test_output(open_page):
    page = open_page(text=TIRED, view="output")
    found = asked(page, "output", count=6)
    rows = table(page, "All numbers of this output")
    assert len(rows) == len(found["positions"])
    for t, (row, each) in enumerate(zip(rows, found["positions"], strict=True)):
        assert row[:2] == [str(t), shown(each["piece"])]
        assert same(row[2], math.exp(each["log_probability"]))
        assert same(row[3], each["log_probability"])
        assert (row[4], same(row[5], each["entropy"])) == (str(each["rank"]), True)
        best = each["alternatives"][0]
        assert row[6].startswith(shown(best["piece"]))


def test_another_output_is_looked_at(open_page):
    """*elle* costs the model what the server says it does."""
    page = open_page(text=TIRED, view="output")
    other = "L'animal n'a pas traversé la rue parce qu'elle était trop fatiguée."
    page.page.fill("#question-target", other)
    page.click("#question button[type=submit]")
    rows = table(page, "All numbers of this output")
    (elle,) = (row for row in rows if row[1] == "elle")
    assert (elle[4], number(elle[2]) < 0.01) == ("2", True)
    assert page.text("#panel .said") == other


def test_attribution(open_page):
    page = open_page(text=TIRED, view="attribution")
    found = asked(page, "attribution")
    for summary, name in (
        ("leave one out", "leave_one_out"),
        ("gradient", "gradient_input"),
    ):
        rows = table(page, f"Numbers: {summary}")
        assert rows[13][0] == "il (13)"
        assert_same([row[1:] for row in rows], found[name])


def test_mean_attention_is_that_of_the_last_cross_attention(open_page):
    page = open_page(text=TIRED, view="attribution", beside="attention")
    page.page.wait_for_selector(".beside section")
    rows = [[number(each) for each in row[1:]] for row in table(page, "mean attention")]
    assert all(math.isclose(sum(row), 1, abs_tol=0.02) for row in rows)
    weights = []
    for head in range(4):
        word = asked(page, "word", heads=[f"cross.1.{head}"], position=5)
        weights.append(word["weights"])
    mean = [sum(each) / 4 for each in zip(*weights, strict=True)]
    assert all(
        math.isclose(a, b, abs_tol=6e-4) for a, b in zip(rows[5], mean, strict=True)
    )


def test_beam(open_page):
    page = open_page(text=TIRED, view="beam")
    found = asked(page, "beam")
    rows = table(page, "All hypotheses")
    assert len(rows) == len(found["nodes"])
    for row, node in zip(rows, found["nodes"], strict=True):
        assert row[:3] == [str(node["step"]), str(node["rank"]), shown(node["piece"])]
        assert same(row[4], node["token_score"])
        assert same(row[5], node["total"])
        assert row[7] == node["status"]
    assert page.texts(".results bdi") == [each["text"] for each in found["results"]]


@pytest.mark.parametrize(
    ("head", "position"), [("encoder.1.2", 9), ("decoder.1.0", 13), ("cross.0.3", 13)]
)
def test_word(open_page, head, position):
    page = open_page(text=TIRED, view="word", head=head, query=position)
    found = asked(page, "word", heads=[head], position=position)
    rows = table(page, "scores and weights")
    columns = ("scores", "scaled_scores", "masked_scores", "weights")
    assert_same(
        [row[1:] for row in rows],
        list(map(list, zip(*(found[x] for x in columns), strict=True))),
    )
    vectors = [
        found["query"],
        *found["keys"],
        *found["values"],
        *found["weighted_values"],
        found["head_output"],
    ]
    assert_same([row[1:] for row in table(page, "vectors of the head")], vectors)
    names = ("x", "input", "output", "sum", "result")
    wide = [
        found["concatenation"],
        *(each[name] for each in found["sublayers"] for name in names),
    ]
    assert_same([row[1:] for row in table(page, "vectors of the layer")], wide)
    inner = found["sublayers"][-1]
    assert_same(
        [row[1:] for row in table(page, "inside feed-forward")],
        [inner["hidden"], inner["activated"]],
    )
    has_mask = head.startswith("decoder")
    assert ("The look-ahead mask" in page.text("#panel .steps")) == has_mask


def test_lens(open_page):
    page = open_page(text=TIRED, view="lens")
    found = asked(page, "lens")
    rows = table(page, "All numbers of the logit lens")
    expected = [
        (t, layer["layer"], layer["positions"][t])
        for t in range(len(found["target"]))
        for layer in found["layers"]
    ]
    for row, (t, layer, each) in zip(rows, expected, strict=True):
        assert row[0] == str(t)
        assert row[2] == ("input" if layer is None else f"layer {layer}")
        assert row[3] == shown(each["alternatives"][0]["piece"])
        assert same(row[4], each["alternatives"][0]["probability"])
        assert same(row[5], math.exp(each["log_probability"]))
        assert (row[6], same(row[7], each["entropy"])) == (str(each["rank"]), True)


def test_patch(open_page):
    page = open_page(text=WIDE, donor=TIRED, target=IL, other=ELLE, view="patch")
    found = asked(page, "patch", WIDE, donor=TIRED, target=IL, other=ELLE)
    for summary, stack in (
        ("Numbers: encoder", "encoder"),
        ("Numbers: decoder", "decoder"),
    ):
        expected = [
            *(
                x["carried"]
                for x in found["heads"]
                if x["head"].startswith("encoder") == (stack == "encoder")
            ),
            *(x["carried"] for x in found["layers"] if x["stack"] == stack),
        ]
        assert_same([row[1:] for row in table(page, summary)], expected)
    first = table(page, "Every patch")[0]
    assert first[:3] == ["decoder.1.0", "13", "'"]
    assert "One head carries most of it: decoder.1.0" in page.text("#panel .said")


def test_patching_says_if_no_head_carries_it_alone(open_page):
    """The real answer with all shares halved."""

    def halve(route):
        answer = route.fetch().json()
        for each in answer["heads"]:
            each["carried"] = [x * 0.45 for x in each["carried"]]
        route.fulfill(json=answer)

    page = open_page(
        text=WIDE,
        donor=TIRED,
        target=IL,
        other=ELLE,
        view="patch",
        routes={"api/patch": halve},
    )
    said = page.text("#panel .said")
    assert said.startswith("No single head carries it: the best, decoder.1.0")
    assert "45.0%" in said


def test_positions(open_page):
    page = open_page(text=TIRED, view="positions")
    found = asked(page, "positions")
    assert_same(
        [row[1:] for row in table(page, "Numbers: encodings")], found["encodings"]
    )
    assert_same([row[1:] for row in table(page, "binary counter")], found["binary"])
    waves = [number(row[1]) for row in table(page, "Wavelengths")]
    assert waves == pytest.approx(found["wavelengths"], rel=0.02)


def test_embeddings(open_page):
    page = open_page(text=TIRED, view="embeddings")
    found = asked(page, "embeddings")
    rows = table(page, "all points")
    assert len(rows) == len(found["points"])
    for row, point in zip(rows, found["points"], strict=True):
        assert row[:2] == [shown(point["piece"]), point["side"]]
        assert same(row[3], point["x"])
        assert same(row[4], point["y"])
        nearest = [f"{shown(x['piece'])} {x['cosine']:.3f}" for x in point["nearest"]]
        assert row[5] == "  ".join(nearest).replace("-0.", "\u22120.")
    point = next(x for x in found["points"] if x["nearest"])
    assert page.texts("#panel .chosen li bdi") == [
        shown(x["piece"]) for x in point["nearest"]
    ]


def test_model(open_page):
    page = open_page(text=TIRED, view="model")
    model = page.page.request.get(f"{page.address}api/model").json()
    names = [row[0] for row in table(page, "All parts")]
    assert sorted(names) == sorted([*model["heads"], *model["sublayers"]])
    assert f"{model['parameters']:,} parameters" in page.text("#panel .black")
