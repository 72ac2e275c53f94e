"""The tree of a beam against the reference search, and against the search itself."""

import math
from dataclasses import replace

import pytest
import torch
from tests.reference.beam_search import readable_beam_search

from headwise.decoding.settings import DecodingSettings, paper
from headwise.decoding.stopping import STOPPING
from headwise.errors import UsageError
from headwise.inspection.beam_tree import REASONS, beam_tree
from headwise.tasks.translation.text_codec import FORBIDDEN_TOKENS
from headwise.text.vocabulary import END, START

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "The dog sees two cats.",
    "Look at the red house that my sister bought!",
]

SEARCHES = {
    "first-k": {"beam": 4, "stopping": "first-k", "patience": 1.0},
    "patience": {"beam": 3, "stopping": "first-k", "patience": 2.0, "num_best": 2},
    "exact": {"beam": 4, "stopping": "exact", "num_best": 3},
    "never": {"beam": 2, "stopping": "never", "max_length_factor": 1.0},
    "cut off": {"beam": 3, "max_length_factor": 0.0, "max_length_offset": 3},
    "wide": {"beam": 12, "length_penalty": "gnmt", "alpha": 0.6},
}


def tree_of(generator, source, settings, prefix=None):
    """Return the tree of a search for the translation of ``source``."""

    def search(on_step):
        reporting = replace(generator, on_beam_step=on_step)
        return reporting.search([source], settings, [prefix] if prefix else None)[0]

    target = generator.tokenizers.target
    return beam_tree(
        search,
        settings,
        source=generator.tokenizers.source.pieces([*source, END]),
        target=target,
        text_of=lambda found: target.decode(found.tokens),
    )


@pytest.fixture(scope="module")
def parts(demo):
    opened = demo.opened
    return opened.task, opened.model


@pytest.fixture(params=SEARCHES)
def settings(request):
    return DecodingSettings(**SEARCHES[request.param])


@pytest.mark.parametrize("text", TEXTS)
def test_results_are_exactly_those_of_the_search(parts, settings, text):
    task, model = parts
    (source,) = task.encode([text])
    generator = task.generator(model)
    (expected,) = generator.search([source], settings)

    tree = tree_of(generator, source, settings)

    found = [(each.score, each.log_probability, each.finished) for each in tree.results]
    assert found == [(x.score, x.log_probability, x.finished) for x in expected]
    for result, hypothesis in zip(tree.results, expected, strict=True):
        node = tree.nodes[result.node]
        tokens = tree.tokens(result.node)
        assert tokens == (*hypothesis.tokens, END)[: len(tokens)]
        assert node.score == hypothesis.score
        assert node.status == ("ended" if hypothesis.finished else "cut off")
    assert [tree.nodes[x.node].result for x in tree.results] == list(
        range(1, len(expected) + 1)
    )


def test_the_tree_is_that_of_the_reference_search(parts, settings):
    """What stays in the beam is what the reference asks to be continued."""
    task, model = parts
    (source,) = task.encode([TEXTS[0]])
    asked = []

    def log_probabilities(before):
        asked.append(before)
        return scores_of(model, source, before)

    results = readable_beam_search(
        log_probabilities,
        end=END,
        beam=settings.beam,
        penalty=settings.penalty,
        stopping=STOPPING[settings.stopping],
        max_length=settings.max_length(len(source)),
        reward=settings.reward,
        patience=settings.patience,
        num_best=settings.num_best,
        forbidden=FORBIDDEN_TOKENS,
    )

    tree = tree_of(task.generator(model), source, settings)

    kept = [tree.tokens(x.id) for x in tree.nodes if x.status == "kept"]
    # `completed` of the reference asks for prefixes of what it completed as well.
    assert set(kept) | {()} == set(asked)
    assert len(kept) == len(set(kept))
    scores = sorted((x.score for x in tree.nodes if x.score is not None), reverse=True)
    for ours, theirs in zip(scores, results, strict=False):
        assert ours == pytest.approx(theirs.score, abs=1e-5)


def scores_of(model, source, before):
    ids = torch.tensor([[*source, END]])
    with torch.inference_mode():
        logits = model(ids, torch.tensor([[START, *before]]), torch.ones_like(ids) > 0)
    return logits[0, -1].double().log_softmax(-1).tolist()


def test_every_node_says_what_became_of_it(parts, settings):
    """Laws: children extend kept nodes, totals add up, and ranks fall with totals."""
    task, model = parts
    (source,) = task.encode([TEXTS[1]])

    tree = tree_of(task.generator(model), source, settings)

    assert tree.reasons is REASONS
    assert len(tree.ended_by) > 5
    for place, node in enumerate(tree.nodes):
        assert node.id == place
        parent = None if node.parent is None else tree.nodes[node.parent]
        before = 0.0 if parent is None else parent.total
        assert node.total == pytest.approx(before + node.token_score, abs=1e-4)
        assert parent is None or (parent.status, parent.step) == ("kept", node.step - 1)
        assert (node.score is None) == (node.status not in ("ended", "cut off"))
        assert (node.token == END) == (node.status.startswith("ended"))
    for step in range(1, tree.nodes[-1].step + 1):
        of_step = [node for node in tree.nodes if node.step == step]
        totals = [node.total for node in of_step]
        assert totals == sorted(totals, reverse=True)
        alive = [x for x in of_step if x.status in ("kept", "stopped")]
        assert len(alive) <= settings.beam
        pruned = [x.total for x in of_step if x.status == "pruned"]
        if pruned and len(alive) == settings.beam:
            assert min(x.total for x in alive) >= max(pruned)


def test_statuses_worked_out_by_hand(parts):
    """Cut off after 3 tokens: three hypotheses complete there, and nothing ends."""
    task, model = parts
    (source,) = task.encode([TEXTS[1]])
    settings = DecodingSettings(**SEARCHES["cut off"])

    tree = tree_of(task.generator(model), source, settings)

    statuses = [node.status for node in tree.nodes if node.step == 3]
    assert statuses[:3] == ["cut off"] * 3
    assert tree.ended_by == "the length limit of 3 tokens"
    assert len([x for x in tree.nodes if x.score is not None]) == 3


def test_rules_and_a_prefix_are_those_of_the_search(parts):
    task, model = parts
    (source,) = task.encode([TEXTS[1]])
    settings = DecodingSettings(beam=3, num_best=2, no_repeat_ngram=2)
    generator = task.generator(model)
    prefix = task.prefix("Ce chien")
    (expected,) = generator.search([source], settings, [prefix])

    tree = tree_of(generator, source, settings, prefix=prefix)

    assert [each.score for each in tree.results] == [each.score for each in expected]
    assert all(each.text.startswith("Ce chien") for each in tree.results)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (DecodingSettings(beam=1), "a beam of 1 is greedy search"),
        (DecodingSettings(search="sampling", samples=3), "'sampling' is not one beam"),
        (DecodingSettings(search="diverse-beam", beam=4), "'diverse-beam' is not one"),
        (DecodingSettings(beam=4, choose="chrf"), "ranks by something else"),
    ],
)
def test_a_search_without_a_beam_is_refused(parts, settings, said):
    task, model = parts
    with pytest.raises(UsageError, match=said):
        tree_of(task.generator(model), [5, 6], settings)


def test_the_search_of_the_paper_has_a_tree(parts):
    task, model = parts
    (source,) = task.encode([TEXTS[2]])

    tree = tree_of(task.generator(model), source, paper())

    assert tree.beam == 4
    assert math.isfinite(tree.results[0].score)
