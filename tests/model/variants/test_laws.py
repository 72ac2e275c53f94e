"""What holds of every variant, whichever boxes it is made of."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL, VOCABULARY
from tests.model.variant_choices import CHOICES, EACH

from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_only import EncoderOnly
from headwise.model.presets import PRESETS
from headwise.model.transformer import Transformer
from headwise.model.variants.names import KNOWN_EVERYWHERE, variants_of
from headwise.model.variants.norms import BatchNorm

RELATIVE = ("rotary", "alibi", "shaw", "t5", "none")
WITHOUT_POSITIONS = {
    name: {**choice, "positions": "none"}
    for name, choice in CHOICES.items()
    if not {"positions", "position_join"} & choice.keys()
    and "attention_window" not in choice
}


@pytest.fixture(autouse=True)
def exact():
    """Compute in float64, so that what is equal by law is equal in most digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def trained(model):
    """Return ``model`` as after some training: no weight, no statistic as it began."""
    with torch.no_grad():
        for each in model.parameters():
            each += 0.2 * torch.randn_like(each)
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.running_mean += 0.3 * torch.randn_like(module.running_mean)
                module.running_var += torch.rand_like(module.running_var)
    return model.eval()


def translator(choice):
    return trained(Transformer(replace(SMALL, **choice), VOCABULARY, seed=1))


def encoder(choice):
    config = replace(SMALL, **{**choice, "decoder_layers": 0})
    return trained(EncoderOnly(config, VOCABULARY, seed=1))


def decoder(choice, **arguments):
    config = replace(SMALL, **{**choice, "encoder_layers": 0})
    return trained(DecoderOnly(config, VOCABULARY, seed=1, **arguments))


@EACH
def test_each_variant_is_named_by_its_settings(choice):
    known = KNOWN_EVERYWHERE
    assert set(variants_of(replace(SMALL, **choice))) == {
        f"model.{name} = {value!r}"
        for name, value in choice.items()
        if name in known and value not in known[name]
    }


def test_no_model_of_the_paper_is_a_variant():
    for preset in PRESETS.values():
        assert variants_of(preset.config) == []


@EACH
def test_no_position_depends_on_a_later_one(choice, batch):
    source, target, is_real = batch
    model = translator(choice)
    before = model(source, target, is_real)

    target[:, 4:] = target[:, 4:] % (VOCABULARY - 1) + 1
    after = model(source, target, is_real)

    assert torch.equal(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:])


@EACH
def test_the_next_token_depends_on_the_last_one(choice, batch):
    """So a window has its own position in it, and no mask is off by one."""
    source, target, is_real = batch
    model = translator(choice)
    before = model(source, target, is_real)

    target[:, 3] = target[:, 3] % (VOCABULARY - 1) + 1
    after = model(source, target, is_real)

    assert (after[:, 3] != before[:, 3]).any(dim=-1).all()


@EACH
def test_padding_and_other_rows_change_nothing(choice, batch):
    source, target, is_real = batch
    model = translator(choice)
    together = model(source, target, is_real)

    for row, length in enumerate(is_real.sum(dim=1).tolist()):
        alone = model(
            source[row : row + 1, :length],
            target[row : row + 1],
            is_real[row : row + 1, :length],
        )
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-10)


@EACH
def test_one_step_at_a_time_equals_all_at_once(choice, batch):
    source, _, is_real = batch
    target = torch.randint(1, VOCABULARY, (3, 40))  # more than a cache begins with
    model = translator(choice)
    state, steps = model.start(source, is_real), []
    for position in range(target.shape[1]):
        logits, state = model.step(target[:, position], state)
        steps.append(logits)

    wanted = model(source, target, is_real)
    torch.testing.assert_close(torch.stack(steps, dim=1), wanted, rtol=0, atol=1e-10)


@EACH
def test_rows_of_a_state_can_be_reordered(choice, batch):
    source, target, is_real = batch
    model = translator(choice)
    state = model.start(source, is_real)
    for position in range(3):
        _, state = model.step(target[:, position], state)
    index = torch.tensor([2, 0, 0])
    logits, _ = model.step(target[index, 3], state.index_select(index))

    wanted = model(source, target, is_real)[index, 3]
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-10)


@EACH
def test_prompts_of_any_length_continue_as_if_each_stood_alone(choice):
    model = decoder(choice)
    prompt = torch.randint(1, VOCABULARY, (3, 5))
    is_real = torch.arange(5) < torch.tensor([[5], [2], [0]])
    generated = torch.randint(1, VOCABULARY, (3, 36))
    state, steps = model.start(prompt, is_real), []
    for position in range(generated.shape[1]):
        logits, state = model.step(generated[:, position], state)
        steps.append(logits)

    for row, length in enumerate((5, 2, 0)):
        one = generated[row]
        text = torch.cat([one[:1], prompt[row, :length], one[1:]])
        alone = model(text[None])[0, length:]
        stepped = torch.stack(steps, dim=1)[row]
        torch.testing.assert_close(stepped, alone, rtol=0, atol=1e-10)


@EACH
def test_an_encoder_alone_ignores_padding(choice):
    model = encoder(choice)
    tokens = torch.randint(1, VOCABULARY, (1, 6))
    is_real = torch.ones(1, 6, dtype=torch.bool)
    padded = torch.nn.functional.pad(tokens, (0, 3))
    padded_is_real = torch.nn.functional.pad(is_real, (0, 3))

    out = model(padded, padded_is_real)[:, :6]

    torch.testing.assert_close(out, model(tokens, is_real), rtol=0, atol=1e-10)


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("positions", RELATIVE)
def test_relative_positions_do_not_change_with_a_shift(positions, window):
    model = encoder({"positions": positions, "attention_window": window})
    tokens = torch.randint(1, VOCABULARY, (1, 6))
    is_real = torch.ones(1, 6, dtype=torch.bool)
    shifted = torch.nn.functional.pad(tokens, (300, 0))
    shifted_is_real = torch.nn.functional.pad(is_real, (300, 0))

    out = model(shifted, shifted_is_real)[:, 300:]

    torch.testing.assert_close(out, model(tokens, is_real), rtol=0, atol=1e-9)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "number"])
def test_absolute_positions_change_with_a_shift(positions):
    """The law above can fail."""
    model = encoder({"positions": positions})
    tokens = torch.randint(1, VOCABULARY, (1, 6))
    is_real = torch.ones(1, 6, dtype=torch.bool)
    shifted = torch.nn.functional.pad(tokens, (300, 0))
    shifted_is_real = torch.nn.functional.pad(is_real, (300, 0))

    out = model(shifted, shifted_is_real)[:, 300:]

    assert not torch.allclose(out, model(tokens, is_real), atol=1e-3)


@pytest.mark.parametrize(
    "choice", WITHOUT_POSITIONS.values(), ids=WITHOUT_POSITIONS.keys()
)
def test_without_positions_a_permutation_of_words_permutes_their_vectors(choice):
    model = encoder(choice)
    tokens = torch.randint(1, VOCABULARY, (2, 7))
    is_real, order = torch.ones(2, 7, dtype=torch.bool), torch.randperm(7)

    out = model(tokens[:, order], is_real)

    wanted = model(tokens, is_real)[:, order]
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "positions", ["alibi", "shaw", "t5", "number", "fraction", "rotary"]
)
def test_with_positions_the_order_of_words_matters(positions):
    """ALiBi in an encoder is symmetric, but not in the distance to other words."""
    model = encoder({"positions": positions})
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    is_real, order = torch.ones(1, 5, dtype=torch.bool), torch.tensor([1, 0, 2, 4, 3])

    out = model(tokens[:, order], is_real)

    assert not torch.allclose(out, model(tokens, is_real)[:, order], atol=1e-3)


@EACH
def test_every_weight_has_a_gradient(choice, batch):
    source, target, is_real = batch
    model = translator(choice).train()

    model(source, target, is_real).log_softmax(-1)[..., 3].sum().backward()

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@EACH
def test_a_copy_and_a_reloaded_model_compute_the_same(choice, batch):
    model = translator(choice)
    copy = deepcopy(model)
    with torch.device("meta"):
        reloaded = Transformer(model.config, VOCABULARY, seed=0)
    weights = {name: each.clone() for name, each in model.state_dict().items()}
    reloaded.load_state_dict(weights, assign=True)
    wanted = model(*batch)
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()

    assert torch.equal(copy(*batch), wanted)
    assert torch.equal(reloaded.eval()(*batch), wanted)


@EACH
def test_the_seed_decides_the_weights(choice):
    first, again, other = (
        Transformer(replace(SMALL, **choice), VOCABULARY, seed=seed)
        for seed in (1, 1, 2)
    )
    pairs = zip(first.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    assert not torch.equal(first.output_vectors, other.output_vectors)


@EACH
@pytest.mark.parametrize("training", [True, False])
def test_it_runs_in_bfloat16(choice, training, batch):
    torch.set_default_dtype(torch.float32)
    model = translator(choice).train(training)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*batch).float().logsumexp(-1).sum()
    loss.backward()
    assert all(each.grad.isfinite().all() for each in model.parameters())

    out = model.eval().to(torch.bfloat16)(*batch)

    assert out.dtype == torch.bfloat16
    assert out.isfinite().all()


def test_the_default_model_has_the_weights_it_always_had():
    """And in the order in which they are drawn from the seed."""
    model = Transformer(replace(SMALL, encoder_layers=1, decoder_layers=1), 5, seed=1)
    projections = ("queries", "keys", "values", "output")
    attention = [f"to_{each}.weight" for each in projections]
    feed_forward = ["widen.weight", "widen.bias", "narrow.weight", "narrow.bias"]
    around = ["norm.weight", "norm.bias"]

    assert list(model.state_dict()) == [
        "embeddings.target.vectors",
        *(f"encoder.blocks.0.self_attention.{each}" for each in attention),
        *(f"encoder.blocks.0.feed_forward.{each}" for each in feed_forward),
        *(f"encoder.blocks.0.around_attention.{each}" for each in around),
        *(f"encoder.blocks.0.around_feed_forward.{each}" for each in around),
        *(f"decoder.blocks.0.self_attention.{each}" for each in attention),
        *(f"decoder.blocks.0.cross_attention.{each}" for each in attention),
        *(f"decoder.blocks.0.feed_forward.{each}" for each in feed_forward),
        *(f"decoder.blocks.0.around_self.{each}" for each in around),
        *(f"decoder.blocks.0.around_cross.{each}" for each in around),
        *(f"decoder.blocks.0.around_feed_forward.{each}" for each in around),
    ]
