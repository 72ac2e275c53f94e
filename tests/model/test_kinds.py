"""Laws of every kind of encoder-decoder, and of each setting that only some have.

``test_transformer.py`` tries every setting of a Transformer, and these too.
"""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model import EncoderOnly, TransformerConfig
from headwise.model.config import ModelKind
from headwise.model.config_checks import CONVOLUTIONAL, RECURRENT
from headwise.model.kinds import ENCODER_DECODERS, new_encoder_decoder
from headwise.model.source_attention import SOURCE_ATTENTIONS
from headwise.training.optimizer import Optimizer
from headwise.training.settings import TrainingSettings

CHOICES = {kind: {"kind": kind} for kind in ENCODER_DECODERS}
CHOICES |= {
    f"{kind}, {attention}, one direction": {
        "kind": kind,
        "recurrent_attention": attention,
        "bidirectional": False,
    }
    for kind in RECURRENT
    for attention in SOURCE_ATTENTIONS
}
CHOICES |= {
    f"{kind}, {size} wide, {positions}": {
        "kind": kind,
        "kernel_size": size,
        "positions": positions,
        "encoder_layers": 3,
        "decoder_layers": 3,
    }
    for kind in CONVOLUTIONAL
    for size, positions in ((1, "sinusoidal_halves"), (5, "learned"), (7, "none"))
}
EACH = pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)


def test_every_kind_that_can_be_chosen_can_be_made():
    assert set(ENCODER_DECODERS) == {*get_args(ModelKind)}
    for kind, made in ENCODER_DECODERS.items():
        assert made.kind == kind


@EACH
def test_a_sentence_does_not_depend_on_the_batch_it_is_in(small, batch, choice):
    """Alone and unpadded, or beside longer ones; and whatever padding holds."""
    source, target, is_real = batch
    model = small(dtype=torch.float64, **choice)
    other = torch.where(is_real, source, (source + 3) % 11)
    together = model(source, target, is_real)

    assert not torch.equal(other, source)
    assert torch.equal(model(other, target, is_real), together)
    for row, length in enumerate([7, 5, 2]):
        mine = slice(row, row + 1)
        alone = model(source[mine, :length], target[mine, :4], is_real[mine, :length])
        torch.testing.assert_close(together[mine, :4], alone, rtol=0, atol=1e-12)
        wider = F.pad(source[mine, :length], (0, 9), value=5)
        real = torch.arange(length + 9)[None] < length
        apart = model(wider, target[mine], real)
        torch.testing.assert_close(together[mine], apart, rtol=0, atol=1e-12)


@EACH
def test_no_position_depends_on_a_later_target(small, batch, choice):
    source, target, is_real = batch
    model = small(dtype=torch.float64, **choice)
    for place in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, place:] = (changed[:, place:] + 3) % 11

        before, after = (model(source, each, is_real) for each in (target, changed))

        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.equal(before[:, place], after[:, place])


@EACH
def test_every_token_of_the_source_counts_at_every_position(small, batch, choice):
    source, target, is_real = batch
    model = small(dtype=torch.float64, **choice)
    before = model(source, target, is_real)
    for place in range(2):
        changed = source.clone()
        changed[:, place] = (changed[:, place] + 3) % 11

        after = model(changed, target, is_real)

        assert ((before - after).abs().amax(-1) > 0).all()


@EACH
def test_rows_of_a_state_are_selected_together(small, batch, choice):
    """As a beam search does after each step, and then goes on."""
    source, target, is_real = batch
    model = small(dtype=torch.float64, **choice)
    expected = model(source, target, is_real)
    index = torch.tensor([2, 0, 0, 1])
    state, read = model.start(source, is_real), target[:, :0]
    for place in range(3):
        _, state = model.step(target[:, place], state)
    state, read = state.index_select(index), target[index]

    for place in range(3, 6):
        picked, state = model.step(read[:, place], state)

        torch.testing.assert_close(picked, expected[index, place], rtol=0, atol=1e-12)


@EACH
def test_the_seed_decides_the_weights(choice):
    config = replace(TransformerConfig(d_model=16, num_heads=4), **choice)
    first, again, other = (new_encoder_decoder(config, 11, seed=n) for n in (1, 1, 2))
    for one, two in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(first.output_vectors, other.output_vectors)


@EACH
def test_it_learns_in_bfloat16_too(small, batch, choice):
    model = small(**choice).train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*batch).float().logsumexp(-1).sum()
    loss.backward()

    assert all(each.grad.isfinite().all() for each in model.parameters())


@EACH
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_every_weight_is_updated_once(small, batch, choice, optimizer):
    model = small(**choice).train()
    updated = Optimizer(model, TrainingSettings(optimizer=optimizer))
    names = {id(each): name for name, each in model.named_parameters()}

    groups = updated.param_groups
    found = [names[id(each)] for group in groups for each in group["params"]]

    assert sorted(found) == sorted(names.values())
    if optimizer == "muon":
        assert [each for each in groups if each not in updated.adam.param_groups]


@EACH
def test_its_dropout_is_drawn_while_it_trains_only(small, batch, choice):
    model = small(**{**choice, "dropout": 0.5})
    assert torch.equal(model(*batch), model(*batch))
    model.train()
    assert not torch.equal(model(*batch), model(*batch))


def test_an_unknown_kind_is_refused():
    with pytest.raises(SettingsError, match="kind must be one of transformer, elman"):
        TransformerConfig(kind="bytenet")


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_a_model_of_another_kind_is_not_made_from_its_settings(kind):
    config = TransformerConfig(kind=kind, decoder_layers=0)
    if kind != "transformer":
        with pytest.raises(SettingsError, match="kind must be 'transformer' here"):
            EncoderOnly(config, 11)
    for other, make in ENCODER_DECODERS.items():
        if other != kind:
            with pytest.raises(SettingsError, match=f"kind must be '{other}' here"):
                make(replace(config, decoder_layers=6), 11)


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_config_of_one_stack_is_refused(kind, stack):
    config = TransformerConfig(kind=kind, **{f"{stack}_layers": 0})
    with pytest.raises(SettingsError, match=f"{stack}_layers must be 1 or more, not 0"):
        new_encoder_decoder(config, 11)
