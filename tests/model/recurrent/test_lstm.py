"""The recurrent encoder-decoder; ``test_transformer.py`` tries it by every setting too.

There, decoding step by step equals the forward pass, and all weights are trained.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model import EncoderOnly, TransformerConfig
from headwise.model.recurrent.lstm import LstmModel
from headwise.model.transformer import Transformer

LSTM = {"kind": "lstm", "output_bias": True}
CONFIG = TransformerConfig(
    kind="lstm", encoder_layers=2, decoder_layers=3, d_model=16, dropout=0.0
)


@pytest.mark.parametrize("layers", [(1, 1), (2, 3)])
def test_the_encoder_is_torchs_lstm_on_a_sentence_without_padding(small, batch, layers):
    names = dict(zip(("encoder_layers", "decoder_layers"), layers, strict=True))
    model = small(dtype=torch.float64, **LSTM, **names)
    source, _, is_real = batch
    theirs = nn.LSTM(16, 8, layers[0], batch_first=True, bidirectional=True).double()
    theirs.load_state_dict(model.encoder.layers.state_dict())

    encoded = model.encode_source(source, is_real)

    for row, length in enumerate([7, 5, 2]):
        sentence = source[row : row + 1, :length]
        expected, _ = theirs(model.source_embedding(sentence))
        found = encoded[row : row + 1, :length]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert (encoded[row, length:] == 0).all()


def test_the_decoder_starts_from_the_last_states_of_both_directions(small, batch):
    model = small(dtype=torch.float64, **LSTM)
    source, _, is_real = batch

    state = model.start(source, is_real)

    encoded = model.encode_source(source, is_real)
    for row, length in enumerate([7, 5, 2]):
        last = torch.cat([encoded[row, length - 1, :8], encoded[row, 0, 8:]])
        hidden = model.decoder.to_first_hidden(last).tanh().view(2, 16)
        torch.testing.assert_close(state.hidden[:, row], hidden, rtol=0, atol=1e-12)


def test_a_sentence_does_not_depend_on_the_batch_it_is_in(small, batch):
    """Alone and unpadded, or beside longer ones; and whatever padding holds."""
    source, target, is_real = batch
    model = small(dtype=torch.float64, **LSTM)
    other = torch.where(is_real, source, (source + 3) % 11)
    together = model(source, target, is_real)

    assert torch.equal(model(other, target, is_real), together)
    for row, length in enumerate([7, 5, 2]):
        mine = slice(row, row + 1)
        alone = model(source[mine, :length], target[mine, :4], is_real[mine, :length])
        torch.testing.assert_close(together[mine, :4], alone, rtol=0, atol=1e-12)


def test_the_past_cannot_see_the_future(small, batch):
    source, target, is_real = batch
    model = small(dtype=torch.float64, **LSTM)
    changed = target.clone()
    changed[:, 3:] = 1

    before, after = (model(source, each, is_real) for each in (target, changed))

    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])


def test_rows_of_a_state_are_selected_together(small, batch):
    source, target, is_real = batch
    model = small(dtype=torch.float64, **LSTM)
    index = torch.tensor([2, 0, 0])
    _, state = model.step(target[:, 0], model.start(source, is_real))

    picked, _ = model.step(target[index, 1], state.index_select(index))

    expected = model(source, target, is_real)[index, 1]
    torch.testing.assert_close(picked, expected, rtol=0, atol=1e-12)


def test_forget_gates_are_open_at_first_and_all_other_biases_are_0():
    model = LstmModel(CONFIG, 11, seed=1)
    layers = [model.encoder.layers, model.decoder.layers]
    for name, bias in (each for one in layers for each in one.named_parameters()):
        if "bias" in name:
            _, forget, *_ = gates = bias.detach().chunk(4)
            assert (forget == (1 if "bias_ih" in name else 0)).all(), name
            assert sum(gate.abs().sum() for gate in gates) == forget.sum(), name


def test_the_seed_decides_the_weights():
    first, again, other = (LstmModel(CONFIG, 11, seed=seed) for seed in (1, 1, 2))
    for one, two in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(first.output_vectors, other.output_vectors)


def test_it_learns_in_bfloat16_too(batch):
    """Where autocast would change the format, the recurrence keeps its own."""
    model = LstmModel(CONFIG, 11, seed=1).train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*batch).float().logsumexp(-1).sum()
    loss.backward()

    assert all(each.grad.isfinite().all() for each in model.parameters())


def test_it_learns_to_reverse():
    """Which only attention can tell: targets are the sources, backwards."""
    model = LstmModel(CONFIG, 11, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(250):
        source = torch.randint(3, 11, (32, 5))
        target = source.flip(1)
        shifted = F.pad(target, (1, 0), value=1)[:, :-1]
        logits = model(source, shifted, source > 0)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    assert loss < 0.1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("d_k", 4), ("d_v", 4), ("d_position", 4)),
        *(("attention_dropout", 0.1), ("feed_forward_dropout", 0.1)),
        *(("norm", "pre"), ("activation", "gelu"), ("positions", "rotary")),
        *(("attention_bias", True), ("embedding_norm", True)),
        ("position_join", "concatenate"),
    ],
)
def test_what_only_a_transformer_has_is_refused(name, value):
    with pytest.raises(SettingsError, match=f"{name} = .* leave it out"):
        TransformerConfig(**{"kind": "lstm", "tie_embeddings": "none", name: value})


def test_an_odd_width_is_refused_as_each_direction_has_half():
    with pytest.raises(SettingsError, match="d_model must be even"):
        TransformerConfig(kind="lstm", d_model=15)


def test_heads_need_not_divide_a_width_that_has_none():
    assert TransformerConfig(kind="lstm", d_model=10).cross_attention_shape == (1, 1)


def test_an_unknown_kind_is_refused():
    with pytest.raises(SettingsError, match="kind must be one of transformer, lstm"):
        TransformerConfig(kind="gru")


@pytest.mark.parametrize("make", [Transformer, EncoderOnly])
def test_a_model_of_another_kind_is_not_made_from_its_settings(make):
    with pytest.raises(SettingsError, match="kind must be 'transformer' here"):
        make(CONFIG, 11)


def test_an_lstm_needs_settings_of_its_kind():
    with pytest.raises(SettingsError, match="kind must be 'lstm' here"):
        LstmModel(TransformerConfig(), 11)
