"""The whole of Figure 1, and every choice that settings offer."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch

from headwise.backends.pytorch.install_fused import use_backend
from headwise.errors import ModelError, SettingsError
from headwise.model import TransformerConfig
from headwise.model.config import ModelKind
from headwise.model.config_checks import OF_KINDS
from headwise.model.transformer import Transformer


def kinds_with(name: str) -> tuple[str, ...]:
    """Return the kinds of models that have a setting."""
    return OF_KINDS.get(name, get_args(ModelKind))


def offered() -> Iterator[dict[str, Any]]:
    """Name every choice that stands in the settings' types, and sizes worth trying."""
    beside = {"position_join": "concatenate", "tie_embeddings": "none"}
    for name, kind in get_type_hints(TransformerConfig).items():
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        of_kind = (
            {} if "transformer" in kinds_with(name) else {"kind": kinds_with(name)[0]}
        )
        for choice in (False, True) if kind is bool else choices:
            needs_channels = (name, choice) == ("residual", "positions")
            own = {} if choice == "concatenate" else {name: choice, **of_kind}
            yield {**beside, **own} if needs_channels or not own else own
    for positions in ("sinusoidal_halves", "learned"):
        yield {**beside, "positions": positions}
    yield {**beside, "d_position": 4}
    yield {**beside, "positions": "learned", "d_position": 5}
    yield {"encoder_layers": 1, "decoder_layers": 3}
    yield {"d_k": 3, "d_v": 5}
    yield {"num_heads": 3, "d_k": 2, "d_v": 7}
    yield {"num_heads": 1}
    for kind in OF_KINDS["kernel_size"]:
        yield {"kind": kind, "kernel_size": 1}
        yield {"kind": kind, "kernel_size": 5, "positions": "learned"}


CHOICES = list(offered())
EACH = pytest.mark.parametrize(
    "choice", CHOICES, ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items())
)


def step_by_step(model, source, target, is_real):
    state, steps = model.start(source, is_real), []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        steps.append(scores)
    return torch.stack(steps, dim=1)


@EACH
def test_every_setting_trains_all_its_weights(small, batch, choice):
    model = small(**choice).train()

    scores = model(*batch)
    scores.logsumexp(-1).sum().backward()

    assert scores.shape == (3, 6, 11)
    assert scores.isfinite().all()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        flat_by_nature = name.endswith("to_keys.bias")  # shifts all scores alike
        assert flat_by_nature or weight.grad.abs().max() > 0, name


@EACH
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (None, 1e-6)])
def test_incremental_decoding_equals_the_forward_pass(
    small, batch, choice, dtype, within
):
    model = small(dtype=dtype or torch.float32, **choice)

    at_once, stepwise = model(*batch), step_by_step(model, *batch)

    assert (stepwise - at_once).norm() <= within * at_once.norm()


@EACH
def test_the_installed_backend_equals_the_reference(small, batch, choice):
    model = small(dtype=torch.float64, **choice)

    fast = use_backend(model, "torch")(*batch)
    plain = use_backend(model, "reference")(*batch)

    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)


@EACH
def test_every_tensor_is_saved_once_and_comes_back(small, batch, choice):
    model, other = small(**choice), small(**choice)
    state = model.state_dict()

    other.load_state_dict(state)

    addresses = [tensor.data_ptr() for tensor in state.values()]
    assert len(set(addresses)) == len(addresses)
    tensors = *model.named_parameters(), *model.named_buffers()
    assert set(state) == {name for name, _ in tensors}
    assert torch.equal(other(*batch), model(*batch))


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_a_sentence_does_not_depend_on_the_batch_it_is_in(small, batch, norm):
    """Alone and unpadded, or beside longer ones."""
    source, target, is_real = batch
    for dtype, within in [(torch.float64, 1e-12), (torch.float32, 1e-6)]:
        model = small(dtype=dtype, norm=norm)
        together = model(source, target, is_real)
        for row, length in enumerate([7, 5, 2]):
            mine = slice(row, row + 1)

            alone = model(source[mine, :length], target[mine], is_real[mine, :length])

            apart = (together[mine] - alone).norm()
            assert apart <= within * alone.norm()


def test_what_padding_holds_changes_nothing(small, batch):
    source, target, is_real = batch
    model = small()
    other = torch.where(is_real, source, (source + 3) % 11)

    assert not torch.equal(other, source)
    assert torch.equal(model(other, target, is_real), model(source, target, is_real))


def test_later_target_tokens_change_no_earlier_logits(small, batch):
    source, target, is_real = batch
    model = small()
    other = target.clone()
    other[:, 4:] = (other[:, 4:] + 5) % 11

    before, after = model(source, target, is_real), model(source, other, is_real)

    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4], after[:, 4])


def test_logits_are_the_decoder_output_times_the_output_matrix(small, batch):
    for tying in get_args(get_type_hints(TransformerConfig)["tie_embeddings"]):
        model = small(tie_embeddings=tying, output_bias=True)

        top = model.decode(*batch)

        expected = top @ model.output_vectors.T + model.output.bias
        torch.testing.assert_close(model(*batch), expected)


@pytest.mark.parametrize(("tying", "tables"), [("none", 3), ("output", 2), ("all", 1)])
def test_tied_matrices_are_one_matrix(small, tying, tables):
    """Three-way tying is that of Section 3.4."""
    model = small(tie_embeddings=tying)

    three = [
        model.source_embedding.vectors,
        model.target_embedding.vectors,
        model.output_vectors,
    ]
    assert len({vectors.data_ptr() for vectors in three}) == tables
    large = [weight for weight in model.state_dict().values() if len(weight) == 11]
    assert len(large) == tables


def test_each_side_may_have_a_vocabulary_of_its_own(batch):
    source, target, is_real = batch
    for tying in ("none", "output"):
        config = TransformerConfig(
            encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, num_heads=2
        )
        model = Transformer(replace(config, tie_embeddings=tying), 11, 20)

        assert model(source, target + 9, is_real).shape == (3, 6, 20)


def test_one_matrix_for_two_vocabularies_is_refused():
    with pytest.raises(
        SettingsError, match=r"source has 11 .* target 20; use 'output'"
    ):
        Transformer(TransformerConfig(), 11, 20)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_config_of_one_stack_is_refused(stack):
    with pytest.raises(SettingsError, match=f"{stack}_layers must be 1 or more, not 0"):
        Transformer(TransformerConfig(**{f"{stack}_layers": 0}), 11)


def test_every_path_raises_beyond_the_learned_positions(small, batch):
    source, target, is_real = batch
    model = small(positions="learned", max_positions=7)
    state = model.start(source, is_real)

    model(source, target, is_real)
    for _ in range(7):
        _, state = model.step(target[:, 0], state)

    with pytest.raises(ModelError, match=r"position 8: this model has only 7"):
        model.step(target[:, 0], state)
    longer, real = source[:, :1].expand(3, 8), is_real[:, :1].expand(3, 8)
    with pytest.raises(ModelError, match="split the text"):
        model(longer, target, real)


def test_both_stacks_have_learned_positions_of_their_own(small):
    model = small(positions="learned")

    theirs = {name for name, _ in model.named_parameters() if "add_positions" in name}

    assert theirs == {
        f"enter_{stack}.add_positions.scheme.vectors"
        for stack in ("encoder", "decoder")
    }


def test_the_same_seed_gives_the_same_weights_whatever_else_was_drawn():
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, num_heads=2
    )

    first, second, other = (Transformer(config, 11, seed=seed) for seed in (5, 5, 6))

    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert not torch.equal(first.output_vectors, other.output_vectors)
