"""Attention from a pronoun to its antecedent, where it is known what must be found."""

from pathlib import Path

import numpy as np
import pytest
import torch

import headwise
from headwise.inspection.attention import Attention, AttentionMap
from headwise.inspection.interventions import ReplaceRow
from headwise.inspection.places import Head

ROOT = Path(__file__).parents[2]
TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)
IL, ELLE = (
    f"L'animal n'a pas traversé la rue parce qu'{each}" for each in ("il", "elle")
)


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import coreference_heads
    import coreference_pairs

    return coreference_heads, coreference_pairs


@pytest.fixture(scope="module")
def inspector():
    return headwise.load(ROOT / "tests" / "models" / "demo").inspector


@pytest.fixture
def animal_and_street(modules):
    """The pair of the animal that did not cross the street."""
    _, pairs = modules
    (sentences,) = [
        tuple(
            pairs.Sentence(
                text,
                pairs.pronoun_after(text, "it", 10),
                *(pairs.noun_phrase(text, noun) for noun in nouns),
                right,
                wrong,
                tuple(pairs.noun_phrase(right, noun) for noun in in_french),
            )
            for text, nouns, in_french, right, wrong in (
                (TEXTS[0], ("animal", "street"), ("animal", "rue"), IL, ELLE),
                (TEXTS[1], ("street", "animal"), ("rue", "animal"), ELLE, IL),
            )
        )
    ]
    return sentences


def test_weights_of_a_noun_are_summed_and_rows_of_the_pronoun_averaged(modules):
    """By hand: (0.3 + 0.1 - 0.2 + 0.5 + 0.1 - 0.4) / 2 = 0.2."""
    heads, _ = modules
    weights = torch.tensor([[1.0, 0, 0, 0], [0.3, 0.1, 0.2, 0.4], [0.5, 0.1, 0.4, 0]])
    head = Head("encoder", 0, 0)
    found = Attention((), (), (), (AttentionMap(head, weights),))

    difference = heads.looks(found, head, range(1, 3), range(2), range(2, 3))

    assert difference == pytest.approx(0.2)


def test_a_head_that_always_prefers_the_first_noun_has_a_difference_of_zero(
    modules, inspector, animal_and_street
):
    """All weight on "animal" in both sentences: +1 and -1. "tired" is no such word."""
    heads, _ = modules
    head = Head("encoder", 0, 1)
    it, animal = 9, 1
    weights = tuple(float(place == animal) for place in range(animal + 1))

    with inspector.intervene(ReplaceRow(head, it, weights)):
        one, other = (heads.differences_of(inspector, x) for x in animal_and_street)
        table = heads.attention_table(inspector, [animal_and_street])

    assert one[head, "pronoun"] == 1
    assert other[head, "pronoun"] == -1
    (row,) = [each for each in table["heads"] if each["head"] == "encoder.0.1"]
    assert row["difference"] == 0
    assert row["p"] == 1


def test_a_head_that_finds_the_antecedent_has_a_difference_of_one(
    modules, inspector, animal_and_street
):
    heads, _ = modules
    head = Head("encoder", 1, 2)
    found = []
    for sentence, noun in zip(animal_and_street, (1, 7), strict=True):
        weights = tuple(float(place == noun) for place in range(noun + 1))
        with inspector.intervene(ReplaceRow(head, 9, weights)):
            found.append(heads.differences_of(inspector, sentence)[head, "pronoun"])

    assert found == [1, 1]


def test_rows_and_columns_are_those_of_the_named_tokens(
    modules, inspector, animal_and_street
):
    """decoder.1.0 looks from where *il* is written to *L'animal* (inside.md)."""
    heads, _ = modules
    sentence = animal_and_street[0]
    found = inspector.attention(sentence.text, sentence.right)
    head = Head("decoder", 1, 0)
    pieces = found.decoder_input
    row = found.of(head).weights[found.target.index("il")]
    expected = sum(row[i] for i, x in enumerate(pieces) if x in ("▁L", "animal"))
    expected -= sum(row[i] for i, x in enumerate(pieces) if x in ("▁la", "▁rue"))
    expected += row[2]  # the apostrophe of L'animal

    assert pieces[2] == "'"
    assert heads.differences_of(inspector, sentence)[head, "output"] == pytest.approx(
        float(expected)
    )


def test_each_head_off_is_compared_at_the_token_that_tells_outputs_apart(
    modules, inspector, animal_and_street
):
    """Without decoder.1.0 *il* and *elle* are a coin toss: patching has said so."""
    heads, _ = modules

    off = heads.heads_off(inspector, animal_and_street, Head("decoder", 1, 0))

    assert off["before"]["right"] == 100
    assert off["before"]["margin"] > 5
    assert off["best"]["right"] == 50
    assert off["rank_of_best"] <= 2
    assert len(off["heads"]) == 24
    assert inspector.model.interventions == ()


def test_margins_are_differences_of_log_probabilities(
    modules, inspector, animal_and_street
):
    heads, _ = modules
    il = inspector.output(TEXTS[0], IL).positions
    elle = inspector.output(TEXTS[0], ELLE).positions
    place = [each.piece for each in il].index("il")

    (margin, _) = heads.margins(inspector, animal_and_street)

    assert margin == il[place].log_probability - elle[place].log_probability


def test_nouns_inside_of_words_are_not_found(modules):
    _, pairs = modules

    assert pairs.noun_phrase("A category of the cat.", "cat") == (14, 21)
    with pytest.raises(ValueError, match="'cat' is not in"):
        pairs.noun_phrase("A category.", "cat")


def test_generated_pairs_swap_their_nouns_and_share_none(modules):
    _, pairs = modules
    from headwise.sample_data.coreference import coreferences

    test = coreferences().test
    for found in (pairs.demo_pairs(20, 7), pairs.as_labels(test)[:40]):
        for one, other in found:
            assert (one.antecedent, one.distractor) == (
                other.distractor,
                other.antecedent,
            )
            assert (one.right, one.wrong) == (other.wrong, other.right)
        nouns = [
            frozenset(
                one.text[slice(*span)] for span in (one.antecedent, one.distractor)
            )
            for one, _ in found
        ]
        assert len(nouns) == len({*nouns})


def test_a_pronoun_of_a_dialogue_comes_after_what_decides(modules):
    _, pairs = modules
    from headwise.sample_data.coreference import coreferences

    for one, other in pairs.as_dialogues(coreferences().test)[:10]:
        differs = next(
            i
            for i, (a, b) in enumerate(zip(one.text, other.text, strict=False))
            if a != b
        )
        assert one.pronoun[0] > differs
        assert one.text[slice(*one.pronoun)] == "it"


def test_one_test_for_each_head_and_query(modules, inspector, animal_and_street):
    heads, _ = modules

    table = heads.attention_table(inspector, [animal_and_street])

    queries = {(each["head"].split(".")[0], each["from"]) for each in table["heads"]}
    assert queries == {
        ("encoder", "pronoun"),
        ("decoder", "output"),
        ("cross", "output"),
    }
    assert len(table["heads"]) == 24
    assert np.isfinite([each["difference"] for each in table["heads"]]).all()


def test_nouns_of_a_question_are_those_after_the_sentence(modules):
    _, pairs = modules
    text = "The gate was hit by the tractor. It was too low. gate or tractor?"
    first = pairs.Sentence(text, (33, 35), (0, 8), (20, 31), "first", "second")

    moved = pairs.in_question(first)

    assert text[slice(*moved.antecedent)] == "gate"
    assert text[slice(*moved.distractor)] == "or tractor"
    assert moved.antecedent[0] > text.index("low.")


def test_heads_off_together_are_all_off(modules, inspector, animal_and_street):
    """Each of two heads carries the pronoun, and without all of them nothing does."""
    heads, _ = modules
    both = [Head("decoder", 1, 0), Head("cross", 0, 3)]

    off = heads.heads_off(inspector, animal_and_street, both[0], both)

    assert off["together"]["head"] == "decoder.1.0 cross.0.3"
    assert abs(off["together"]["margin"]) < 0.5
    assert heads.heads_off(inspector, animal_and_street, both[0])["together"] is None
