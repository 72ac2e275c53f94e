"""Labels, tags, masks and numbers: against Captum, and against texts without a word."""

from dataclasses import replace

import pytest
import torch
from captum.attr import InputXGradient
from tests.inspection.test_every_task import untrained
from tests.tasks.examples import INPUTS

from headwise.errors import DataError, UsageError
from headwise.inspection.attribution import gradient_times_input, leave_one_out
from headwise.inspection.interventions import HeadOff
from headwise.model.masks import make_padding_mask
from headwise.text.vocabulary import SPECIALS, UNKNOWN

ENCODERS = ["classification", "regression", "tagging", "masked_language_model"]
TEXTS = {**INPUTS, "masked_language_model": ["one [MASK] three [MASK] two"]}


@pytest.fixture(scope="module", params=ENCODERS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def inspector(name, tmp_path_factory):
    """Return a model without positions: a word that is hidden is as if never there."""
    changes = {"positions": "none", "d_model": 16, "num_heads": 2}
    found = untrained(name, tmp_path_factory.mktemp(name), **changes)
    found.model.double()
    return found


@pytest.fixture
def pair(inspector, name):
    return inspector.pair(TEXTS[name][0])


def parts(name, inspector, pair, vectors):
    """Return the parts of the output [B O K] by vectors [B S D], written anew."""
    model, is_real = inspector.model, torch.ones(vectors.shape[:2]).bool()
    encoder = model.encoder_only
    mask = make_padding_mask(is_real)
    encoded = encoder.encoder(encoder.enter_encoder(vectors, 0), mask)
    if name == "classification":
        return model.head(encoded, is_real).log_softmax(-1)[:, None]
    if name == "regression":
        deviation = inspector.task.tokenizers.target.deviation
        return model.head(encoded, is_real)[:, None, None] * deviation
    encoded = encoded[:, list(pair.answer_positions)]
    if name == "tagging":
        return model.head(encoded).log_softmax(-1)
    return model.head(encoded, encoder.embedding.vectors).log_softmax(-1)


def columns(name, pair):
    """Return which of the K numbers of each part is the output's."""
    first = {"classification": len(SPECIALS), "tagging": UNKNOWN}.get(name, 0)
    return [token - first for token in pair.answer] or [0]


def attributed(inspector, pair):
    return inspector._inspected.attributed(pair)


def test_gradient_times_input_is_captums(name, inspector, pair):
    embedding = inspector.model.encoder_only.embedding
    vectors = embedding(torch.tensor([pair.source])).detach().requires_grad_()
    attribute = InputXGradient(
        lambda given: parts(name, inspector, pair, given)
    ).attribute
    expected = torch.stack(
        [
            attribute(vectors, target=(part, column))[0].sum(dim=-1)
            for part, column in enumerate(columns(name, pair))
        ]
    )

    output = attributed(inspector, pair)
    found = gradient_times_input(output, range(len(output.rows)))

    torch.testing.assert_close(found, expected.detach())


def test_a_word_that_is_left_out_is_as_if_it_were_not_there(name, inspector, pair):
    """Without positions the text without it is the same; its own part apart."""
    embed = inspector.model.encoder_only.embedding
    chosen = columns(name, pair)
    with torch.no_grad():
        vectors = embed(torch.tensor([pair.source]))
        whole = parts(name, inspector, pair, vectors)[0]
        found = leave_one_out(attributed(inspector, pair), range(len(chosen)))
        for position in range(1, len(pair.source)):
            kept = [n for n in range(len(pair.source)) if n != position]
            at = [kept.index(n) if n in kept else 0 for n in pair.answer_positions]
            shorter = replace(pair, answer_positions=tuple(at))
            without = parts(name, inspector, shorter, vectors[:, kept])[0]
            for part, column in enumerate(chosen):
                if pair.answer_positions[part : part + 1] == (position,):
                    continue
                lost = whole[part, column] - without[part, column]
                torch.testing.assert_close(found[part, position], lost)


def test_every_choice_of_a_part_is_there_with_its_probability(name, inspector, pair):
    if name == "regression":
        return
    with torch.no_grad():
        vectors = inspector.model.encoder_only.embedding(torch.tensor([pair.source]))
        expected = parts(name, inspector, pair, vectors)[0]

    found = inspector.output(TEXTS[name][0], count=1000).positions

    first = {"classification": len(SPECIALS), "tagging": UNKNOWN}.get(name, 0)
    assert len(found) == len(expected)
    for position, row in zip(found, expected, strict=True):
        assert position.rank == 1
        for each in position.alternatives:
            assert each.token >= len(SPECIALS)
            p = row[each.token - first].exp().item()
            assert each.probability == pytest.approx(p, abs=1e-6)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return untrained("classification", tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    return untrained("tagging", tmp_path_factory.mktemp("tags"))


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return untrained("masked_language_model", tmp_path_factory.mktemp("masks"))


def test_another_label_can_be_looked_at(classifier):
    whole = classifier.output("one red two", count=3)
    total = 0.0
    for label in ("is red", "is green", "is blue"):
        (position,) = classifier.output("one red two", label).positions
        listed = {x.piece: x.probability for x in whole.positions[0].alternatives}
        p = torch.tensor(position.log_probability).exp().item()
        assert listed[label] == pytest.approx(p, abs=1e-5)
        assert classifier.attribution("one red two", label).target == (label,)
        total += p
    assert total == pytest.approx(1, abs=1e-5)


def test_a_label_that_was_never_seen_is_refused(classifier):
    with pytest.raises(DataError, match="'is pink' is not among"):
        classifier.output("one red two", "is pink")


def test_a_text_is_read_after_its_first_token(classifier, tagger):
    """Which classifiers pool, and taggers do without."""
    assert classifier.attention("one red two").source[0] == "<s>"
    assert tagger.attention("one dog runs").source[-1] == "</s>"


def test_each_word_needs_one_tag(tagger):
    found = tagger.output("one dog runs", "VERB NUM NOUN")
    assert [each.piece for each in found.positions] == ["VERB", "NUM", "NOUN"]
    with pytest.raises(DataError, match="3 words and 2 tags"):
        tagger.output("one dog runs", "NUM NOUN")


def test_masks_are_filled_and_words_are_masked_in_turn(masked):
    filled = masked.output("one [MASK] three")
    (position,) = filled.positions
    assert filled.source[position.source_position] == "[MASK]"
    assert position.piece in filled.text.replace(" ", "▁")

    whole = masked.output("one two three")
    assert len(whole.positions) == 3
    (predicted,) = masked.task.predictions(masked.model, ["one two three"])
    assert whole.log_probability == pytest.approx(predicted.log_probability, abs=1e-4)
    with pytest.raises(UsageError, match=r"write \[MASK\] in the place of a word"):
        masked.attribution("one two three")
    with pytest.raises(UsageError, match="is what its masks hide, so there is no targ"):
        masked.output("one [MASK] three", "two")


def test_heads_are_ranked_by_what_labels_lose(classifier):
    texts, labels = ["one red two", "blue six", "six green"], ["is red", "is blue"] * 2
    ranking = classifier.rank_heads(texts, labels[:3])

    before = [
        classifier.output(text, label).log_probability
        for text, label in zip(texts, labels, strict=False)
    ]
    assert ranking.log_probability == pytest.approx(sum(before) / 3, abs=1e-4)
    assert ranking.heads[0].tokens == 3
    for each in ranking.heads:
        with classifier.intervene(*map(HeadOff, each.heads)):
            after = [
                classifier.output(text, label).log_probability
                for text, label in zip(texts, labels, strict=False)
            ]
        lost = sum(a - b for a, b in zip(before, after, strict=True)) / 3
        assert each.loss == pytest.approx(lost, abs=1e-4)


def test_heads_are_not_ranked_by_what_has_no_probability(tagger):
    with pytest.raises(UsageError, match="a model of tagging has none of them"):
        tagger.rank_heads(["one dog"], ["NUM NOUN"])
