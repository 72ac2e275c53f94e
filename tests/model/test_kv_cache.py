"""Memory: writing token by token gives what writing at once gives."""

import pytest
import torch

from headwise.model.attention import KeyValues
from headwise.model.kv_cache import KVCache
from headwise.model.transformer import FIRST_POSITIONS


def pieces(length):
    return [
        KeyValues(torch.randn(2, 3, 1, 4), torch.randn(2, 3, 1, 5))
        for _ in range(length)
    ]


def joined(written, name):
    return torch.cat([getattr(piece, name) for piece in written], dim=2)


def test_what_was_written_comes_back_in_order_also_past_the_first_room():
    written = pieces(7)
    memory = KVCache(written[0], room=2)

    for end, piece in enumerate(written, start=1):
        whole = memory.extended(piece)

        assert torch.equal(whole.keys, joined(written[:end], "keys"))
        assert torch.equal(whole.values, joined(written[:end], "values"))


def test_several_positions_can_be_written_at_once():
    written = pieces(5)
    three = KeyValues(joined(written[1:4], "keys"), joined(written[1:4], "values"))
    memory = KVCache(written[0], room=1)

    memory.extended(written[0])
    memory.extended(three)
    whole = memory.extended(written[4])

    assert torch.equal(whole.keys, joined(written, "keys"))


@pytest.mark.parametrize("chosen", [[1, 1, 0], [1, 0], [0]])
def test_picked_rows_live_on_their_own(chosen):
    """What one copy writes, the other must not see, however many rows were kept."""
    written, index = pieces(3), torch.tensor(chosen)
    memory = KVCache(written[0], room=8)
    memory.extended(written[0])

    kept = memory.rows(index)
    original = memory.extended(written[1])
    whole = kept.extended(written[2].rows(index))

    for name in ("keys", "values"):
        assert torch.equal(getattr(original, name), joined(written[:2], name))
        expected = joined([written[0], written[2]], name)[index]
        assert torch.equal(getattr(whole, name), expected)


def write(model, target, state):
    """Write ``target`` token by token; return all scores and the state."""
    steps = []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        steps.append(scores)
    return torch.stack(steps, dim=1), state


def test_a_state_knows_how_much_is_written(small, batch):
    model = small()
    source, target, is_real = batch

    _, state = write(model, target, model.start(source, is_real))

    assert state.position == 6
    assert [memory.length for memory in state.self_kv] == [6, 6]


def test_reordered_rows_equal_starting_again_from_these_rows(small, batch):
    """Three words written, rows picked, three more: as if it had always been so."""
    model = small(dtype=torch.float64)
    source, target, is_real = batch
    index = torch.tensor([2, 0, 0, 1])

    _, state = write(model, target[:, :3], model.start(source, is_real))
    later, _ = write(model, target[index, 3:], state.rows(index))

    whole = model(source[index], target[index], is_real[index])
    torch.testing.assert_close(later, whole[:, 3:], rtol=0, atol=1e-12)


def test_rows_may_be_reordered_after_every_word(small, batch):
    """As a beam does: each step every row follows one chosen among all."""
    model = small(dtype=torch.float64)
    source, target, is_real = (each[:1].expand(3, -1) for each in batch)
    state, history = model.start(source, is_real), torch.empty(3, 0, dtype=torch.long)

    for tokens in target.unbind(1):
        index = torch.randint(3, (3,))
        words = (tokens + torch.arange(3)) % model.target_vocab_size
        history = torch.cat([history[index], words[:, None]], dim=1)
        scores, state = model.step(words, state.rows(index))

    whole = model(source, history, is_real)[:, -1]
    torch.testing.assert_close(scores, whole, rtol=0, atol=1e-12)


def test_a_long_text_outgrows_the_first_room(small, batch):
    model = small(dtype=torch.float64)
    source, _, is_real = batch
    target = torch.randint(1, 11, (3, 2 * FIRST_POSITIONS + 3))

    stepwise, _ = write(model, target, model.start(source, is_real))

    whole = model(source, target, is_real)
    torch.testing.assert_close(stepwise, whole, rtol=0, atol=1e-12)
