"""Recurrent encoder-decoders of every cell; ``test_kinds.py`` has the laws of all."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model import TransformerConfig
from headwise.model.kinds import ENCODER_DECODERS, new_encoder_decoder
from headwise.model.recurrent.encoder_decoder import RECURRENCES, LstmModel
from headwise.model.source_attention import SOURCE_ATTENTIONS

CONFIG = TransformerConfig(
    kind="lstm", encoder_layers=2, decoder_layers=3, d_model=16, dropout=0.0
)
EACH = pytest.mark.parametrize("kind", RECURRENCES)


@EACH
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("layers", [(1, 1), (2, 3)])
def test_the_encoder_is_torchs_on_a_sentence_without_padding(
    small, batch, kind, bidirectional, layers
):
    names = dict(zip(("encoder_layers", "decoder_layers"), layers, strict=True))
    model = small(dtype=torch.float64, kind=kind, bidirectional=bidirectional, **names)
    source, _, is_real = batch
    theirs = RECURRENCES[kind](
        16,
        8 if bidirectional else 16,
        layers[0],
        batch_first=True,
        bidirectional=bidirectional,
    ).double()
    theirs.load_state_dict(model.encoder.layers.state_dict())

    encoded = model.encode_source(source, is_real)

    for row, length in enumerate([7, 5, 2]):
        sentence = source[row : row + 1, :length]
        expected, _ = theirs(model.source_embedding(sentence))
        found = encoded[row : row + 1, :length]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert (encoded[row, length:] == 0).all()


def elman_step(x, hidden, cell):
    return (x + hidden).tanh(), cell


def lstm_step(x, hidden, cell):
    """Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000)."""
    enter, forget, new, leave = (x + hidden).chunk(4, dim=-1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def unrolled(layers, kind, x, hidden, cell):
    """Return the outputs of the top layer, step by step as the papers write them."""
    outputs = []
    for position in range(x.shape[1]):
        below = x[:, position]
        for layer in range(layers.num_layers):
            weights = [
                getattr(layers, f"{name}_{side}_l{layer}")
                for side in ("ih", "hh")
                for name in ("weight", "bias")
            ]
            given = F.linear(below, *weights[:2])
            kept = F.linear(hidden[layer], *weights[2:])
            if kind == "gru":  # z keeps the old state, as in Cho et al. (2014)
                r, z, n = given.chunk(3, -1)
                of_r, of_z, of_n = kept.chunk(3, -1)
                keep = (z + of_z).sigmoid()
                new = (n + (r + of_r).sigmoid() * of_n).tanh()
                below = keep * hidden[layer] + (1 - keep) * new
            else:
                step = elman_step if kind == "elman" else lstm_step
                below, cell[layer] = step(given, kept, cell[layer])
            hidden[layer] = below
        outputs.append(below)
    return torch.stack(outputs, dim=1)


@EACH
def test_the_decoder_is_the_cell_unrolled_and_attention_written_out(small, batch, kind):
    """Everything from the encoder's output to the logits, with additive attention."""
    model = small(dtype=torch.float64, kind=kind)
    source, target, is_real = batch
    decoder, encoded = model.decoder, model.encode_source(source, is_real)
    last = torch.stack(
        [
            torch.cat([encoded[row, length - 1, :8], encoded[row, 0, 8:]])
            for row, length in enumerate([7, 5, 2])
        ]
    )
    first = F.linear(last, *decoder.to_first_hidden.parameters()).tanh()
    x = model.target_embedding(target)
    found = unrolled(
        decoder.layers,
        kind,
        x,
        [*first.view(3, 2, 16).unbind(1)],
        [x.new_zeros(3, 16), x.new_zeros(3, 16)],
    )
    attention = decoder.cross_attention
    queries = found @ attention.to_queries.weight.T + attention.to_queries.bias
    keys = encoded @ attention.to_keys.weight.T
    hidden = (queries[:, :, None] + keys[:, None]).tanh()
    scores = (hidden * attention.to_scores.weight).sum(-1)
    weights = scores.masked_fill(~is_real[:, None], -torch.inf).softmax(-1)
    joined = torch.cat([weights @ encoded, found], dim=-1)
    top = F.linear(joined, *decoder.combine.parameters()).tanh()

    logits = model(source, target, is_real)

    expected = top @ model.output_vectors.T
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)


@EACH
def test_without_attention_one_vector_is_all_that_the_decoder_has(small, batch, kind):
    """The last state of each direction: the rest of the encoder's output says nothing.

    With attention, each token of the source changes the output directly.
    """
    source, target, is_real = batch
    alone = small(dtype=torch.float64, kind=kind, recurrent_attention="none")
    attending = small(dtype=torch.float64, kind=kind)
    for model, sees_more in ((alone, False), (attending, True)):
        encoded, last = model.encoder(model.embed_source(source), is_real)
        encoded = encoded.detach().requires_grad_()
        last = last.detach().requires_grad_()
        state = model.decoder.initial_state(encoded, last, is_real)

        model.decoder(model.target_embedding(target), state)[0].sum().backward()

        assert last.grad.abs().min() > 0
        assert (encoded.grad is not None) == sees_more
        assert (state.memory is not None) == sees_more
    assert alone.config.cross_attention_shape == (0, 0)
    assert not [name for name, _ in alone.named_parameters() if "attention" in name]


@EACH
def test_one_direction_reads_from_the_first_token_on(small, batch, kind):
    source, _, is_real = batch
    changed = torch.where(torch.arange(7) == 3, (source + 4) % 11, source)
    for bidirectional in (True, False):
        model = small(dtype=torch.float64, kind=kind, bidirectional=bidirectional)
        before, after = (
            model.encode_source(each, is_real)[0] for each in (source, changed)
        )
        assert torch.equal(before[:3], after[:3]) == (not bidirectional)
        assert not torch.equal(before[3:], after[3:])


def test_forget_gates_are_open_at_first_and_all_other_biases_are_0():
    model = LstmModel(CONFIG, 11, seed=1)
    layers = [model.encoder.layers, model.decoder.layers]
    for name, bias in (each for one in layers for each in one.named_parameters()):
        if "bias" in name:
            _, forget, *_ = gates = bias.detach().chunk(4)
            assert (forget == (1 if "bias_ih" in name else 0)).all(), name
            assert sum(gate.abs().sum() for gate in gates) == forget.sum(), name


@pytest.mark.parametrize("kind", sorted({*RECURRENCES} - {"lstm"}))
def test_biases_of_other_cells_are_0_at_first(kind):
    model = new_encoder_decoder(replace(CONFIG, kind=kind), 11, seed=1)
    for name, bias in model.named_parameters():
        assert "bias" not in name or (bias == 0).all(), name


def test_names_and_weights_are_those_that_saved_models_have():
    """Folders of kind "lstm" that were written before other cells open as they did."""
    names = [name for name, _ in LstmModel(CONFIG, 11).named_parameters()]
    of_layers = [
        f"{name}_l{layer}{direction}"
        for layer in range(2)
        for direction in ("", "_reverse")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    of_decoder = [
        f"{name}_l{layer}"
        for layer in range(3)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    assert names == [
        "embeddings.target.vectors",
        *(f"encoder.layers.{name}" for name in of_layers),
        "decoder.to_first_hidden.weight",
        "decoder.to_first_hidden.bias",
        *(f"decoder.layers.{name}" for name in of_decoder),
        "decoder.cross_attention.to_queries.weight",
        "decoder.cross_attention.to_queries.bias",
        "decoder.cross_attention.to_keys.weight",
        "decoder.cross_attention.to_scores.weight",
        "decoder.combine.weight",
        "decoder.combine.bias",
    ]


def loss_after_learning_to_reverse(config):
    """Return the loss where targets are the sources, backwards; to guess costs 2.08."""
    model = new_encoder_decoder(config, 11, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(250):
        source = torch.randint(3, 11, (32, 5))
        target = source.flip(1)
        shifted = F.pad(target, (1, 0), value=1)[:, :-1]
        logits = model(source, shifted, source > 0)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@EACH
@pytest.mark.parametrize("attention", SOURCE_ATTENTIONS)
def test_it_learns_to_reverse_and_sooner_with_attention(kind, attention):
    config = replace(
        CONFIG,
        kind=kind,
        recurrent_attention=attention,
        encoder_layers=1,
        decoder_layers=1,
        d_model=32,
    )

    loss = loss_after_learning_to_reverse(config)

    if attention == "none":
        assert 0.4 < loss < 1.2
    else:
        assert loss < 0.3


@EACH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("d_k", 4), ("d_v", 4), ("d_position", 4), ("kernel_size", 5)),
        *(("attention_dropout", 0.1), ("feed_forward_dropout", 0.1)),
        *(("norm", "pre"), ("activation", "gelu"), ("positions", "rotary")),
        *(("attention_bias", True), ("embedding_norm", True)),
        *(("position_join", "concatenate"), ("positions", "learned")),
    ],
)
def test_what_a_recurrent_model_lacks_is_refused(kind, name, value):
    with pytest.raises(SettingsError, match=f"{name} = .* leave it out"):
        TransformerConfig(**{"kind": kind, "tie_embeddings": "none", name: value})


@EACH
def test_an_odd_width_is_refused_if_each_direction_has_half(kind):
    with pytest.raises(SettingsError, match=r"d_model must be even .* or set bidir"):
        TransformerConfig(kind=kind, d_model=15)
    config = TransformerConfig(
        kind=kind,
        d_model=15,
        bidirectional=False,
        encoder_layers=1,
        decoder_layers=1,
    )
    model = new_encoder_decoder(config, 11)
    assert (
        model(*[torch.ones(2, 3, dtype=int)] * 2, torch.ones(2, 3) > 0).shape[2] == 11
    )


def test_heads_need_not_divide_a_width_that_has_none():
    assert TransformerConfig(kind="lstm", d_model=10).cross_attention_shape == (1, 1)


@pytest.mark.parametrize("kind", sorted({*ENCODER_DECODERS} - {*RECURRENCES}))
@pytest.mark.parametrize(
    ("name", "value"), [("recurrent_attention", "none"), ("bidirectional", False)]
)
def test_settings_of_recurrent_models_are_refused_elsewhere(kind, name, value):
    with pytest.raises(SettingsError, match=f"{name} = .* 'gru' or 'lstm' only"):
        TransformerConfig(**{"kind": kind, name: value})


def test_an_unknown_attention_is_refused():
    with pytest.raises(SettingsError, match="must be one of additive, cosine, dot, no"):
        TransformerConfig(kind="gru", recurrent_attention="bilinear")


def test_recurrences_are_torchs():
    assert {*RECURRENCES.values()} == {nn.RNN, nn.GRU, nn.LSTM}
