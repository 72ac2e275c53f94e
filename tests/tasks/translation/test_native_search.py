"""Every search with the native backend and with PyTorch alone: the same outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.decoding import topk
from headwise.decoding.forced_prefix import NO_PREFIX
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.errors import UsageError
from headwise.run_folder.model_folder import open_model_folder

DEMO = Path(__file__).parents[2] / "models" / "demo"

TEXTS = [
    "The dog sleeps in the garden.",
    "My mother eats bread.",
    "The small house is white and she sees the river.",
    "",
    "Zzz qqq! The boys weren't drinking the cold water because they were old.",
]

WAYS = {
    "greedy": greedy(),
    "traced": DecodingSettings(beam=1, token_scores=True),
    "beam": DecodingSettings(num_best=4),
    "one beside another": DecodingSettings(beam=40, num_best=3),
    "paper": paper(),
    "exact": DecodingSettings(stopping="exact", length_penalty="gnmt"),
    "coverage": DecodingSettings(coverage=0.2),
    "diverse": DecodingSettings(search="diverse-beam", num_best=4),
    "sampling": DecodingSettings(
        search="sampling", samples=3, num_best=3, top_p=0.9, temperature=0.7
    ),
    "rules": DecodingSettings(
        no_repeat_ngram=2, repetition_penalty=1.3, banned=("chien",)
    ),
    "alignments": DecodingSettings(alignments=True, replace_unknown=True),
}


@pytest.fixture(scope="module")
def opened():
    return open_model_folder(DEMO)


@pytest.fixture
def by_torch(monkeypatch):
    monkeypatch.setattr(topk, "has_native_topk", lambda logits, count: False)


def assert_same_outputs(task, models, settings, prefixes=None):
    sources = task.encode(TEXTS)

    found = [
        task.generator(models, native=native).search(sources, settings, prefixes)
        for native in (True, False)
    ]

    for by_kernels, plain in zip(*found, strict=True):
        assert [each.tokens for each in by_kernels] == [each.tokens for each in plain]
        for one, other in zip(by_kernels, plain, strict=True):
            assert one.finished == other.finished
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.alignment == other.alignment


@pytest.mark.usefixtures("uses_native_backend", "by_torch")
@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
def test_every_search_finds_the_same_words(opened, settings):
    assert_same_outputs(opened.task, opened.model, settings)


@pytest.mark.usefixtures("uses_native_backend", "by_torch")
@pytest.mark.parametrize("beam", [1, 4])
def test_forced_prefixes_are_continued_alike(opened, beam):
    begun = [opened.task.prefix(each) for each in ("Le ch", "Ma mère ", "", "", "Zz")]
    prefixes = [each or NO_PREFIX for each in begun]

    assert_same_outputs(
        opened.task, opened.model, DecodingSettings(beam=beam), prefixes
    )


@pytest.mark.usefixtures("uses_native_backend", "by_torch")
@pytest.mark.parametrize("settings", [greedy(), DecodingSettings()])
def test_several_models_search_alike(opened, settings):
    other = opened.task.new_model(opened.model.config, seed=1)
    with torch.no_grad():
        for mine, demo in zip(
            other.parameters(), opened.model.parameters(), strict=True
        ):
            mine.mul_(0.05).add_(demo)

    assert_same_outputs(opened.task, [opened.model, other.eval()], settings)


@pytest.mark.usefixtures("uses_native_backend")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("settings", [greedy(), DecodingSettings(num_best=4)])
def test_a_sentence_does_not_depend_on_its_batch(opened, precision, settings):
    """Not even in the last bit of its score."""
    task, sources = opened.task, opened.task.encode(TEXTS * 3)

    def search(chosen):
        generator = task.generator(opened.model, precision=precision)
        return generator.search(chosen, settings)

    together = search(sources)
    backwards = search(sources[::-1])[::-1]

    assert together == backwards
    assert [search([each])[0] for each in sources[:5]] == together[:5]


@pytest.mark.usefixtures("uses_native_backend")
def test_the_native_backend_is_used_if_asked_for(opened, monkeypatch):
    used = []
    for kind in (NativeDecoder, TorchDecoder):

        def start(self, *arguments, kind=kind, original=kind.start):
            used.append(kind)
            return original(self, *arguments)

        monkeypatch.setattr(kind, "start", start)
    task, sources = opened.task, opened.task.encode(TEXTS[:1])

    task.search(opened.model, sources, greedy())
    task.generator(opened.model, native=False).search(sources, greedy())

    assert used == [NativeDecoder, TorchDecoder]


@pytest.mark.usefixtures("uses_native_backend")
def test_an_invalid_token_id_is_an_error(opened):
    size = opened.model.source_vocab_size

    with pytest.raises(UsageError, match=f"tokens must be 0 to {size - 1}"):
        opened.task.search(opened.model, [[4, size]], greedy())


@pytest.mark.usefixtures("uses_native_backend")
def test_changed_weights_make_a_new_decoder(opened):
    task, model = opened.task, opened.task.new_model(opened.model.config, seed=5)
    sources = task.encode(TEXTS[:2])
    settings = replace(greedy(), max_length_factor=0.0, max_length_offset=6)
    generator = task.generator(model)
    before = generator.search(sources, settings)

    model.load_state_dict(opened.model.state_dict())
    after = generator.search(sources, settings)

    assert after != before
    assert after == task.search(opened.model, sources, settings)
    assert len(generator.decoders) == 1
