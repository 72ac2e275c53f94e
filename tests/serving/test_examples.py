"""The examples of the page fit the models that they are offered with."""

import pytest
from tests.serving.demo_requests import TIRED

from headwise.serving.examples import PAPER, known_examples


@pytest.mark.parametrize("languages", [(), ("fr", "en"), ("en",), ("de", "fr")])
def test_there_are_none_for_models_that_do_not_translate_from_english(languages):
    assert known_examples(languages) == []


def test_the_papers_sentences_are_for_every_target_language():
    texts = [each["text"] for each in known_examples(("en", "pt"))]

    assert {TIRED, *PAPER} <= {*texts}
    assert len(texts) == len({*texts})


def test_each_pair_about_a_pronoun_can_be_patched(client):
    """One head of the demo model carries nearly all of it, in both directions."""
    examples = client.get("/api/model").json()["examples"]
    pairs = [each for each in examples if "donor" in each]
    assert len(pairs) == 2

    for pair in pairs:
        found = client.post("/api/patch", json=pair).json()
        best = max(max(each["carried"]) for each in found["heads"])
        assert best > 0.9
        assert found["source_difference"] * found["donor_difference"] < 0
