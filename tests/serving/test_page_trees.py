"""The tree of a parse is drawn beside its output."""

import json

TREE = "(S (NP (XX the) (XX dog)) (VP (XX runs)))"
SOURCE = ["\u2581the", "\u2581dog", "\u2581runs", "</s>"]


def open_tree(open_page, source):
    """Open the output of a parser, as the server would answer."""
    position = {"token": 7, "log_probability": -0.1, "rank": 1, "entropy": 0.2}
    position |= {"piece": "(S", "alternatives": [], "source_position": None}
    answer = {"text": TREE, "source": source, "positions": [position]}
    answer |= {"format": 1, "show": "output", "log_probability": -0.1, "tree": TREE}

    def fulfill(route):
        route.fulfill(body=json.dumps(answer), content_type="application/json")

    return open_page(text="the dog runs", view="output", routes={"api/output": fulfill})


def test_it_has_each_label_and_word_once_joined_by_edges(open_page):
    page = open_tree(open_page, SOURCE)

    assert sorted(page.texts(".syntax text")) == ["NP", "S", "VP", "dog", "runs", "the"]
    assert len(page.page.query_selector_all(".syntax path")) == 5
    assert page.page.get_attribute(".syntax", "aria-label") == TREE
    places = {
        each.text_content(): (each.get_attribute("x"), each.get_attribute("y"))
        for each in page.page.query_selector_all(".syntax text")
    }
    x = {name: float(place[0]) for name, place in places.items()}
    y = {name: float(place[1]) for name, place in places.items()}
    assert x["the"] < x["NP"] < x["dog"] < x["VP"] == x["runs"]
    assert y["S"] < y["NP"] == y["VP"] < y["the"] == y["dog"] == y["runs"]


def test_its_words_are_tokens_of_the_source(open_page):
    page = open_tree(open_page, SOURCE)
    page.page.hover(".syntax text:has-text('dog')")

    assert page.texts(".syntax .lit") == ["dog"]


def test_words_of_several_tokens_are_not_mistaken_for_them(open_page):
    page = open_tree(open_page, ["\u2581the", "\u2581do", "g", "\u2581runs", "</s>"])

    assert page.texts(".syntax [data-token]") == []


def test_axe_finds_nothing(open_page):
    assert open_tree(open_page, SOURCE).violations() == []
