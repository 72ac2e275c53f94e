"""Gradient accumulation: a batch that does not fit is split, to the same gradients."""

import math
from dataclasses import replace

import pytest
import torch
from tests.training.conftest import QUICK, SMALL
from tests.training.test_nan_checks import MessageRecorder

from headwise.backends.native import measured_speed
from headwise.backends.native import training as native_training
from headwise.backends.native.library import Build
from headwise.backends.native.training import why_not_native
from headwise.backends.reference import why_variant
from headwise.data.batches import make_batch
from headwise.errors import ResourceError, SettingsError
from headwise.openmp import num_threads
from headwise.training import gradient_accumulation, micro_batch
from headwise.training.distributed import hardware_changed_warning
from headwise.training.micro_batch import MicroBatchRunner

STILL = replace(SMALL, dropout=0.0)


def gradients_of(trainer, batch, number=0):
    loss = trainer.gradients.accumulate([(number, batch)], step=1, divisor=7.0)
    return loss.loss, {n: p.grad.clone() for n, p in trainer.model.named_parameters()}


@pytest.fixture
def little_memory(monkeypatch):
    """Let every batch fail that has more places than ``room``, as torch fails."""

    def limit(room, error):
        loss = MicroBatchRunner.loss

        def failing(self, micro_batch, *rng_key):
            found = loss(self, micro_batch, *rng_key)
            if micro_batch.padded_tokens > room:
                raise error
            return found

        monkeypatch.setattr(MicroBatchRunner, "loss", failing)

    return limit


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ..."),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda e: type(e).__name__)
def test_gradients_of_micro_batches_add_up_to_those_of_the_batch(
    make_trainer, little_memory, error
):
    trainer = make_trainer(config=STILL, callback=MessageRecorder())
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    loss, expected = gradients_of(trainer, batch)
    little_memory(batch.padded_tokens // 3, error)
    split_loss, found = gradients_of(trainer, batch)

    assert split_loss == pytest.approx(loss, rel=1e-6)
    for name, gradient in expected.items():
        worst = (found[name] - gradient).abs().max()
        assert worst < 3e-6 * gradient.abs().max(), name
    said = trainer.callbacks[0].said
    assert all("did not fit into memory" in text for text in said)
    assert 1 <= len(said) <= 2


def test_a_micro_batch_that_was_too_large_once_is_not_tried_again(
    make_trainer, little_memory
):
    trainer = make_trainer(config=STILL, callback=MessageRecorder())
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    little_memory(batch.padded_tokens // 2, MemoryError())
    gradients_of(trainer, batch)
    told = len(trainer.callbacks[0].said)
    gradients_of(trainer, batch)

    assert len(trainer.callbacks[0].said) == told


def test_a_run_that_runs_out_of_memory_reaches_its_end(make_trainer, little_memory):
    little_memory(100, OUT_OF_MEMORY[0])
    trainer = make_trainer(
        replace(QUICK, accumulate=2), config=STILL, callback=MessageRecorder()
    )
    trainer.run()

    assert trainer.state.step == 6
    assert all(math.isfinite(update.loss) for update in trainer.callbacks[0].updates)


def test_memory_too_small_for_a_single_pair_is_an_error_that_says_so(
    make_trainer, little_memory
):
    little_memory(1, OUT_OF_MEMORY[0])
    trainer = make_trainer(callback=MessageRecorder())

    with pytest.raises(ResourceError, match=r"a single pair of \d+ tokens"):
        trainer.run()


def test_another_error_is_not_taken_for_want_of_memory(make_trainer, little_memory):
    little_memory(1, RuntimeError("shapes do not match"))

    with pytest.raises(RuntimeError, match="shapes do not match"):
        make_trainer().run()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_parts_of_a_batch_are_its_pairs_once_each(make_trainer, count):
    trainer = make_trainer()
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    parts = batch.parts(count)

    assert len(parts) == count
    assert sum(map(len, parts)) == len(batch)
    assert torch.equal(torch.cat([part.indices for part in parts]), batch.indices)
    tokens = torch.cat([part.source.tokens for part in parts])
    assert torch.equal(tokens, batch.source.tokens)
    assert sum(p.num_target_tokens for p in parts) == batch.num_target_tokens
    assert sum(p.num_source_tokens for p in parts) == batch.num_source_tokens


def test_tokens_are_counted_without_reading_them(make_trainer):
    trainer = make_trainer()
    store = trainer.corpus.train
    for indices in trainer.order.epoch(0):
        batch = make_batch(store, indices)
        expected = (batch.num_source_tokens, batch.num_target_tokens)
        assert store.count_tokens(indices) == expected


@pytest.mark.parametrize("limit", [None, 1e6])
def test_a_gradient_within_the_limit_is_not_walked_through(make_trainer, limit):
    trainer = make_trainer(replace(QUICK, clip_norm=limit))
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    trainer.gradients.accumulate([(0, batch)], step=1, divisor=batch.num_target_tokens)
    gradients = [parameter.grad for parameter in trainer.model.parameters()]
    changes = [gradient._version for gradient in gradients]

    length = trainer.gradients.clip()

    assert length == pytest.approx(torch.cat([g.flatten() for g in gradients]).norm())
    assert [gradient._version for gradient in gradients] == changes


V4 = Build(
    variant="v4",
    compiler="clang 22.1.8",
    flags="-O3 -mcpu=x86_64_v4",
    digest="0123456789ab",
)


@pytest.fixture
def native_build(monkeypatch):
    """Train natively, as if the library were this build."""

    def made(build):
        monkeypatch.setattr(gradient_accumulation, "build", lambda: build)
        monkeypatch.setattr(micro_batch, "why_not_native", lambda model: None)

    return made


def test_a_run_records_the_build_of_the_native_library(make_trainer, native_build):
    """And the processor, by which PyTorch and its libraries choose their sums."""
    native_build(V4)
    recorder = MessageRecorder()
    trainer = make_trainer(replace(QUICK, steps=1), callback=recorder)
    state = trainer.run()

    assert "training by the native backend, with AVX-512" in recorder.said
    assert state.trained_on.endswith(
        f"; torch {torch.__version__}; float32; native library v4 by clang 22.1.8 "
        "(-O3 -mcpu=x86_64_v4), library 0123456789ab"
    )
    assert torch.backends.cpu.get_cpu_capability() in state.trained_on


@pytest.mark.parametrize(
    ("precision", "trained_in"), [("auto", "float32"), ("bf16", "bf16")]
)
def test_bf16_that_was_never_measured_is_used_on_request(
    make_trainer, native_build, monkeypatch, precision, trained_in
):
    made = replace(V4, variant="v4-bf16")
    native_build(made)
    monkeypatch.setattr(measured_speed, "build", lambda: made)
    monkeypatch.setattr(measured_speed, "why_unavailable", lambda: None)
    monkeypatch.setattr(measured_speed, "cpu_vendor", lambda: "of nobody")
    recorder = MessageRecorder()
    settings = replace(QUICK, steps=1, precision=precision)
    state = make_trainer(settings, callback=recorder).run()

    said = (
        "training in float32: bf16 was never measured to be faster here, with AVX-512 "
        "BF16; training.precision = 'bf16' uses it"
    )
    assert f"; {trained_in}; native library v4-bf16 by " in state.trained_on
    assert (said in recorder.said) == (precision == "auto")


@pytest.mark.parametrize(("amx", "expected"), [(True, "bf16"), (False, "float32")])
@pytest.mark.parametrize("config", [SMALL, replace(SMALL, positions="alibi")])
def test_auto_takes_the_precision_of_the_backend_that_trains(
    make_trainer, native_build, monkeypatch, config, amx, expected
):
    """PyTorch trains variants; dot products of the native library do not help it."""
    native_build(V4)
    monkeypatch.setattr(micro_batch, "why_not_native", why_variant)
    monkeypatch.setattr(micro_batch, "fastest_precision", lambda: "of the library")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)

    trainer = make_trainer(replace(QUICK, precision="auto"), config=config)

    natively = config is SMALL
    found = f"; {'of the library' if natively else expected}; "
    assert found in trainer.gradients.trained_on
    assert ("native library" in trainer.gradients.trained_on) == natively


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"variant": "v3"},
            "trained by native library v4 by clang 22.1.8 (-O3 -mcpu=x86_64_v4), "
            "library 0123456789ab; it goes on with native library v3 by clang 22.1.8 ",
        ),
        ({"compiler": "clang 21.1.0"}, "v4 by clang 21.1.0 (-O3 "),
        ({"flags": "-O2"}, "v4 by clang 22.1.8 (-O2)"),
        ({"digest": "ba9876543210"}, "library ba9876543210"),
    ],
)
def test_resuming_with_another_native_library_warns_that_weights_will_differ(
    make_trainer, native_build, change, said
):
    """Stopped under gcc and resumed under clang, it ended elsewhere without a word."""
    native_build(V4)
    state = make_trainer(QUICK, until=1).run()
    same, other = MessageRecorder(), MessageRecorder()
    make_trainer(QUICK, state=state, until=1, callback=same).run()
    native_build(replace(V4, **change))
    after = make_trainer(QUICK, state=state, until=1, callback=other).run()

    assert not any("until now this run" in each for each in same.said)
    (told,) = [each for each in other.said if "until now this run" in each]
    assert said in told
    assert "the weights will differ from those of an uninterrupted run" in told
    assert after.trained_on != state.trained_on


def test_resuming_by_pytorch_is_reported(make_trainer, native_build):
    native_build(V4)
    state = make_trainer(QUICK, until=1).run()
    recorder = MessageRecorder()
    settings = replace(QUICK, backend="torch")
    make_trainer(settings, state=state, until=1, callback=recorder).run()

    assert any("it goes on with PyTorch. " in each for each in recorder.said)


def test_trained_on_of_an_older_version_is_shown_whole():
    told = hardware_changed_warning(
        "1 process, cpu, 1 threads, torch 2.1", "1 process; cpu"
    )

    assert (
        "1 process, cpu, 1 threads, torch 2.1; it goes on with 1 process, cpu" in told
    )


@pytest.mark.parametrize("backend", ["auto", "torch", "reference"])
def test_a_frozen_weight_is_not_trained_and_it_is_reported(make_trainer, backend):
    """By one process: the weights of others would not be frozen."""
    recorder = MessageRecorder()
    settings = replace(QUICK, backend=backend, processes=2)
    trainer = make_trainer(settings, callback=recorder)
    frozen = "encoder.blocks.0.feed_forward.widen.weight"
    weight = trainer.model.get_parameter(frozen)
    weight.requires_grad_(False)
    trainer = make_trainer(settings, model=trainer.model, callback=recorder)
    before = weight.clone()
    trainer.run()

    assert weight.grad is None
    assert torch.equal(weight, before)
    said = f"training by PyTorch: {frozen} is frozen (requires_grad = False)"
    assert (said in getattr(recorder, "said", [])) == (backend == "auto")


def test_a_native_backend_that_cannot_train_the_model_is_an_error(make_trainer):
    model = make_trainer(QUICK).model
    name, weight = next(iter(model.named_parameters()))
    weight.requires_grad_(False)

    with pytest.raises(SettingsError, match=f"'native' cannot be used: {name} is froz"):
        make_trainer(replace(QUICK, backend="native"), model=model)


@pytest.mark.usefixtures("needs_native_library")
def test_a_native_backend_trains_where_it_was_not_measured_to_be_faster(
    make_trainer, monkeypatch
):
    monkeypatch.setenv("HEADWISE_NATIVE", "auto")
    trainer = make_trainer(replace(QUICK, backend="native", processes=1))

    assert why_not_native(trainer.model) is None
    assert "native library " in trainer.gradients.trained_on


@pytest.mark.parametrize(
    ("backend", "longest", "of_torch"),
    [("native", 512, 1), ("native", 2, 3), ("torch", 512, 3), ("reference", 512, 3)],
)
def test_torch_has_one_thread_where_kernels_compute(
    backend,
    longest,
    of_torch,
    make_trainer,
    three_threads,
    uses_native_backend,
    monkeypatch,
):
    """And all of them for sentences that are too long for the kernels."""
    monkeypatch.setattr(native_training, "MAX_LENGTH", longest)
    trainer = make_trainer(replace(QUICK, backend=backend, processes=1))
    compute, found = trainer.gradients._runner.loss, set()

    def noted(*args):
        found.add((torch.get_num_threads(), num_threads()))
        return compute(*args)

    trainer.gradients._runner.loss = noted
    trainer.run()

    assert found == {(of_torch, 3)}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("needs_native_library")
@pytest.mark.parametrize(
    ("why_not_preferred", "changes", "workers"),
    [
        ("it is slow", {"backend": "auto"}, 2),
        ("it is slow", {"backend": "native"}, 1),
        (None, {"backend": "auto"}, 1),
        (None, {"backend": "torch"}, 2),
        (None, {"backend": "native", "processes": 2}, 2),
        (None, {"activation_checkpointing": True}, 2),
    ],
)
def test_workers_share_a_batch_where_kernels_do_not_train(
    make_trainer, monkeypatch, why_not_preferred, changes, workers
):
    """Whatever the model was made for: the settings decide what trains it."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(
        native_training, "why_not_preferred", lambda _: why_not_preferred
    )
    settings = replace(QUICK, batch_tokens=4096, **changes)

    gradients = make_trainer(settings).gradients

    assert gradients._runner.num_workers == workers
    gradients.close()
