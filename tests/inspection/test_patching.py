"""Activation patching against an independent forward pass with the same patch."""

import numpy as np
import pytest
import torch
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.errors import UsageError
from headwise.inspection import patching as module
from headwise.inspection.patching import Patching, patch_activations

SOURCE, DONOR = [5, 7, 4, 9, 2], [5, 7, 10, 9, 2]
PREFIX = [6, 8, 11]
ANSWERS = (4, 12)


def difference(run):
    row = run["log_p"][-1]
    return row[ANSWERS[0]] - row[ANSWERS[1]]


@pytest.fixture
def runs(model):
    """Return a function that runs the source with an edit, and both plain runs."""
    reference = NumpyTransformer(model)

    def run(source, edit=lambda name, x: x):
        return reference.run(source, [1, *PREFIX], edit=edit)

    return run, run(SOURCE), run(DONOR)


def test_each_head_carries_what_its_patch_changes(model, runs):
    run, receiver, donor = runs
    whole = difference(donor) - difference(receiver)

    found = patch_activations(model, SOURCE, DONOR, PREFIX, ANSWERS)

    assert found[0] == pytest.approx(difference(receiver), abs=1e-9)
    assert found[1] == pytest.approx(difference(donor), abs=1e-9)
    assert len(found[2]) == 24
    for patch in found[2]:
        name = f"{patch.head}.head"
        assert len(patch.carried) == (5 if patch.head.kind == "encoder" else 4)
        for position, share in enumerate(patch.carried.tolist()):

            def edit(found, x, name=name, position=position):
                if found == name:
                    x[position] = donor[name][position]
                return x

            changed = difference(run(SOURCE, edit)) - difference(receiver)
            assert share == pytest.approx(changed / whole, abs=1e-7)


def test_each_layer_carries_what_its_patch_changes(model, runs):
    run, receiver, donor = runs
    whole = difference(donor) - difference(receiver)

    *_, layers = patch_activations(model, SOURCE, DONOR, PREFIX, ANSWERS)

    assert [(each.stack, each.layer) for each in layers] == [
        ("encoder", 0),
        ("encoder", 1),
        ("decoder", 0),
        ("decoder", 1),
    ]
    for patch in layers:
        name = f"{patch.stack}.{patch.layer}.out"
        for position, share in enumerate(patch.carried.tolist()):

            def edit(found, x, name=name, position=position):
                if found == name:
                    x[position] = donor[name][position]
                return x

            changed = difference(run(SOURCE, edit)) - difference(receiver)
            assert share == pytest.approx(changed / whole, abs=1e-7)


def test_the_last_vector_of_the_decoder_carries_all(model):
    """What the answer is computed from is the donor's then, whatever stood before."""
    *_, layers = patch_activations(model, SOURCE, DONOR, PREFIX, ANSWERS)

    assert layers[-1].carried[-1].item() == pytest.approx(1)
    assert layers[-1].carried[:-1].abs().max() < 1e-9


def test_the_same_start_of_a_causal_stack_carries_nothing(model):
    """The start token attends to itself alone, so its head's output is the same."""
    *_, heads, _ = patch_activations(model, SOURCE, DONOR, PREFIX, ANSWERS)

    first = [x for x in heads if x.head.kind == "decoder" and x.head.layer == 0]
    assert len(first) == 4
    assert all(abs(x.carried).max() < 1e-9 for x in first)


def test_small_batches_change_nothing(model, monkeypatch):
    whole = patch_activations(model, SOURCE, DONOR, PREFIX, ANSWERS)
    monkeypatch.setattr(module, "BATCH_TOKENS", 10)

    found = patch_activations(model, SOURCE, DONOR, PREFIX, ANSWERS)

    for ours, theirs in zip(found[2], whole[2], strict=True):
        torch.testing.assert_close(ours.carried, theirs.carried)


def test_sentences_of_other_lengths_are_refused(model):
    with pytest.raises(UsageError, match="same number of tokens; they have 5 and 4"):
        patch_activations(model, SOURCE, DONOR[1:], PREFIX, ANSWERS)


def test_the_same_sentence_twice_is_refused(model):
    with pytest.raises(UsageError, match="both sentences are the same"):
        patch_activations(model, SOURCE, SOURCE, PREFIX, ANSWERS)


def test_the_best_places_come_first(model):
    receiver, giver, heads, layers = patch_activations(
        model, SOURCE, DONOR, PREFIX, ANSWERS
    )
    patching = Patching((), (), (), ("a", "b"), receiver, giver, heads, layers)

    best = patching.best(3)

    everything = np.concatenate([each.carried.numpy() for each in heads])
    shares = [share for _, _, share in best]
    np.testing.assert_allclose(shares, np.sort(everything)[::-1][:3])
