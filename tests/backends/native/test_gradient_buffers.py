"""Gradients of one batch after another, in the memory and the structs of the earlier.

Each must be those of a model that has seen no batch before.
"""

import copy
import gc
from weakref import ref

import pytest
import torch
from tests.backends.native.test_training import batch_of, native_loss, natively, trained

from headwise.backends.native import gradients

pytestmark = pytest.mark.usefixtures("uses_native_backend")

CHANGES = [
    {},
    {"positions": "learned"},
    {"positions": "rotary", "norm": "pre"},
    {"norm": "deep", "encoder_layers": 3},
]


@pytest.fixture
def model(request):
    return trained(**getattr(request, "param", {}))


def fresh(model, batch, **options):
    """Return loss and gradients of a copy, which has no buffers yet."""
    return natively(copy.deepcopy(model), batch, **options)


def assert_same_bits(found, expected):
    assert found[0] == expected[0]
    assert all(map(torch.equal, found[1], expected[1]))


def kept(model):
    return gradients._kept_buffers[model]


@pytest.mark.parametrize("model", CHANGES, indirect=True, ids=str)
def test_every_batch_has_the_gradients_of_a_fresh_model(model):
    lengths = [[9, 2], [3, 8]], [[2, 5], [1, 4]], [[30, 1], [33, 12]], [[9, 2], [3, 8]]
    for seed, each in enumerate(lengths):
        batch = batch_of(101, each, seed=seed)
        assert_same_bits(natively(model, batch), fresh(model, batch))
        with torch.no_grad():  # as an optimizer changes them
            for weight in model.parameters():
                weight -= 0.1 * weight.grad


def test_memory_is_reused_once_nobody_has_a_gradient():
    model, batch = trained(), batch_of(101)
    addresses = []
    for _ in range(4):
        natively(model, batch)
        addresses.append([each.grad.data_ptr() for each in model.parameters()])
    assert all(each == addresses[0] for each in addresses)
    assert len(kept(model)) == 1


def test_gradients_that_somebody_has_stay_as_they_are(model):
    first, second = batch_of(101, seed=1), batch_of(101, seed=2)
    expected = natively(model, first)
    mine = [each.grad for each in model.parameters()]
    natively(model, second)  # sets .grad to None, but mine remain
    assert all(map(torch.equal, mine, expected[1]))
    view, before = mine[0].view(-1)[:2], mine[0].view(-1)[:2].clone()
    del mine
    natively(model, second)
    assert torch.equal(view, before)


def test_accumulated_gradients_take_two_buffers(model):
    batches = [batch_of(101, seed=seed) for seed in range(4)]
    sums = [torch.zeros_like(each) for each in model.parameters()]
    for batch in batches:
        for total, each in zip(sums, fresh(model, batch)[1], strict=True):
            total += each
    for _ in range(2):
        model.zero_grad()
        for batch in batches:
            native_loss(model, batch, 0.1).backward()
        for weight, total in zip(model.parameters(), sums, strict=True):
            torch.testing.assert_close(weight.grad, total)
    assert len(kept(model)) == 2


def test_what_a_struct_depends_on_makes_a_new_one(model):
    batch = batch_of(101)
    natively(model, batch)
    assert_same_bits(natively(model, batch, half=True), fresh(model, batch, half=True))
    with torch.no_grad():
        weight = model.decoder.blocks[0].feed_forward.widen.weight
        weight.data = 2 * weight.data  # in other memory
    assert_same_bits(natively(model, batch), fresh(model, batch))
    model.eval()
    assert_same_bits(natively(model, batch), fresh(model, batch))
    assert len(kept(model)) == 1


def test_buffers_go_with_their_model():
    model = trained()
    natively(model, batch_of(101))
    buffers = ref(kept(model)[0])
    del model
    gc.collect()
    assert buffers() is None
