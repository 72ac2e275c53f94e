"""Taggers to compare with: each word's most frequent tag, and a linear classifier."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier

Tagged = Sequence[tuple[str, str]]
"""Texts of words, and as many tags, with spaces between them."""

EPOCHS = 15


def baselines(train: Tagged, held_out: Tagged) -> dict[str, float]:
    """Return the tag accuracy of both on ``held_out``, in percent."""
    return {
        "most_frequent_tag": most_frequent_tag(train, held_out),
        "linear_classifier": linear_classifier(train, held_out),
    }


def most_frequent_tag(train: Tagged, held_out: Tagged) -> float:
    """Return the accuracy of the tag that a word has most often.

    A word that was not seen has the most frequent tag of all.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for word, tag in words_with_tags(train):
        counts[word][tag] += 1
        every[tag] += 1
    ((of_unknown, _),) = every.most_common(1)
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    pairs = list(words_with_tags(held_out))
    right = sum(best.get(word, of_unknown) == tag for word, tag in pairs)
    return 100 * right / len(pairs)


def linear_classifier(train: Tagged, held_out: Tagged) -> float:
    """Return the accuracy of a linear SVM (hinge loss) of words, affixes, neighbours.

    Fifteen epochs of stochastic gradient descent.
    """
    hashed = FeatureHasher(n_features=2**20, input_type="string")
    model = SGDClassifier(alpha=1e-5, max_iter=EPOCHS, tol=None, random_state=1)
    model.fit(hashed.transform(features(train)), tags(train))
    found = model.score(hashed.transform(features(held_out)), tags(held_out))
    return 100 * float(found)


def words_with_tags(texts: Tagged) -> Iterator[tuple[str, str]]:
    """Yield each word and its tag."""
    for words, found in texts:
        yield from zip(words.split(), found.split(), strict=True)


def tags(texts: Tagged) -> list[str]:
    """Return the tags of all words."""
    return [tag for _, tag in words_with_tags(texts)]


def features(texts: Tagged) -> Iterator[list[str]]:
    """Yield the features of each word: it, its affixes, and those of its neighbours."""
    for text, _ in texts:
        words = ["", "", *text.split(), "", ""]
        for place in range(2, len(words) - 2):
            yield [
                f"{offset}:{part}"
                for offset in range(-2, 3)
                for part in parts(words[place + offset], abs(offset))
            ]


def parts(word: str, distance: int) -> Iterator[str]:
    """Yield a word and, where it is near, its affixes and what it is made of."""
    yield word
    if distance < 2:
        yield from (f"-{word[-length:]}" for length in range(1, 5))
        yield f"digit {any(map(str.isdigit, word))}"
        yield f"capital {word[:1].isupper()}"
        yield f"hyphen {'-' in word}"
    if distance == 0:
        yield from (f"{word[:length]}-" for length in range(1, 4))
