"""The KV cache: incremental decoding gives what a whole forward pass gives."""

import pytest
import torch

from headwise.model.attention import KeyValues
from headwise.model.kv_cache import KVCache
from headwise.model.transformer import INITIAL_CAPACITY


def random_kv(length):
    return [
        KeyValues(torch.randn(2, 3, 1, 4), torch.randn(2, 3, 1, 5))
        for _ in range(length)
    ]


def joined(pairs, name):
    return torch.cat([getattr(piece, name) for piece in pairs], dim=2)


def test_the_kv_cache_returns_all_positions_in_order_also_past_its_capacity():
    pairs = random_kv(7)
    cache = KVCache.allocate(pairs[0], capacity=2)

    for end, piece in enumerate(pairs, start=1):
        whole = cache.append(piece)

        assert torch.equal(whole.keys, joined(pairs[:end], "keys"))
        assert torch.equal(whole.values, joined(pairs[:end], "values"))


def test_several_positions_can_be_appended_at_once():
    pairs = random_kv(5)
    three = KeyValues(joined(pairs[1:4], "keys"), joined(pairs[1:4], "values"))
    cache = KVCache.allocate(pairs[0], capacity=1)

    cache.append(pairs[0])
    cache.append(three)
    whole = cache.append(pairs[4])

    assert torch.equal(whole.keys, joined(pairs, "keys"))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_kv_cache_can_keep_the_last_positions_only(count):
    pairs = random_kv(6)
    cache = KVCache.allocate(pairs[0], capacity=8)
    for piece in pairs[:4]:
        before = cache.append(piece)

    cache.keep_last(count)
    assert cache.length == count
    for end, piece in enumerate(pairs[4:], start=5):
        whole = cache.append(piece)

        assert torch.equal(whole.keys, joined(pairs[4 - count : end], "keys"))
        assert torch.equal(whole.values, joined(pairs[4 - count : end], "values"))
    assert torch.equal(before.keys, joined(pairs[:4], "keys"))


@pytest.mark.parametrize("chosen", [[1, 1, 0], [1, 0], [0]])
def test_selected_rows_of_the_kv_cache_are_copies(chosen):
    """What is appended to one copy, the other must not have, however many rows."""
    pairs, index = random_kv(3), torch.tensor(chosen)
    cache = KVCache.allocate(pairs[0], capacity=8)
    cache.append(pairs[0])

    selected = cache.index_select(index)
    original = cache.append(pairs[1])
    whole = selected.append(pairs[2].index_select(index))

    for name in ("keys", "values"):
        assert torch.equal(getattr(original, name), joined(pairs[:2], name))
        expected = joined([pairs[0], pairs[2]], name)[index]
        assert torch.equal(getattr(whole, name), expected)


def decode_stepwise(model, target, state):
    """Decode ``target`` token by token; return all logits and the state."""
    steps = []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        steps.append(scores)
    return torch.stack(steps, dim=1), state


def test_a_decoder_state_knows_its_position(small, batch):
    model = small()
    source, target, is_real = batch

    _, state = decode_stepwise(model, target, model.start(source, is_real))

    assert state.position == 6
    assert [cache.length for cache in state.self_kv] == [6, 6]


def test_a_reordered_kv_cache_equals_decoding_again_from_these_rows(small, batch):
    """Three steps, a reordered cache, three more: as if it had always been so."""
    model = small(dtype=torch.float64)
    source, target, is_real = batch
    index = torch.tensor([2, 0, 0, 1])

    _, state = decode_stepwise(model, target[:, :3], model.start(source, is_real))
    later, _ = decode_stepwise(model, target[index, 3:], state.index_select(index))

    whole = model(source[index], target[index], is_real[index])
    torch.testing.assert_close(later, whole[:, 3:], rtol=0, atol=1e-12)


def test_the_kv_cache_may_be_reordered_after_every_step(small, batch):
    """As a beam does: each step every row follows one chosen among all."""
    model = small(dtype=torch.float64)
    source, target, is_real = (each[:1].expand(3, -1) for each in batch)
    state, history = model.start(source, is_real), torch.empty(3, 0, dtype=torch.long)

    for tokens in target.unbind(1):
        index = torch.randint(3, (3,))
        words = (tokens + torch.arange(3)) % model.target_vocab_size
        history = torch.cat([history[index], words[:, None]], dim=1)
        scores, state = model.step(words, state.index_select(index))

    whole = model(source, history, is_real)[:, -1]
    torch.testing.assert_close(scores, whole, rtol=0, atol=1e-12)


def test_a_long_target_outgrows_the_initial_capacity(small, batch):
    model = small(dtype=torch.float64)
    source, _, is_real = batch
    target = torch.randint(1, 11, (3, 2 * INITIAL_CAPACITY + 3))

    stepwise, _ = decode_stepwise(model, target, model.start(source, is_real))

    whole = model(source, target, is_real)
    torch.testing.assert_close(stepwise, whole, rtol=0, atol=1e-12)
