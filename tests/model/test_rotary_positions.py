"""Rotary positions: by hand, equal to transformers, and laws of distances."""

from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL, VOCABULARY
from transformers import GPTJConfig, LlamaConfig
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

from headwise.errors import SettingsError
from headwise.model.boxes import make_cross_attention
from headwise.model.masks import make_causal_mask
from headwise.model.rotary_positions import RotaryPositions, with_positions

ROTARY = replace(SMALL, positions="rotary")


def attention(**changes):
    """Return self-attention with random weights."""
    config = replace(ROTARY, **changes)
    return with_positions(make_cross_attention(config), config).double()


def test_a_rotation_by_hand():
    """At position 1 a pair of the angle 0 is turned to the angle 1: (cos 1, sin 1)."""
    x = torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2)

    _, keys = RotaryPositions(2)(x, x)

    angles = torch.arange(3.0)
    wanted = torch.stack([angles.cos(), angles.sin()], dim=1)
    torch.testing.assert_close(keys[0, 0], wanted)


def test_the_second_pair_of_four_channels_turns_a_hundredth_as_fast():
    """10000^(-2/4) = 1/100."""
    x = torch.tensor([0.0, 0.0, 1.0, 0.0]).expand(1, 1, 101, 4)
    _, keys = RotaryPositions(4)(x, x)
    wanted = torch.tensor([0.0, 0.0, 1.0, 1.0]) * torch.tensor([1.0]).cos()
    wanted[3] = torch.tensor(1.0).sin()
    torch.testing.assert_close(keys[0, 0, 100], wanted)


def test_queries_are_at_the_last_positions_of_the_keys():
    keys = torch.randn(2, 3, 9, 8)
    rotate = RotaryPositions(8)
    some, _ = rotate(keys[:, :, -2:], keys)
    every, _ = rotate(keys, keys)
    assert torch.equal(some, every[:, :, -2:])


def test_a_table_of_a_validation_serves_training():
    """Tensors made in inference mode cannot be saved for a backward pass."""
    rotate = RotaryPositions(8)
    with torch.inference_mode():
        rotate(torch.randn(1, 1, 5, 8), torch.randn(1, 1, 5, 8))

    x = torch.randn(1, 1, 5, 8, requires_grad=True)
    queries, keys = rotate(x, x)
    (queries + keys).sum().backward()

    assert x.grad is not None


def test_scores_depend_on_the_distance_alone():
    """The same query and key at all pairs of positions: a Toeplitz matrix."""
    query, key = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64)
    rotate = RotaryPositions(16)
    queries, keys = rotate(query.expand(1, 1, 50, 16), key.expand(1, 1, 50, 16))
    scores = (queries @ keys.transpose(-2, -1))[0, 0]
    for distance in range(-49, 50):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores[0].std() > 0.1


def test_lengths_stay_as_they_are():
    x = torch.randn(2, 3, 300, 8, dtype=torch.float64)
    _, keys = RotaryPositions(8)(x, x)
    torch.testing.assert_close(keys.norm(dim=-1), x.norm(dim=-1))


def test_self_attention_equals_gpt_j():
    """Its rotation has interleaved pairs too; here all channels are rotated."""
    config = GPTJConfig(n_embd=16, n_head=4, rotary_dim=4, attn_pdrop=0.0, n_layer=1)
    theirs = modeling_gptj.GPTJAttention(config, layer_idx=0).double().eval()
    ours = attention()
    with torch.no_grad():
        pairs = zip("qkv", ("queries", "keys", "values"), strict=True)
        for short, name in pairs:
            weight = getattr(theirs, f"{short}_proj").weight
            getattr(ours, f"to_{name}").weight.copy_(weight)
        ours.to_output.weight.copy_(theirs.out_proj.weight)
    x = torch.randn(2, 11, 16, dtype=torch.float64)
    additive = torch.zeros(11, 11, dtype=torch.float64)
    additive.masked_fill_(~make_causal_mask(11, x.device)[0, 0], -torch.inf)

    wanted = theirs(
        x,
        attention_mask=additive[None, None],
        position_ids=torch.arange(11)[None].expand(2, -1),
    )[0]

    out = ours(x, x, make_causal_mask(11, x.device))
    torch.testing.assert_close(out, wanted, atol=1e-6, rtol=0)


def test_the_rotation_equals_that_of_llama_with_its_channels_reordered():
    """LLaMA pairs channel i with i + d_k / 2."""
    config = LlamaConfig(hidden_size=64, num_attention_heads=4)
    embedding = modeling_llama.LlamaRotaryEmbedding(config)
    queries, keys = torch.randn(2, 3, 4, 8, 16)
    cos, sin = embedding(queries, torch.arange(8)[None])
    halves = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])

    wanted = modeling_llama.apply_rotary_pos_emb(
        queries[..., halves], keys[..., halves], cos, sin
    )

    ours = RotaryPositions(16)(queries, keys)
    for mine, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine[..., halves], other, atol=1e-6, rtol=0)


def test_self_attention_rotates_and_cross_attention_does_not(small):
    rotating = {
        name
        for name, module in small(positions="rotary").named_modules()
        if isinstance(module, RotaryPositions)
    }
    assert rotating == {
        f"{stack}.blocks.{block}.self_attention.rotate"
        for stack in ("encoder", "decoder")
        for block in (0, 1)
    }


@pytest.mark.parametrize("chosen", ["sinusoidal", "learned", "none"])
def test_other_positions_rotate_nothing(small, chosen):
    modules = small(positions=chosen).modules()
    assert not any(isinstance(module, RotaryPositions) for module in modules)


def test_weights_have_the_names_of_a_model_without_positions(small):
    names = small(positions="rotary").state_dict().keys()
    assert names == small(positions="none").state_dict().keys()


def test_a_model_decodes_step_by_step_as_all_at_once(small, batch):
    source, target, is_real = batch
    model = small(positions="rotary", dtype=torch.float64)
    state, steps = model.start(source, is_real), []
    for position in range(target.shape[1]):
        logits, state = model.step(target[:, position], state)
        steps.append(logits)
    wanted = model(source, target, is_real)
    torch.testing.assert_close(torch.stack(steps, dim=1), wanted)


def test_the_order_of_words_matters(small, batch):
    source, target, is_real = batch
    model = small(positions="rotary")
    swapped = source.clone()
    swapped[:, [0, 1]] = source[:, [1, 0]]
    source[0, :2] = torch.tensor([3, 4])
    swapped[0, :2] = torch.tensor([4, 3])
    out, other = (model(each, target, is_real)[0] for each in (source, swapped))
    assert not torch.allclose(out, other)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("num_steps", [12, 300])
def test_prompts_of_any_length_continue_as_if_each_stood_alone(
    decoder_only, window, num_steps
):
    """Padding first, a window that drops keys, and tables that grow."""
    model = decoder_only(positions="rotary", window=window, dtype=torch.float64)
    prompt = torch.randint(1, VOCABULARY, (3, 5))
    is_real = torch.arange(5) < torch.tensor([[5], [2], [0]])
    generated = torch.randint(1, VOCABULARY, (3, num_steps))
    state, steps = model.start(prompt, is_real), []
    for position in range(num_steps):
        logits, state = model.step(generated[:, position], state)
        steps.append(logits)

    for row, length in enumerate((5, 2, 0)):
        one = generated[row]
        text = torch.cat([one[:1], prompt[row, :length], one[1:]])
        alone = model(text[None])[0, length:]
        torch.testing.assert_close(torch.stack(steps, dim=1)[row], alone)


def test_padding_changes_nothing_in_an_encoder(encoder_only):
    model = encoder_only(positions="rotary")
    tokens = torch.randint(1, VOCABULARY, (1, 6))
    is_real = torch.ones(1, 6, dtype=torch.bool)
    padded = torch.nn.functional.pad(tokens, (0, 3))
    padded_is_real = torch.nn.functional.pad(is_real, (0, 3))
    out = model(padded, padded_is_real)[:, :6]
    torch.testing.assert_close(out, model(tokens, is_real))


def test_a_shift_by_padding_changes_nothing_in_an_encoder(encoder_only):
    """So the positions are relative."""
    model = encoder_only(positions="rotary", dtype=torch.float64)
    tokens = torch.randint(1, VOCABULARY, (1, 6))
    is_real = torch.ones(1, 6, dtype=torch.bool)
    shifted = torch.nn.functional.pad(tokens, (300, 0))
    shifted_is_real = torch.nn.functional.pad(is_real, (300, 0))
    out = model(shifted, shifted_is_real)[:, 300:]
    torch.testing.assert_close(out, model(tokens, is_real))


def test_tables_follow_the_number_format(small, batch):
    source, target, is_real = batch
    model = small(positions="rotary")
    model(source, target, is_real)
    model = model.to(torch.bfloat16)
    assert model(source, target, is_real).dtype == torch.bfloat16


def test_an_odd_d_k_is_an_error():
    with pytest.raises(SettingsError, match="d_k must be even, not 5") as raised:
        replace(ROTARY, d_k=5)
    assert "set d_k, or another num_heads" in str(raised.value)
    with pytest.raises(SettingsError, match="d_k must be even, not 3"):
        replace(ROTARY, d_model=12)


def test_there_is_nothing_to_concatenate():
    with pytest.raises(SettingsError, match="positions = 'rotary' leaves nothing"):
        replace(ROTARY, position_join="concatenate", tie_embeddings="none")
