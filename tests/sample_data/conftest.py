"""What the tests of generated data share."""

from collections import Counter

PARTS = ("train", "dev", "test")


def everything(splits):
    """Return the examples of all parts."""
    return [each for part in PARTS for each in getattr(splits, part)]


def words(text):
    """Return the words of a text in lower case, without punctuation."""
    marks = str.maketrans(dict.fromkeys(".,!?;:", " "))
    return text.lower().translate(marks).split()


def shares(labels):
    """Return each label's share."""
    counts = Counter(labels)
    return {label: count / counts.total() for label, count in counts.items()}
