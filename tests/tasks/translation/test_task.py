"""Translation binds text, model, loss and search; each of them by two ways."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from headwise.data.batches import make_batch
from headwise.decoding.settings import PRESETS, DecodingSettings, greedy
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import BEST
from headwise.tasks.translation import generator
from headwise.tasks.translation.text_codec import FORBIDDEN_TOKENS
from headwise.text.vocabulary import PAD

TEXTS = [
    "one.",
    "three four two six one.",
    "six six.",
    "two five three one.",
    "four three.",
    "one two three four five six one two three.",
]


@pytest.fixture(scope="module")
def opened(tiny_run):
    return open_model_folder(tiny_run / BEST)


@pytest.fixture(scope="module")
def task(opened):
    return opened.task


@pytest.fixture(scope="module")
def batch(tiny_run):
    from headwise.data.prepared import PreparedCorpus

    corpus = PreparedCorpus.open(tiny_run / "prepared")
    return make_batch(corpus.dev, torch.arange(6).numpy())


def found(task, opened, texts, settings, **options):
    generator = task.generator(opened.model, **options)
    return generator.search(task.encode(texts), settings)


def words(outputs):
    return [[each.tokens for each in best] for best in outputs]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_torchs_cross_entropy_without_padding(
    opened, task, batch, smoothing
):
    model = opened.model
    source, target = batch.source, batch.decoder_input
    logits = model(source.padded(), target.padded(), source.is_real)
    expected = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target.padded().flatten(),
        ignore_index=PAD,
        reduction="sum",
        label_smoothing=smoothing,
    )

    assert (batch.target.padded() == PAD).any()
    loss = task.loss(model, batch, smoothing=smoothing)
    torch.testing.assert_close(loss, expected)


def test_the_loss_has_a_gradient_for_every_weight(opened, task, batch):
    opened.model.zero_grad()
    task.loss(opened.model, batch, smoothing=0.1).backward()

    assert all(weight.grad is not None for weight in opened.model.parameters())
    opened.model.zero_grad()


def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_pairs(opened, task, batch):
    one_by_one = sum(
        task.loss(opened.model, batch.rows(torch.tensor([row])), smoothing=0.1)
        for row in range(len(batch))
    )

    together = task.loss(opened.model, batch, smoothing=0.1)
    torch.testing.assert_close(together, one_by_one)


@pytest.mark.parametrize("name", PRESETS)
def test_an_output_does_not_depend_on_the_batch(opened, task, name):
    settings = PRESETS[name]()
    together = found(task, opened, TEXTS, settings)
    alone = [found(task, opened, [text], settings)[0] for text in TEXTS]

    assert words(together) == words(alone)
    for batched, single in zip(together, alone, strict=True):
        assert batched[0].score == pytest.approx(single[0].score, abs=1e-5)


def test_outputs_are_in_the_order_of_their_sources(opened, task, monkeypatch):
    in_one = words(found(task, opened, TEXTS, greedy()))
    monkeypatch.setattr(generator, "BATCH_TOKENS", 12)
    in_many = words(found(task, opened, TEXTS, greedy()))
    backwards = words(found(task, opened, TEXTS[::-1], greedy()))

    assert in_many == in_one
    assert backwards == in_one[::-1]
    assert len({tuple(output[0]) for output in in_one}) > 3


@pytest.mark.parametrize("settings", [greedy(), DecodingSettings(beam=3, num_best=2)])
def test_decoding_without_a_kv_cache_gives_the_same_outputs(opened, task, settings):
    """The procedure of the background notes: a refilled row of full length."""
    cached = found(task, opened, TEXTS[:4], settings)
    again = found(task, opened, TEXTS[:4], settings, cached=False)

    assert words(again) == words(cached)
    for one, other in zip(again, cached, strict=True):
        assert one[0].log_probability == pytest.approx(
            other[0].log_probability, abs=1e-4
        )


def test_a_score_is_the_log_probability_that_the_model_gives_the_words(opened, task):
    (best,) = found(task, opened, [TEXTS[1]], greedy())[0]
    source = torch.tensor([[*task.encode([TEXTS[1]])[0], 2]])
    target = torch.tensor([[1, *best.tokens]])
    log_p = opened.model(source, target, source != PAD).log_softmax(-1)[0]
    ahead = torch.tensor([*best.tokens, 2])

    assert best.finished
    total = log_p.gather(1, ahead[:, None]).sum().item()
    assert best.log_probability == pytest.approx(total, abs=1e-4)


def test_no_sources_give_no_outputs(opened, task):
    assert task.search(opened.model, [], greedy()) == []
    assert task.predict(opened.model, [], greedy()) == []


def test_a_source_without_tokens_is_no_error(opened, task):
    outputs = task.search(opened.model, [[], [5, 6], []], greedy())

    assert [len(each) for each in outputs] == [1, 1, 1]
    assert outputs[0] == outputs[2]


def test_no_output_contains_forbidden_tokens(opened, task):
    """Padding and START would be dropped in the text and still cost a score."""
    outputs = found(task, opened, TEXTS, DecodingSettings(beam=5, num_best=5))

    written = {token for best in outputs for each in best for token in each.tokens}
    assert not written & set(FORBIDDEN_TOKENS)


def test_predict_takes_and_returns_text(opened, task):
    outputs = task.predict(opened.model, TEXTS, greedy())

    assert [task.decode(best[0]) for best in found(task, opened, TEXTS, greedy())] == (
        outputs
    )
    assert any("." in output for output in outputs)


def test_check_stop_is_called_before_each_batch(opened, task, monkeypatch):
    monkeypatch.setattr(generator, "BATCH_TOKENS", 12)
    asked = []
    asking = replace(task, check_stop=lambda: asked.append(1))
    asking.search(opened.model, task.encode(TEXTS), greedy())

    assert len(asked) > 2


def test_references_are_not_tokenized(task):
    assert task.measure("exact-match", ["a", "b"], ["a", "c"]).value == 50.0


def test_cross_attention_has_a_row_for_each_target_piece(opened, task):
    source, target = "one two.", "eins zwei."
    found = task.attention(opened.model, source, target)
    config = opened.model.config

    assert found.source[-1] == found.target[-1] == "</s>"
    assert "".join(found.target[:-1]).replace("▁", " ").strip() == target
    blocks, heads = config.decoder_layers, config.num_heads
    shape = (blocks, heads, len(found.target), len(found.source))
    assert found.weights.shape == shape
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(shape[:-1]))


def test_later_target_pieces_change_no_earlier_row_of_attention(opened, task):
    short = task.attention(opened.model, "one two.", "eins")
    long = task.attention(opened.model, "one two.", "eins zwei drei.")
    same = len(short.target) - 1  # up to END

    assert long.target[:same] == short.target[:same]
    torch.testing.assert_close(
        long.weights[:, :, : same + 1], short.weights[:, :, : same + 1]
    )
