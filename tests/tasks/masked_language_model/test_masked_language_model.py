"""Masked language models: loss by hand, filled masks, pseudo-log-likelihood."""

import math

import pytest
import torch
from tests.tasks.examples import train_example
from torch.nn import functional as F

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.errors import UsageError
from headwise.inference.load import load_predictor
from headwise.model.config import TransformerConfig
from headwise.recipe import resolve
from headwise.tasks.masked_language_model.masking import EVERY
from headwise.tasks.masked_language_model.model import (
    MaskedLanguageModel,
    masked_token_loss,
)
from headwise.tasks.masked_language_model.settings import MaskingSettings
from headwise.tasks.masked_language_model.spec import MaskedLanguageModelSpec
from headwise.text.vocabulary import PAD, START, UNKNOWN

COUNTING = ["one", "two", "three", "four", "five", "six"] * 2
"""What the model of ``predictor`` learned."""

CONFIG = TransformerConfig(
    encoder_layers=1,
    decoder_layers=0,
    d_model=8,
    d_ff=16,
    num_heads=2,
    dropout=0.0,
)


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    return load_predictor(train_example("masked_language_model", folder))


def rows(*lists):
    return RaggedTokens.from_lengths(
        torch.tensor([token for row in lists for token in row]),
        torch.tensor([len(row) for row in lists]),
    )


def test_the_loss_is_that_of_the_masked_tokens_of_the_padded_model():
    """Window 1 has 4 tokens and 2 labels, each of which counts twice; window 2 one."""
    model = MaskedLanguageModel(CONFIG, 12, seed=3)
    source = rows([UNKNOWN, 6, UNKNOWN, 8], [UNKNOWN])
    target = rows([5, PAD, 7, PAD], [9])
    batch = Batch(source, target, torch.arange(2))

    def expected(tokens, labels, weight):
        given = torch.tensor([[START, *tokens]])
        encoded = model.encoder_only.encode(given, torch.ones_like(given).bool())
        vectors = model.encoder_only.embedding.vectors
        logits = model.head(encoded[0, 1:], vectors)
        return weight * F.cross_entropy(
            logits, torch.tensor(labels), ignore_index=PAD, reduction="sum"
        )

    by_hand = expected([UNKNOWN, 6, UNKNOWN, 8], [5, PAD, 7, PAD], 2.0)
    by_hand = by_hand + expected([UNKNOWN], [9], 1.0)
    loss = masked_token_loss(model, batch, smoothing=0.0)
    torch.testing.assert_close(loss, by_hand)


def test_a_window_without_labels_costs_nothing():
    model = MaskedLanguageModel(CONFIG, 12)
    batch = Batch(rows([2, 2]), rows([PAD, PAD]), torch.arange(1))
    assert masked_token_loss(model, batch, smoothing=0.0).item() == 0.0


def test_masks_are_filled_by_what_must_stand_there(predictor):
    for place in (3, 8, 10):
        words = list(COUNTING)
        words[place] = "[MASK]"
        assert predictor.predict([" ".join(words)]) == [" ".join(COUNTING)]


def test_a_text_with_only_a_mask_is_filled_too(predictor):
    (word,) = predictor.predict(["[MASK]"])
    assert word in ("one", "two", "three", "four", "five", "six")


def test_a_text_without_masks_has_its_pseudo_log_likelihood(predictor):
    """It is the sum over the tokens, each masked in turn; so order counts."""
    texts = " ".join(COUNTING), " ".join(sorted(COUNTING))
    right, wrong = predictor.predictions(texts)
    assert (right.output, wrong.output) == texts
    assert right.log_probability > wrong.log_probability

    opened = predictor.opened
    tokens = opened.any_task.encode(texts[:1])[0]
    total = 0.0
    for place, token in enumerate(tokens):
        row = torch.tensor(tokens)
        row[place] = UNKNOWN
        chosen = torch.arange(len(tokens)) == place
        with torch.inference_mode():
            log_p = opened.model(rows(row.tolist()), chosen).log_softmax(dim=1)
        total += log_p[0, token].item()
    assert right.log_probability == pytest.approx(total, abs=1e-4)


def test_unknown_words_are_not_taken_for_masks(predictor):
    (line,) = predictor.predict(["one zebra [MASK] four"])
    numbers = {"one", "two", "three", "four", "five", "six"}
    assert [word in numbers for word in line.split()] == [True, False, True, True]


def test_what_is_not_a_mask_stays_as_it_was_written(predictor):
    with_masks = "  one \t zebra [MASK]  four [MASK] six  "
    found = predictor.predict([with_masks, "  one  two "])

    assert found == ["  one \t zebra three  four five six  ", "  one  two "]


def test_each_token_of_a_long_text_is_measured_once(predictor):
    task, model = predictor.opened.any_task, predictor.opened.model
    (tokens,) = task.encode([" ".join(COUNTING) + " one two three four five six"])
    tokens = tokens * 4
    log_p = task.log_probabilities(model, tokens)

    assert len(log_p) == len(tokens) == 72 > task.max_tokens
    assert not log_p.isnan().any()
    assert log_p.mean().item() > -math.log(6)


def test_metrics_of_outputs_are_refused(predictor):
    with pytest.raises(UsageError, match="no measure of a masked language model"):
        predictor.opened.any_task.measure("bleu", ["a"], ["a"])


def test_a_validation_shows_every_seventh_token_filled_in(predictor):
    """The others stay; and no text takes a pass for each of its tokens."""
    task, model = predictor.opened.any_task, predictor.opened.model
    text = " ".join(["one", "two", "three"] * 7)

    (found,) = task.predict(model, [text])

    same = [a == b for a, b in zip(found.split(), text.split(), strict=True)]
    assert all(each for n, each in enumerate(same) if n % EVERY != EVERY // 2)
    assert task.predict(model, [""]) == [""]


def test_a_mark_after_a_mask_is_tokenized_as_after_a_word(tmp_path):
    """SentencePiece would begin a word before it, which no training text has."""
    train = tmp_path / "train.txt"
    train.write_text("One hat. This hat is. The scarf, the hat.\n" * 40)
    table = {
        "data": {"corpora": [{"source": str(train), "format": "text"}]},
        "text": {"tokenizer": "unigram", "vocab_size": 40},
        "task": "masked_language_model",
    }
    recipe = resolve(preset="micro", extra=table)
    tokenizers = prepare_corpus(tmp_path / "run", recipe).tokenizers
    task = MaskedLanguageModelSpec().open(tokenizers, MaskingSettings())

    for end in (".", ", the hat.", " is."):
        tokens, is_mask = task.encode_with_masks(f"This [MASK]{end}")
        after = tokens[is_mask.index(True) + 1 :]
        whole = task.encode([f"This hat{end}"])[0]
        assert after == whole[len(whole) - len(after) :]
        assert len(after) == len(whole) - len(task.encode(["This hat"])[0])
