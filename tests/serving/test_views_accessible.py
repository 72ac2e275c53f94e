"""The views for everyone: axe, narrow windows, dark and light, odd and long texts."""

import pytest
from tests.serving.page_tables import ELLE, IL, TIRED, WIDE

STATES = {
    "output": {},
    "attribution": {"beside": "attention"},
    "beam": {},
    "word": {"head": "decoder.1.0", "query": 13},
    "lens": {},
    "patch": {"text": WIDE, "donor": TIRED, "target": IL, "other": ELLE},
    "model": {"level": "decoder.0", "noResidual": "decoder.0.feed_forward"},
    "positions": {},
    "embeddings": {},
}
LEVELS = ("box", "stacks", "decoder.1.cross_attention", "encoder.0.feed_forward")
ODD = [
    "\u2581\u05e9\u05dc\u05d5\u05dd",
    "e\u0301\u0323\u0302",
    "\U0001f469\u200d\U0001f52c",
    "x" * 300,
    "<b>",
    "\u202eabc",
]


def unfold(page):
    for each in page.page.query_selector_all("#panel details:not([open]) > summary"):
        each.click()


def assert_fits(page):
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.page.evaluate(wide) == 0, "nothing makes the page scroll sideways"


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("view", STATES)
def test_axe_finds_nothing(open_page, view, width):
    page = open_page(
        width=width, dark=width == 320, **{"text": TIRED, "view": view, **STATES[view]}
    )
    page.page.locator("#panel details.numbers > summary").first.click()
    assert page.violations() == []
    assert_fits(page)


@pytest.mark.parametrize("level", LEVELS)
def test_axe_finds_nothing_at_any_level_of_the_model(open_page, level):
    page = open_page(width=320, text=TIRED, view="model", level=level, off="cross.1.0")
    assert page.violations() == []
    assert_fits(page)


def test_odd_pieces_are_shown_as_text(open_page):
    """Right to left, combining marks, emoji, long and like HTML."""

    def answer(route):
        found = route.fetch().json()
        for each, piece in zip(found["positions"], ODD, strict=False):
            each["piece"] = piece
            each["alternatives"][1]["piece"] = piece
        route.fulfill(json=found)

    page = open_page(
        width=320, text=TIRED, view="output", routes={"api/output": answer}
    )
    pieces = page.texts("#panel .pieces .token")
    assert pieces[: len(ODD)] == [each.replace("\u2581", "\u00b7") for each in ODD]
    assert page.page.locator("#panel b").count() == 0
    assert_fits(page)


def synthetic(view, length):
    """Answers of ``view`` for ``length`` tokens on both sides."""
    pieces = [f"\u2581w{i}" for i in range(length)]
    position = {
        "piece": "\u2581a",
        "token": 1,
        "log_probability": -0.1,
        "rank": 1,
        "entropy": 1.0,
        "alternatives": [
            {"piece": f"\u2581{c}", "token": i, "probability": 0.1}
            for i, c in enumerate("abcde")
        ],
    }
    matrix = [[(i - j) / length for j in range(length)] for i in range(length)]
    vector = [0.5] * 64
    answers = {
        "output": {
            "text": "a",
            "source": pieces,
            "positions": [position] * length,
            "log_probability": -1.0,
        },
        "attribution": {
            "source": pieces,
            "target": pieces,
            "positions": list(range(length)),
            "gradient_input": matrix,
            "leave_one_out": matrix,
        },
        "lens": {
            "target": pieces,
            "layers": [
                {"layer": layer, "positions": [position] * length}
                for layer in (None, 0, 1, 2, 3, 4, 5)
            ],
        },
        "beam": {
            "source": pieces,
            "beam": 4,
            "stopping": "first-k",
            "ended_by": "a limit",
            "reasons": {"kept": "kept", "pruned": "pruned"},
            "results": [
                {
                    "node": 8 * length - 8,
                    "text": "a",
                    "score": -1.0,
                    "log_probability": -1.0,
                    "finished": True,
                }
            ],
            "nodes": [
                {
                    "id": 8 * step + rank,
                    "parent": 8 * step - 8 if step else None,
                    "step": step + 1,
                    "rank": rank + 1,
                    "token": 1,
                    "piece": "a",
                    "token_score": -0.1,
                    "total": -0.1 * step,
                    "status": "kept" if rank < 4 else "pruned",
                    "score": None,
                    "result": None,
                }
                for step in range(length)
                for rank in range(8)
            ],
        },
        "word": {
            "head": "decoder.0.0",
            "position": 5,
            "piece": "a",
            "attended": pieces,
            "query_before_rotation": None,
            "query": vector,
            "keys": [vector] * length,
            "values": [vector] * length,
            "scores": [1.0] * length,
            "scaled_scores": [1.0] * length,
            "mask": [k <= 5 for k in range(length)],
            "masked_scores": [1.0 if k <= 5 else None for k in range(length)],
            "weights": [0.1] * length,
            "weighted_values": [vector] * length,
            "head_output": vector,
            "concatenation": vector * 8,
            "sublayers": [],
        },
    }
    return answers[view]


@pytest.mark.parametrize("view", ["output", "attribution", "lens", "beam", "word"])
def test_a_thousand_tokens_make_no_hundred_thousand_nodes(open_page, view):
    answer = synthetic(view, 1000)
    page = open_page(
        width=1280,
        text=TIRED,
        view=view,
        head="decoder.0.0",
        query=5,
        routes={f"api/{view}": lambda route: route.fulfill(json=answer)},
    )
    unfold(page)
    nodes = page.page.evaluate("document.querySelectorAll('*').length")
    assert 100 < nodes < 100_000 / 2
    assert_fits(page)
