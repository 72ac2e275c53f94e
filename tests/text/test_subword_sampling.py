"""Sampled segmentations: BPE-dropout and those of the unigram model."""

import gzip
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from headwise.text import subword_sampling as module
from headwise.text.sentencepiece_tokenizer import train_bpe, train_unigram
from headwise.text.settings import TextSettings
from headwise.text.subword_sampling import PieceTable, subword_sampler
from headwise.text.vocabulary import END, UNKNOWN

LINES = [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "L'animal n'a pas traversé la rue parce qu'elle était trop large.",
] * 3
LETTERS = sorted({letter for line in LINES for letter in line})
TRAIN = {"bpe": train_bpe, "unigram": train_unigram}


class Trained:
    """A tokenizer, and samplers of it at any rate."""

    def __init__(self, kind, lines=LINES, vocab_size=90, **options):
        self.kind = kind
        self.settings = TextSettings(tokenizer=kind, vocab_size=vocab_size, **options)
        self.tokenizer = TRAIN[kind](
            lines, vocab_size=vocab_size, settings=self.settings
        )
        self._samplers = {}

    def sampler(self, rate):
        if rate not in self._samplers:
            self._samplers[rate] = subword_sampler(
                self.kind, self.tokenizer, rate, self.settings
            )
        return self._samplers[rate]

    def sample(self, text, rate, seed):
        ids = self.tokenizer.encode(text)
        return self.sampler(rate).sample(ids, random.Random(seed).random)

    def pieces(self, text, rate, seed):
        return tuple(self.tokenizer.pieces(self.sample(text, rate, seed)))


BPE, UNIGRAM = Trained("bpe"), Trained("unigram")
LOSSLESS = Trained("bpe", normalization="lossless")
BYTES = Trained("bpe", vocab_size=400, byte_fallback=True)

each_kind = pytest.mark.parametrize(
    ("trained", "rate"),
    [(BPE, 0.1), (BPE, 0.5), (UNIGRAM, 0.2), (LOSSLESS, 0.3), (BYTES, 0.3)],
)
texts = st.text(st.sampled_from(LETTERS), min_size=1, max_size=60)
seeds = st.integers(0, 2**64 - 1)


@each_kind
@given(texts, seeds)
def test_every_segmentation_is_one_of_the_same_text(trained, rate, text, seed):
    ids, sampled = trained.tokenizer.encode(text), trained.sample(text, rate, seed)

    assert trained.tokenizer.decode(sampled) == trained.tokenizer.decode(ids)
    assert UNKNOWN not in sampled


@given(texts, seeds)
def test_bpe_that_leaves_nothing_out_is_the_segmentation_of_sentencepiece(text, seed):
    assert BPE.sample(text, 0.0, seed) == BPE.tokenizer.encode(text)
    assert BPE.sample(text, 1e-12, seed) == BPE.tokenizer.encode(text)


@given(texts, seeds)
def test_bpe_that_leaves_every_merge_out_is_characters(text, seed):
    assert {*map(len, BPE.pieces(text, 1.0, seed))} <= {1}


@pytest.mark.parametrize("kind", TRAIN)
def test_symbols_unknown_characters_bytes_and_end_stay_as_they_are(kind):
    trained = Trained(kind, symbols=(">>fr<<",))
    ids = [*trained.tokenizer.encode(">>fr<< the 猫 rue"), END]
    rate = {"bpe": 1.0, "unigram": 0.0}[kind]

    sampled = trained.sampler(rate).sample(ids, random.Random(1).random)

    fixed = [each for each in ids if each in (UNKNOWN, END, ids[1])]
    assert ids[1] in trained.tokenizer.encode(">>fr<<")
    assert [each for each in sampled if each in fixed] == fixed
    ids = BYTES.tokenizer.encode("猫")
    assert BYTES.sampler(1.0).sample(ids, random.Random(1).random)[-3:] == ids[-3:]


@pytest.mark.parametrize("kind", TRAIN)
def test_a_placeholder_stays_whole(kind):
    """The unigram model split it into its characters, where it has them all."""
    lines = [*LINES, "5 < 6 > 4", "c o p y"]
    trained = Trained(kind, lines, vocab_size=100, placeholders=True)
    rate = {"bpe": 1.0, "unigram": 0.01}[kind]

    drawn = [trained.pieces("the <copy> street", rate, seed) for seed in range(20)]

    assert all("<copy>" in pieces for pieces in drawn)


def test_a_cold_unigram_model_gives_the_most_probable_segmentation():
    """With α large, all probability is on it."""
    for line in LINES[:4]:
        assert UNIGRAM.sample(line, 1000.0, 7) == UNIGRAM.tokenizer.encode(line)


@each_kind
def test_the_random_numbers_decide_whatever_was_drawn_before(trained, rate):
    first = [trained.sample(LINES[2], rate, seed) for seed in range(200)]

    trained._samplers.clear()
    again = [trained.sample(LINES[2], rate, seed) for seed in reversed(range(200))]
    assert again[::-1] == first
    assert len({tuple(each) for each in first}) > 20


@each_kind
def test_words_beyond_those_that_are_kept_are_sampled_alike(monkeypatch, trained, rate):
    first = [trained.sample(line, rate, 3) for line in LINES]

    monkeypatch.setattr(module, "MAX_PLACES", 5)
    trained._samplers.clear()
    assert [trained.sample(line, rate, 3) for line in LINES] == first
    assert len(trained.sampler(rate)._words) < 5
    trained._samplers.clear()


def test_merges_are_left_out_as_often_as_the_rate_says():
    """There are two merges, a b and then ▁ ab, each left out with probability 1/4.

    SentencePiece's own sampling is the same where no other merge is possible.
    """
    trained = Trained("bpe", ["ab"] * 50, vocab_size=9)
    assert trained.tokenizer.pieces(range(4, 9)) == ["ab", "▁ab", "a", "b", "▁"]
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(trained.tokenizer.model)
    options = {"enable_sampling": True, "alpha": 0.25, "nbest_size": -1}

    draws = 20_000
    ours = Counter(" ".join(trained.pieces("ab", 0.25, seed)) for seed in range(draws))
    theirs = Counter(
        " ".join(processor.encode("ab", out_type=str, **options)) for _ in range(draws)
    )
    by_hand = {"▁ab": 0.75**2, "▁ ab": 0.75 * 0.25, "▁ a b": 0.25}
    for drawn in (ours, theirs):
        assert drawn.keys() == by_hand.keys()
        for pieces, probability in by_hand.items():
            assert drawn[pieces] / draws == pytest.approx(probability, abs=0.015)


def algorithm_1(tokenizer, text, rate, chance):
    """BPE-dropout line by line as in the paper, over one word."""
    everything = tokenizer.pieces(range(tokenizer.size))
    order = {
        piece: -score
        for piece, score in zip(everything, tokenizer.scores, strict=True)
        if len(piece) > 1
    }
    split = [*text]
    while True:
        merges = [
            (order[left + right], at)
            for at, (left, right) in enumerate(pairwise(split))
            if left + right in order
        ]
        merges = [merge for merge in merges if chance.random() >= rate]
        if not merges:
            return tuple(split)
        _, at = min(merges)
        split[at : at + 2] = [split[at] + split[at + 1]]


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_bpe_dropout_is_that_of_the_paper(rate):
    """Its segmentations come as often as those of Algorithm 1, taken literally."""
    draws, chance = 10_000, random.Random(5)
    for word in ("street", "traversé"):
        ours = Counter(BPE.pieces(word, rate, seed) for seed in range(draws))
        theirs = Counter(
            algorithm_1(BPE.tokenizer, f"▁{word}", rate, chance) for _ in range(draws)
        )
        assert len(theirs) > 5
        for pieces in ours.keys() | theirs.keys():
            mean = (ours[pieces] + theirs[pieces]) / 2
            assert abs(ours[pieces] - theirs[pieces]) < 5 * (2 * mean) ** 0.5 + 3


def test_words_are_sampled_independently_of_one_another():
    """Of both words of a text, each is whole as often as alone, and both together."""
    draws = 10_000
    alone = Counter(BPE.pieces("the", 0.2, seed) for seed in range(draws))
    whole = BPE.pieces("the", 0.0, 0)
    share = alone[whole] / draws
    both = Counter(
        (found[: len(whole)] == whole, found[-len(whole) :] == whole)
        for found in (BPE.pieces("the the", 0.2, seed) for seed in range(draws))
    )
    assert both[True, True] / draws == pytest.approx(share**2, abs=0.02)
    assert both[True, False] / draws == pytest.approx(share * (1 - share), abs=0.02)
    assert both[False, True] / draws == pytest.approx(share * (1 - share), abs=0.02)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_unigram_segmentations_come_as_often_as_their_probability_says(alpha):
    """All segmentations of a word, each with P(x)^α, by the scores of its pieces."""
    tokenizer = UNIGRAM.tokenizer
    everything = tokenizer.pieces(range(tokenizer.size))
    scores = dict(zip(everything[4:], tokenizer.scores[4:], strict=True))

    def segmentations(text):
        if not text:
            yield ()
        for stop in range(1, len(text) + 1):
            if text[:stop] in scores:
                yield from ((text[:stop], *rest) for rest in segmentations(text[stop:]))

    every = list(segmentations("▁tired"))
    weights = np.exp([alpha * sum(scores[piece] for piece in each) for each in every])
    expected = weights / weights.sum()

    draws = 20_000
    drawn = Counter(UNIGRAM.pieces("tired", alpha, seed) for seed in range(draws))
    found = np.array([drawn[each] for each in every]) / draws
    assert len(every) > 5
    assert found.sum() == pytest.approx(1)
    deviations = np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(found - expected) <= 5 * deviations + 1e-3).all()


def test_unigram_segmentations_are_drawn_as_sentencepiece_draws_them():
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(UNIGRAM.tokenizer.model)
    draws, options = 10_000, {"enable_sampling": True, "alpha": 0.3, "nbest_size": -1}
    text = "tired traversé"
    theirs = Counter(
        tuple(processor.encode(text, out_type=str, **options)) for _ in range(draws)
    )
    ours = Counter(UNIGRAM.pieces(text, 0.3, seed) for seed in range(draws))

    assert len(theirs) > 10
    for pieces in ours.keys() | theirs.keys():
        mean = (ours[pieces] + theirs[pieces]) / 2
        assert abs(ours[pieces] - theirs[pieces]) < 5 * (2 * mean) ** 0.5 + 3


def test_a_model_that_merges_by_other_rules_is_not_split():
    """Its tokens are not those of its pieces' scores: that word stays as it is."""
    ids = BPE.tokenizer.encode("the")
    split = [*PieceTable(BPE.tokenizer).characters(tuple(ids))]
    assert len(split) > len(ids)

    assert BPE.sampler(0.9).sample(split, random.Random(1).random) == split


@pytest.mark.parametrize("kind", TRAIN)
@pytest.mark.parametrize("side", ["en", "de", "fr", "cs"])
def test_real_captions_come_back_from_their_tokens_and_from_drawn_ones(
    corpora, side, kind
):
    """The text of tokens is encoded as these tokens again, in the training data too."""
    text = gzip.decompress((corpora / "multi30k" / f"val.{side}.gz").read_bytes())
    lines = text.decode().split("\n")[:-1]
    trained = Trained(kind, lines, vocab_size=1500)
    rate, almost_none = {"bpe": (0.1, 1e-12), "unigram": (0.2, 1e6)}[kind]
    for number, line in enumerate(lines):
        plain = trained.tokenizer.encode(line)
        text = trained.tokenizer.decode(plain)
        assert trained.tokenizer.encode(text) == plain
        assert trained.sample(text, almost_none, number) == plain
        assert trained.tokenizer.decode(trained.sample(text, rate, number)) == text
