"""Changes of a model: each against zeroed weights or an independent forward pass."""

import copy

import numpy as np
import pytest
import torch
from tests.inspection.conftest import random_model
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.backends.native.customization_check import find_customization
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.reference import (
    ReferenceDecoder,
    ReferenceEncoding,
    why_reference_only,
)
from headwise.backends.select_decoder import make_decoder
from headwise.backends.select_encoder import encode_batch, encoding_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import UsageError
from headwise.inspection.interventions import (
    HeadOff,
    ReplaceRow,
    ResidualOff,
    SublayerOff,
    intervene,
)
from headwise.inspection.places import (
    SublayerName,
    all_heads,
    find_head,
    parse_head,
    parse_place,
    sublayers,
)
from headwise.inspection.token_pair import run_model
from headwise.model import EncoderOnly, TransformerConfig
from headwise.model.attention_hooks import record_attention_weights

ROW = (0.25, 0.0, 0.75)


def with_zeroed_slice(model, head):
    changed = copy.deepcopy(model)
    layer = find_head(changed, head)
    width = layer.to_output.in_features // layer.num_heads
    with torch.no_grad():
        layer.to_output.weight[:, head.head * width : (head.head + 1) * width] = 0
    return changed


def sums_without(name):
    """Return an edit under which a sublayer adds nothing."""
    return lambda found, x: np.zeros_like(x) if found == f"{name}.output" else x


def name_in_numpy(sublayer):
    if sublayer.sublayer == "feed_forward":
        return f"{sublayer.stack}.{sublayer.layer}.ff"
    if sublayer.sublayer == "cross_attention":
        return f"cross.{sublayer.layer}.attention"
    return f"{sublayer.stack}.{sublayer.layer}.attention"


def logits(model, pair):
    with torch.no_grad():
        return model.logits(run_model(model, pair))[0]


def test_a_head_off_is_its_slice_of_w_o_zeroed_bit_for_bit(model, pair):
    for head in all_heads(model):
        with intervene(model, HeadOff(head)):
            changed = logits(model, pair)

        assert torch.equal(changed, logits(with_zeroed_slice(model, head), pair))
        assert not torch.equal(changed, logits(model, pair))


def test_a_head_off_is_that_in_every_search(demo):
    """Of a trained model in float32, with a KV cache: words and scores are equal."""
    opened = demo.opened
    head = parse_head("cross.1.2")
    sources = opened.task.encode(["The dog sees two cats.", "She is tired."])
    zeroed = with_zeroed_slice(opened.model, head)
    for settings in (greedy(), DecodingSettings(beam=3, num_best=3)):
        generator = opened.task.generator(opened.model)
        with intervene(opened.model, HeadOff(head)):
            found = generator.search(sources, settings)
        reference = opened.task.generator(zeroed, native=False)
        for ours, theirs in zip(
            found, reference.search(sources, settings), strict=True
        ):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-5)


def test_a_sublayer_off_adds_nothing(model, pair):
    for sublayer in sublayers(model):
        expected = NumpyTransformer(model).run(
            list(pair.source),
            list(pair.decoder_input),
            edit=sums_without(name_in_numpy(sublayer)),
        )
        with intervene(model, SublayerOff(sublayer)):
            changed = logits(model, pair)

        np.testing.assert_allclose(changed.numpy(), expected["logits"], atol=1e-9)


def test_a_residual_connection_off_lets_nothing_around_the_sublayer(model, pair):
    for sublayer in sublayers(model):
        name = f"{name_in_numpy(sublayer)}.residual"
        expected = NumpyTransformer(model).run(
            list(pair.source),
            list(pair.decoder_input),
            edit=lambda found, x, name=name: np.zeros_like(x) if found == name else x,
        )
        with intervene(model, ResidualOff(sublayer)):
            changed = logits(model, pair)

        np.testing.assert_allclose(changed.numpy(), expected["logits"], atol=1e-9)


@pytest.mark.parametrize("name", ["encoder.0.1", "decoder.1.2", "cross.0.3"])
def test_a_replaced_row_is_attended_by(model, pair, name):
    """Position 3 attends to positions 0 and 2, one part and three."""

    def edit(found, x):
        if found == f"{name}.weights":
            x[3] = 0
            x[3, :3] = ROW
        return x

    expected = NumpyTransformer(model).run(
        list(pair.source), list(pair.decoder_input), edit=edit
    )
    with intervene(model, ReplaceRow(parse_head(name), 3, ROW)):
        changed = logits(model, pair)

    np.testing.assert_allclose(changed.numpy(), expected["logits"], atol=1e-9)


@pytest.mark.parametrize("name", ["encoder.0.1", "decoder.1.2", "cross.0.3"])
def test_a_replaced_row_is_that_of_its_position_step_by_step_too(model, pair, name):
    """One token at a time, only self-attention knows how far the target is."""
    source = torch.tensor([pair.source] * 2)
    with (
        torch.no_grad(),
        intervene(model, ReplaceRow(parse_head(name), 3, ROW)),
    ):
        whole = logits(model, pair)
        state = model.start(source, torch.ones_like(source).bool())
        for position, token in enumerate(pair.decoder_input):
            step, state = model.step(torch.tensor([token] * 2), state)
            torch.testing.assert_close(step, whole[position].expand(2, -1))


def test_a_replaced_row_is_recorded_as_it_is_used(model, pair):
    head = parse_head("cross.1.2")
    with intervene(model, ReplaceRow(head, 1, ROW)):
        changed = run_model(model, pair)
        with record_attention_weights(model) as record:
            recorded = run_model(model, pair)

    (weights,) = record["decoder.blocks.1.cross_attention"]
    assert weights[0, 2, 1].tolist() == [*ROW, 0, 0, 0]
    torch.testing.assert_close(recorded, changed)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((0.5, 0.6), "sum to 1, not to 1.1"),
        ((-0.5, 1.5), "from 0 to 1"),
        ((), "sum to 1, not to 0"),
    ],
)
def test_a_row_that_is_no_distribution_is_refused(row, said):
    with pytest.raises(UsageError, match=said):
        ReplaceRow(parse_head("cross.0.0"), 0, row)


def test_a_row_that_looks_into_the_future_is_refused(model, pair):
    change = ReplaceRow(parse_head("decoder.0.0"), 1, (0.0, 0.0, 1.0))
    with intervene(model, change), pytest.raises(UsageError, match="is masked where"):
        run_model(model, pair)


def test_a_row_with_too_many_weights_is_refused(model, pair):
    change = ReplaceRow(parse_head("encoder.0.0"), 1, (0.0,) * 6 + (1.0,))
    with intervene(model, change), pytest.raises(UsageError, match="has 6 positions"):
        run_model(model, pair)


def test_several_changes_add_up_and_all_are_undone_even_after_an_error(model, pair):
    before = logits(model, pair)
    head, sublayer = parse_head("encoder.1.0"), parse_place("decoder.0.feed_forward")
    changes = [HeadOff(head), SublayerOff(sublayer), ResidualOff(sublayer)]
    with intervene(model, *changes):
        together = logits(model, pair)
        assert model.interventions == (
            "encoder.1.0 off",
            "decoder.0.feed_forward off",
            "decoder.0.feed_forward without residual connection",
        )
    with pytest.raises(RuntimeError, match="why"), intervene(model, *changes):
        raise RuntimeError("why")
    with intervene(model, changes[0]), intervene(model, *changes[1:]):
        nested = logits(model, pair)
        assert len(model.interventions) == 3
    assert torch.equal(nested, together)
    assert torch.equal(logits(model, pair), before)
    assert model.interventions == ()
    assert find_customization(model.float()) is None


def test_places_are_given_by_their_names_too():
    head, sublayer = parse_head("cross.1.3"), SublayerName("decoder", 0, "feed_forward")

    assert HeadOff("cross.1.3") == HeadOff(head)
    assert ReplaceRow("cross.1.3", 0, (1.0,)) == ReplaceRow(head, 0, (1.0,))
    assert SublayerOff("decoder.0.feed_forward") == SublayerOff(sublayer)
    assert ResidualOff("decoder.0.feed_forward") == ResidualOff(sublayer)


@pytest.mark.parametrize(
    "make",
    [
        lambda: HeadOff(None),
        lambda: HeadOff("decoder.0.feed_forward"),
        lambda: SublayerOff("cross.1.3"),
        lambda: ResidualOff(parse_head("cross.1.3")),
        lambda: ReplaceRow("cross.1.3", "0", (1.0,)),
        lambda: ReplaceRow("cross.1.3", 0, None),
        lambda: ReplaceRow("cross.1.3", 0, ("1",)),
    ],
)
def test_an_intervention_at_no_place_is_refused(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("change", ["cross.0.3", None, parse_head("cross.0.3")])
def test_what_is_no_intervention_is_refused_and_changes_nothing(change):
    model = random_model()
    with (
        pytest.raises(UsageError, match=r"such as HeadOff\('cross.1.3'\), not "),
        intervene(model, HeadOff("encoder.0.0"), change),
    ):
        pass

    assert model.interventions == ()


def test_a_place_that_there_is_not_is_refused_and_changes_nothing(model, pair):
    before = logits(model, pair)
    wrong = SublayerOff(SublayerName("encoder", 0, "cross_attention"))
    with (
        pytest.raises(UsageError, match=r"no sublayer encoder.0.cross_attention"),
        intervene(model, HeadOff(parse_head("encoder.0.0")), wrong),
    ):
        pass

    assert torch.equal(logits(model, pair), before)
    assert model.interventions == ()


@pytest.mark.usefixtures("uses_native_backend")
def test_the_native_decoder_would_ignore_a_hook_and_so_is_not_taken(pair):
    """Built all the same, it gives the unchanged logits: hence the fallback."""
    model = random_model(torch.float32)
    source = torch.tensor([pair.source])
    real = torch.ones_like(source).bool()
    start = torch.tensor([1])

    def first_logits(decoder):
        with torch.inference_mode():
            return decoder.step(start, decoder.start(source, real))[0].clone()

    plain = first_logits(model)
    assert isinstance(make_decoder(model), NativeDecoder)
    with intervene(model, HeadOff(parse_head("cross.1.0"))):
        changed = first_logits(model)
        ignoring = first_logits(NativeDecoder(model))
        decoder = make_decoder(model)
        assert isinstance(decoder, ReferenceDecoder)
        torch.testing.assert_close(first_logits(decoder), changed)
        assert "cross.1.0 off" in str(why_reference_only(model))

    torch.testing.assert_close(ignoring, plain)
    assert not torch.allclose(changed, plain)
    assert isinstance(make_decoder(model), NativeDecoder)


@pytest.mark.usefixtures("uses_native_backend")
def test_a_generator_takes_its_fast_decoder_again_afterwards(demo):
    opened = demo.opened
    generator = opened.task.generator(opened.model)
    (source,) = opened.task.encode(["The dog sees two cats."])
    (plain,) = generator.search([source], greedy())
    with intervene(opened.model, SublayerOff(parse_place("decoder.1.cross_attention"))):
        (changed,) = generator.search([source], greedy())
    (again,) = generator.search([source], greedy())

    assert again[0] == plain[0]
    assert changed[0].tokens != plain[0].tokens
    assert isinstance(generator.decoders[opened.model], NativeDecoder)


def test_training_kernels_step_aside_by_name(model):
    for change in (
        ResidualOff(parse_place("encoder.0.feed_forward")),
        HeadOff(parse_head("encoder.0.0")),
    ):
        with intervene(model, change):
            assert find_customization(model).startswith(f"{change}: interventions are")


def test_alignments_are_of_the_changed_model(demo):
    """Attention is recorded for alignments, which must not take hooks away."""
    opened = demo.opened
    head = parse_head("cross.0.1")
    pairs = [opened.task.encode(["The dog sleeps.", "Le chien dort."])]
    with intervene(opened.model, HeadOff(head)):
        found = opened.task.scorer(opened.model).cross_attention(
            [pairs[0][0]], [pairs[0][1]]
        )
    zeroed = with_zeroed_slice(opened.model, head)
    expected = opened.task.scorer(zeroed).cross_attention([pairs[0][0]], [pairs[0][1]])

    torch.testing.assert_close(found, expected)


def test_encoders_alone_fall_back_to_the_reference():
    """Without padding there is no row of weights to replace; with it there is."""
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=0, d_model=16, d_ff=24, num_heads=4
    )
    model = use_backend(EncoderOnly(config, 13), "auto").eval()
    tokens = RaggedTokens.from_lengths(
        torch.tensor([5, 6, 7, 2, 8, 2]), torch.tensor([4, 2])
    )
    changes = [ReplaceRow(parse_head("encoder.0.1"), 1, (1.0,))]
    with torch.inference_mode(), intervene(model, *changes):
        found = encode_batch(model, tokens)
        assert isinstance(encoding_backend(model, tokens), ReferenceEncoding)
        expected = model.encode(tokens.padded(), tokens.is_real)[tokens.is_real]
    with torch.inference_mode():
        plain = encode_batch(model, tokens)

    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, plain)
