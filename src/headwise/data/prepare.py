"""Raw text to a prepared corpus, in passes that hold one pair at a time.

The first pass checks every line and chooses what is held out; the second draws a
sample for the tokenizers, which never see held-out text; the third writes tokens. So a
fault in the last line of a large corpus is found before any work is done, and memory
does not grow with the corpus.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.data.corpus_reader import check_file, read_pairs
from headwise.data.corpus_writer import CorpusWriter
from headwise.data.identical_sides import IdenticalSides
from headwise.data.prepared import (
    FACTS,
    FORMAT,
    CorpusFacts,
    PreparedCorpus,
    PreparedFacts,
)
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.validation_split import (
    HeldOutSources,
    SmallestKeys,
    choose_held_out,
    key,
    keys_needed,
)
from headwise.errors import DataError, SettingsError, UsageError
from headwise.settings import as_table
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers
from headwise.wording import count_of

Say = Callable[[str], None]


def prepare(
    data: DataSettings,
    text: TextSettings,
    folder: Path,
    *,
    seed: int,
    say: Say = lambda _: None,
) -> PreparedCorpus:
    """Turn the raw text that ``data`` names into a prepared corpus at ``folder``.

    A folder that was made of the same text with the same settings is returned as it
    is. ``say`` is given one sentence for each thing a user may want to know.
    """
    _check(data, folder)
    name = fingerprint(data, text, seed=seed)
    done = _done_before(folder, name)
    if done is not None:
        say(f"{folder} is up to date: same text, same settings")
        return done
    with storage.new_folder(folder, describe={"kind": "prepared corpus"}) as draft:
        facts = _write(data, text, draft, seed=seed, name=name, say=say)
        settings = {"data": as_table(data), "text": as_table(text)}
        storage.write_json(
            draft / FACTS,
            {"format": FORMAT, "facts": as_table(facts), "settings": settings},
        )
    for each in _all_corpora(facts):
        say(_summary(each, data.max_tokens))
    return PreparedCorpus.open(folder)


def fingerprint(data: DataSettings, text: TextSettings, *, seed: int) -> str:
    """Return a name for what ``prepare`` would make: the same text, the same name.

    It depends on what the files hold and not on where they lie.
    """
    table = as_table(data)
    table["corpora"] = [_identity(each) for each in data.corpora]
    table["dev"] = _identity(data.dev) if data.dev else None
    whole = {"format": FORMAT, "seed": seed, "data": table, "text": as_table(text)}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _identity(corpus: CorpusSettings) -> dict[str, Any]:
    """Return the settings of ``corpus`` with contents in place of paths."""
    hashes = [_content_hash(Path(name)) for name in corpus.files]
    places = {"source": hashes[0], "target": hashes[1:], "format": corpus.layout}
    return {**as_table(corpus), **places}


def _content_hash(path: Path) -> str:
    check_file(path)
    try:
        return storage.sha256(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def _write(
    data: DataSettings,
    text: TextSettings,
    draft: Path,
    *,
    seed: int,
    name: str,
    say: Say,
) -> PreparedFacts:
    """Do all three passes, and say in numbers what came of them."""
    survey = _survey(data, seed=seed, say=say)
    held_out = survey.hold_out(data, seed=seed)
    tokenizers = train_tokenizers(
        lambda: _training_text(data, held_out), text, seed=seed
    )
    for note in tokenizers.notes:
        say(note)
    tokenizers.save(draft / "tokenizer")
    with CorpusWriter(draft, tokenizers, max_tokens=data.max_tokens) as writer:
        corpora = [writer.write(each, held_out) for each in data.corpora]
        dev_corpus = writer.write_dev(data.dev) if data.dev else None
    facts = PreparedFacts(
        fingerprint=name,
        seed=seed,
        max_tokens=data.max_tokens,
        source_vocabulary=tokenizers.source.size,
        target_vocabulary=tokenizers.target.size,
        joint=tokenizers.joint,
        train=writer.train.facts,
        dev=writer.dev.facts,
        corpora=tuple(corpora),
        dev_corpus=dev_corpus,
    )
    survey.check(facts)
    _check_what_is_left(facts)
    return facts


def _check(data: DataSettings, folder: Path) -> None:
    if not data.corpora:
        raise SettingsError(
            ["data.corpora is empty; name at least one corpus to learn from"]
        )
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_new and not (folder / FACTS).is_file():
        raise UsageError(
            f"{folder} exists and is not a prepared corpus, so it is not replaced; "
            "choose another name, or delete it yourself"
        )


def _done_before(folder: Path, name: str) -> PreparedCorpus | None:
    """Open ``folder`` if it is whole and made of the same; else it will be replaced."""
    try:
        corpus = PreparedCorpus.open(folder, thorough=True)
    except DataError:
        return None
    return corpus if corpus.facts.fingerprint == name else None


@dataclass(frozen=True, slots=True)
class _Survey:
    """What the first pass found."""

    num_read: tuple[int, ...]
    """Lines of each corpus, the dev corpus last."""

    num_pairs: int
    """Pairs of the corpora with text on both sides."""

    keys: SmallestKeys
    """Of the source texts of these pairs."""

    def choose_held_out(self, data: DataSettings, *, seed: int) -> HeldOutSources:
        """Choose what is held out of the corpora: nothing if a dev corpus is given."""
        if not self.num_pairs:
            raise DataError(
                "nothing can be learned: of "
                f"{count_of(sum(self.num_read), 'pair')} read, each has a side without "
                "text; check the files, columns or keys"
            )
        if data.dev is not None:
            return HeldOutSources(seed)
        return choose_held_out(
            self.keys, seed=seed, num_pairs=self.num_pairs, wanted=data.dev_pairs
        )

    def check(self, facts: PreparedFacts) -> None:
        """Refuse files that were changed between the passes."""
        for corpus, num_read in zip(_all_corpora(facts), self.num_read, strict=True):
            if corpus.read != num_read:
                raise DataError(
                    f"{corpus.source} was changed while it was read: first it had "
                    f"{count_of(num_read, 'line')}, then {corpus.read:,}; prepare it "
                    "again when nothing writes to it"
                )


def _survey(data: DataSettings, *, seed: int, say: Say) -> _Survey:
    """Read every line once, and say what was changed in reading."""
    in_dev = SmallestKeys(keys_needed(None))
    dev_read = [_count(data.dev, in_dev, seed=seed, say=say).read] if data.dev else []
    keys = SmallestKeys(keys_needed(data.dev_pairs))
    counts = [
        _count(each, keys, seed=seed, say=say, also_in=in_dev) for each in data.corpora
    ]
    num_known = sum(each.known for each in counts)
    if num_known:
        say(
            f"pairs to learn from whose source is also in the dev corpus: {num_known:,}"
            "; they were left in, and make scores on it look better"
        )
    return _Survey(
        num_read=tuple([each.read for each in counts] + dev_read),
        num_pairs=sum(each.pairs for each in counts),
        keys=keys,
    )


@dataclass(slots=True)
class _Counts:
    read: int = 0
    pairs: int = 0
    known: int = 0


def _count(
    corpus: CorpusSettings,
    keys: SmallestKeys,
    *,
    seed: int,
    say: Say,
    also_in: Container[int] = (),
) -> _Counts:
    counts = _Counts()
    same = IdenticalSides()
    for pair in read_pairs(corpus, note=say):
        counts.read += 1
        same.add(pair.source, pair.target)
        if not pair.is_empty:
            counts.pairs += 1
            source_key = key(seed, pair.source)
            counts.known += source_key in also_in
            keys.add(source_key)
    for each in same.notes(*corpus.files):
        say(each)
    return counts


def _training_text(
    data: DataSettings, held_out: HeldOutSources
) -> Iterator[tuple[str, str]]:
    """Yield all that may be learned from."""
    for corpus in data.corpora:
        for pair in read_pairs(corpus):
            if not pair.is_empty and pair.source not in held_out:
                yield pair.source, pair.target


def _check_what_is_left(facts: PreparedFacts) -> None:
    for corpus in _all_corpora(facts):
        if corpus.train + corpus.dev == 0:
            raise DataError(f"nothing is left: {_summary(corpus, facts.max_tokens)}")
    for name, split in (("learn from", facts.train), ("validate on", facts.dev)):
        if not split.pairs:
            raise DataError(
                f"no pair is left to {name}:\n"
                + "\n".join(_summary(e, facts.max_tokens) for e in _all_corpora(facts))
            )


def _all_corpora(facts: PreparedFacts) -> Sequence[CorpusFacts]:
    return [*facts.corpora, *([facts.dev_corpus] if facts.dev_corpus else [])]


def _summary(corpus: CorpusFacts, max_tokens: int) -> str:
    """Say in one line what became of a corpus."""
    outcomes = {
        "to learn from": corpus.train,
        "held out": corpus.dev,
        "left out with a side without text": corpus.empty,
        f"left out with over max_tokens={max_tokens:,} tokens": corpus.too_long,
        "left out with the source of a held-out pair": corpus.held_out,
    }
    counts = ", ".join(
        f"{count:,} {outcome}" for outcome, count in outcomes.items() if count
    )
    name = (
        corpus.source
        if corpus.target is None
        else (f"{corpus.source} and {corpus.target}")
    )
    return f"{name}: {count_of(corpus.read, 'pair')} read: {counts}"
