"""A decoder alone (GPT): the boxes of Figure 1 without encoder and cross-attention."""

import pytest
import torch
from tests.model.conftest import VOCABULARY
from tests.model.one_stack_choices import EACH, NORMS

from headwise.backends.pytorch.install_fused import install
from headwise.errors import ModelError, SettingsError
from headwise.model import DecoderOnly, TransformerConfig
from headwise.model.decoder_only import make_window_mask
from headwise.model.masks import make_causal_mask

WINDOWS = pytest.mark.parametrize("window", [None, 1, 2, 5])
START = 1
PROMPT = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 0, 0, 0], [0, 0, 0, 0, 0]])
PROMPT_IS_REAL = PROMPT != 0
"""Prompts of 5, 2 and no tokens."""


def begun(length):
    """Return three texts, each of which begins with the start token."""
    tokens = torch.randint(2, VOCABULARY, (3, length))
    tokens[:, 0] = START
    return tokens


def step_by_step(model, tokens):
    """Return the logits of every step, without prompts, and the last state."""
    none = torch.zeros(len(tokens), 0)
    state, steps = model.start(none.long(), none.bool()), []
    for column in tokens.unbind(1):
        logits, state = model.step(column, state)
        steps.append(logits)
    return torch.stack(steps, dim=1), state


@NORMS
def test_a_block_is_two_sublayers_with_residual_connections(decoder_only, norm):
    model = decoder_only(norm=norm, decoder_layers=1)
    block = model.decoder.blocks[0]
    first, second = block.around_self.norm, block.around_feed_forward.norm
    x, past = torch.randn(2, 4, 16), make_causal_mask(4, torch.device("cpu"))

    if norm != "pre":
        scale = 2**0.25 if norm == "deep" else 1  # (2 M)^(1/4) with M = 1
        y = first(scale * x + block.self_attention(x, x, past))
        expected = second(scale * y + block.feed_forward(y))
    else:
        y = x + block.self_attention(first(x), first(x), past)
        expected = model.decoder.last_norm(y + block.feed_forward(second(y)))

    torch.testing.assert_close(model.decoder(x, past), expected)


@EACH
def test_later_tokens_change_no_earlier_logits(decoder_only, choice):
    model, tokens = decoder_only(**choice), begun(6)
    other = tokens.clone()
    other[:, 4:] = (other[:, 4:] + 5) % VOCABULARY

    before, after = model(tokens), model(other)

    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4], after[:, 4])


@NORMS
@WINDOWS
def test_a_position_depends_on_the_window_before_it_alone(decoder_only, norm, window):
    """The derivative by an embedding outside the window of one block is exactly 0."""
    model = decoder_only(
        norm=norm, window=window, decoder_layers=1, dtype=torch.float64
    )
    positions = torch.arange(7)[None]
    mask = make_window_mask(positions, positions, window)

    def output(embedded):
        return model.decoder(model.enter_decoder(embedded, 0), mask)

    embedded = torch.randn(1, 7, 16, dtype=torch.float64)
    depends = torch.autograd.functional.jacobian(output, embedded)
    depends = depends[0, :, :, 0].abs().amax(dim=(1, 3))  # 1 L D 1 L D -> L L

    band = torch.ones(7, 7, dtype=torch.bool).tril()
    if window is not None:
        band &= ~band.tril(-window)
    assert (depends[~band] == 0).all()
    assert (depends[band] > 0).all()


def test_a_window_mask_by_hand():
    """Two keys of padding, then positions 0 to 2; each attends to two at most."""
    positions = torch.tensor([[-2, -1, 0, 1, 2]])

    mask = make_window_mask(positions[:, 2:], positions, 2)

    assert mask[0, 0].int().tolist() == [
        [0, 0, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1],
    ]


def test_without_a_window_the_mask_is_the_causal_mask():
    positions = torch.arange(5)[None]

    mask = make_window_mask(positions, positions, None)

    assert torch.equal(mask, make_causal_mask(5, torch.device("cpu")))


def test_a_window_as_long_as_the_text_changes_nothing(decoder_only):
    tokens = begun(6)
    unlimited, wide, narrow = (decoder_only(window=each) for each in (None, 6, 5))
    for model in (wide, narrow):
        model.load_state_dict(unlimited.state_dict())

    assert torch.equal(wide(tokens), unlimited(tokens))
    assert not torch.equal(narrow(tokens), unlimited(tokens))


@EACH
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (None, 1e-6)])
def test_incremental_decoding_equals_the_forward_pass(
    decoder_only, choice, dtype, within
):
    model, tokens = decoder_only(dtype=dtype or torch.float32, **choice), begun(6)

    at_once, (stepwise, _) = model(tokens), step_by_step(model, tokens)

    assert (stepwise - at_once).norm() <= within * at_once.norm()


@WINDOWS
def test_incremental_decoding_beyond_the_initial_capacity(decoder_only, window):
    model, tokens = decoder_only(window=window, dtype=torch.float64), begun(40)

    stepwise, state = step_by_step(model, tokens)

    torch.testing.assert_close(stepwise, model(tokens), rtol=0, atol=1e-12)
    assert state.position == 40
    if window is not None:
        assert all(cache.length <= 2 * window for cache in state.self_kv)


@NORMS
def test_a_text_does_not_depend_on_the_batch_it_is_in(decoder_only, norm):
    """Alone, or beside others and followed by padding."""
    tokens = begun(7)
    for dtype, within in [(torch.float64, 1e-12), (torch.float32, 1e-6)]:
        model = decoder_only(dtype=dtype, norm=norm)
        together = model(tokens)
        for row, length in enumerate([7, 5, 2]):
            alone = model(tokens[row : row + 1, :length])

            apart = (together[row, :length] - alone[0]).norm()
            assert apart <= within * alone.norm()


def after_prompt(model, row, *continued):
    """Return the logits after one prompt, by a forward pass without padding."""
    prompt = PROMPT[row][PROMPT_IS_REAL[row]].tolist()
    return model(torch.tensor([[START, *prompt, *continued]]))[0, -1]


@pytest.mark.parametrize(("window", "fused"), [(None, False), (2, True)])
@EACH
def test_prompts_of_different_lengths_are_continued(
    decoder_only, choice, window, fused
):
    model = decoder_only(window=window, dtype=torch.float64, **choice)
    state = model.start(PROMPT, PROMPT_IS_REAL)
    install(model, fused=fused)
    continued = [[2, 3, 4], [5, 6, 7], [8, 9, 10], [2, 4, 6], [3, 5, 7]]

    logits, state = model.step(torch.tensor([START] * 3), state)
    for count in range(len(continued) + 1):
        if count:
            logits, state = model.step(torch.tensor(continued[count - 1]), state)
        for row in range(3):
            mine = [column[row] for column in continued[:count]]
            expected = after_prompt(model, row, *mine)
            torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-11)


def test_padding_of_a_prompt_may_be_on_either_side_and_hold_anything(decoder_only):
    model, tokens = decoder_only(), torch.tensor([START] * 3)
    after = torch.where(PROMPT_IS_REAL, PROMPT, 10)
    before = torch.tensor([[4, 5, 6, 7, 8], [10, 10, 10, 9, 4], [10] * 5])

    expected, _ = model.step(tokens, model.start(PROMPT, PROMPT_IS_REAL))
    for prompt, is_real in [
        (after, PROMPT_IS_REAL),
        (before, PROMPT_IS_REAL.flip(1)),
    ]:
        logits, _ = model.step(tokens, model.start(prompt, is_real))
        assert torch.equal(logits, expected)


@WINDOWS
@pytest.mark.parametrize("before", [True, False], ids=["first", "later"])
def test_rows_may_be_selected_before_and_after_the_first_step(
    decoder_only, window, before
):
    model = decoder_only(window=window, dtype=torch.float64)
    state = model.start(PROMPT, PROMPT_IS_REAL)
    rows = torch.tensor([2, 0, 0, 1])

    if before:
        _, state = model.step(torch.tensor([START] * 4), state.index_select(rows))
    else:
        _, state = model.step(torch.tensor([START] * 3), state)
        state = state.index_select(rows)
    logits, _ = model.step(torch.tensor([3, 4, 5, 6]), state)

    for each, row, token in zip(logits, rows.tolist(), [3, 4, 5, 6], strict=True):
        expected = after_prompt(model, row, token)
        torch.testing.assert_close(each, expected, rtol=0, atol=1e-12)


def test_selected_rows_are_copies(decoder_only):
    """What is appended to one state, the other must not have."""
    model, tokens = decoder_only(), torch.tensor([START] * 3)
    _, state = model.step(tokens, model.start(PROMPT, PROMPT_IS_REAL))
    copied = state.index_select(torch.arange(3))

    model.step(torch.tensor([2, 3, 4]), state)
    logits, _ = model.step(torch.tensor([5, 6, 7]), copied)

    for row, token in enumerate([5, 6, 7]):
        torch.testing.assert_close(logits[row], after_prompt(model, row, token))


@EACH
def test_every_setting_trains_all_its_weights(decoder_only, choice):
    model = decoder_only(**choice).train()

    logits = model(begun(6))
    logits.logsumexp(-1).sum().backward()

    assert logits.shape == (3, 6, VOCABULARY)
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        flat_by_nature = name.endswith("to_keys.bias")  # shifts all scores alike
        assert flat_by_nature or weight.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("tying", "is_tied"), [("none", False), ("output", True), ("all", True)]
)
def test_the_output_matrix_is_the_embedding_unless_untied(decoder_only, tying, is_tied):
    model, tokens = decoder_only(tie_embeddings=tying, output_bias=True), begun(5)

    assert (model.output_vectors is model.embedding.vectors) == is_tied
    large = [each for each in model.state_dict().values() if each.shape == (11, 16)]
    assert len(large) == (1 if is_tied else 2)
    expected = model.decode(tokens) @ model.output_vectors.T + model.output.bias
    torch.testing.assert_close(model(tokens), expected)


def test_learned_positions_are_counted_for_each_row(decoder_only):
    """The row of START and 5 tokens has no 7th position; a shorter one goes on."""
    model = decoder_only(positions="learned", max_positions=6)
    state = model.start(PROMPT, PROMPT_IS_REAL)
    _, state = model.step(torch.tensor([START] * 3), state)
    shorter = state.index_select(torch.tensor([1]))

    with pytest.raises(ModelError, match=r"position 7: this model has only 6"):
        model.step(torch.tensor([2, 3, 4]), state)
    logits, _ = model.step(torch.tensor([3]), shorter)

    torch.testing.assert_close(logits[0], after_prompt(model, 1, 3))


def test_a_model_of_another_shape_is_refused():
    both = TransformerConfig()
    encoder = TransformerConfig(decoder_layers=0)

    with pytest.raises(SettingsError) as error:
        DecoderOnly(both, 11)
    assert error.value.problems == [
        "encoder_layers must be 0, not 6: this model has no encoder"
    ]
    with pytest.raises(SettingsError) as error:
        DecoderOnly(encoder, 11)
    assert error.value.problems == [
        "encoder_layers must be 0, not 6: this model has no encoder",
        "decoder_layers must be 1 or more, not 0",
    ]


def test_a_window_has_at_least_the_position_itself(decoder_only):
    with pytest.raises(SettingsError, match="window must be 1 or more, not 0"):
        decoder_only(window=0)


def test_the_same_seed_gives_the_same_weights():
    config = TransformerConfig(
        encoder_layers=0, decoder_layers=1, d_model=8, d_ff=8, num_heads=2
    )

    first, second, other = (DecoderOnly(config, 11, seed=seed) for seed in (5, 5, 6))

    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert not torch.equal(first.output_vectors, other.output_vectors)
    assert first.device == torch.device("cpu")
