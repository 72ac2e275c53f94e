"""Sampled segmentations: BPE-dropout and those of the unigram model."""

import gzip
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from headwise.text.sentencepiece_tokenizer import (
    MAX_SAMPLING_SEED,
    train_bpe,
    train_unigram,
)
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import UNKNOWN

LINES = [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "L'animal n'a pas traversé la rue parce qu'elle était trop large.",
] * 3
LETTERS = sorted({letter for line in LINES for letter in line})


def trained(train, lines=LINES, vocab_size=90, **options):
    settings = TextSettings(vocab_size=vocab_size, **options)
    return train(lines, vocab_size=vocab_size, settings=settings)


BPE, UNIGRAM = trained(train_bpe), trained(train_unigram)
LOSSLESS = trained(train_bpe, normalization="lossless")

each_kind = pytest.mark.parametrize(
    ("tokenizer", "rate"), [(BPE, 0.3), (UNIGRAM, 0.2), (LOSSLESS, 0.3)]
)
texts = st.text(st.sampled_from(LETTERS), min_size=1, max_size=60)
seeds = st.integers(0, MAX_SAMPLING_SEED)


@each_kind
@given(texts, seeds)
def test_every_segmentation_is_one_of_the_same_text(tokenizer, rate, text, seed):
    plain, sampled = tokenizer.encode(text), tokenizer.sample(text, rate, seed)

    assert tokenizer.decode(sampled) == tokenizer.decode(plain)
    assert UNKNOWN not in sampled


@given(texts, seeds)
def test_bpe_that_drops_nothing_is_the_segmentation_without_sampling(text, seed):
    assert BPE.sample(text, 0.0, seed) == BPE.encode(text)


@given(texts, seeds)
def test_bpe_that_drops_every_merge_is_characters(text, seed):
    pieces = BPE.pieces(BPE.sample(text, 1.0, seed))

    assert {*map(len, pieces)} <= {1}


def test_symbols_of_the_user_are_not_split_even_then():
    tokenizer = trained(train_bpe, symbols=(">>fr<<",))
    pieces = tokenizer.pieces(tokenizer.sample(">>fr<< the rue", 1.0, 1))

    assert ">>fr<<" in pieces


def test_a_cold_unigram_model_gives_the_most_probable_segmentation():
    """With α large, all probability is on it."""
    for line in LINES[:4]:
        assert UNIGRAM.sample(line, 1000.0, 7) == UNIGRAM.encode(line)


@each_kind
def test_the_seed_decides_whatever_was_drawn_before_and_in_whatever_thread(
    tokenizer, rate
):
    def draw(seeds):
        return [tokenizer.sample(LINES[2], rate, seed) for seed in seeds]

    first = draw(range(200))

    assert draw(reversed(range(200)))[::-1] == first
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(draw, range(200)) for _ in range(8)]
        assert all(job.result() == first for job in jobs)
    assert len({tuple(each) for each in first}) > 20
    tokenizer.sample(LINES[0], rate, MAX_SAMPLING_SEED)


def test_merges_are_dropped_as_often_as_the_rate_says():
    """There are two merges, a b and then ▁ ab, each dropped with probability 1/4."""
    tokenizer = trained(train_bpe, ["ab"] * 50, vocab_size=9)
    assert tokenizer.pieces(range(4, 9)) == ["ab", "▁ab", "a", "b", "▁"]

    draws = 20_000
    drawn = Counter(
        " ".join(tokenizer.pieces(tokenizer.sample("ab", 0.25, seed)))
        for seed in range(draws)
    )
    by_hand = {"▁ab": 0.75**2, "▁ ab": 0.75 * 0.25, "▁ a b": 0.25}
    assert drawn.keys() == by_hand.keys()
    for pieces, probability in by_hand.items():
        assert drawn[pieces] / draws == pytest.approx(probability, abs=0.015)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_unigram_segmentations_come_as_often_as_their_probability_says(alpha):
    """All segmentations of a word, each with P(x)^α, by the scores of its pieces."""
    word = "tired"
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(UNIGRAM.model)
    scores = {
        processor.id_to_piece(i): processor.get_score(i)
        for i in range(4, processor.get_piece_size())
    }

    def segmentations(text):
        if not text:
            yield ()
        for stop in range(1, len(text) + 1):
            if text[:stop] in scores:
                yield from ((text[:stop], *rest) for rest in segmentations(text[stop:]))

    every = list(segmentations(f"▁{word}"))
    weights = np.exp([alpha * sum(scores[piece] for piece in each) for each in every])
    expected = weights / weights.sum()

    draws = 20_000
    drawn = Counter(
        tuple(UNIGRAM.pieces(UNIGRAM.sample(word, alpha, seed)))
        for seed in range(draws)
    )
    found = np.array([drawn[each] for each in every]) / draws
    assert len(every) > 2
    assert found.sum() == pytest.approx(1)
    deviations = np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(found - expected) <= 5 * deviations + 1e-3).all()


@pytest.mark.parametrize(("tokenizer", "rate"), [(BPE, 0.2), (UNIGRAM, 0.2)])
def test_a_seed_for_each_text_draws_as_sentencepiece_draws_by_itself(tokenizer, rate):
    """One after another from one seed: the same distribution of lengths."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(tokenizer.model)
    draws = 5000
    options = {"enable_sampling": True, "alpha": rate, "nbest_size": -1}
    by_itself = [len(processor.encode(LINES[0], **options)) for _ in range(draws)]
    ours = [len(tokenizer.sample(LINES[0], rate, seed)) for seed in range(draws)]

    means, spreads = (f([by_itself, ours], axis=1) for f in (np.mean, np.std))
    assert abs(means[0] - means[1]) < 5 * max(spreads) * (2 / draws) ** 0.5
    assert spreads[0] == pytest.approx(spreads[1], rel=0.08)


@pytest.mark.parametrize("side", ["en", "de", "fr", "cs"])
def test_real_captions_come_back_from_their_tokens_and_from_drawn_ones(corpora, side):
    """The text of tokens is encoded as these tokens again, in the training data too."""
    text = gzip.decompress((corpora / "multi30k" / f"val.{side}.gz").read_bytes())
    lines = text.decode().split("\n")[:-1]
    for train, rate in ((train_bpe, 0.1), (train_unigram, 0.2)):
        tokenizer = trained(train, lines, vocab_size=1500)
        for number, line in enumerate(lines):
            plain = tokenizer.encode(line)
            text = tokenizer.decode(plain)
            assert tokenizer.encode(text) == plain
            assert tokenizer.decode(tokenizer.sample(text, rate, number)) == text
