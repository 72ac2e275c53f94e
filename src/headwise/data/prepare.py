"""Prepare a corpus from raw text, in three streaming passes.

The first pass checks every line and chooses the validation set; the second draws a
sample to train the tokenizers, without validation text; the third writes tokens. With
placeholders one more, before the last, counts words. So an error in the last line is
found before any work is done, and memory does not grow with the corpus.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.data.corpus_reader import check_file, read_pairs
from headwise.data.corpus_writer import CorpusWriter
from headwise.data.pair_formats import DOCUMENTS, TRANSLATION, PairFormat
from headwise.data.prepare_documents import write_documents
from headwise.data.prepared import (
    FACTS,
    FORMAT,
    CorpusFacts,
    PreparedCorpus,
    PreparedFacts,
)
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.survey import take_survey
from headwise.data.validation_split import HeldOutSources
from headwise.errors import DataError, SettingsError, UsageError
from headwise.settings import as_table
from headwise.text.known_words import learn_known_words
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import GivenTokenizers, TokenizerPair, train_tokenizers
from headwise.wording import count_of

Say = Callable[[str], None]

BOTH_DIRECTIONS = (
    "data.both_directions is for translation with one vocabulary of both languages: "
    "set text.joint = true, or leave it out"
)


def prepare(
    data: DataSettings,
    text: TextSettings,
    folder: Path,
    *,
    seed: int,
    pair_format: PairFormat = TRANSLATION,
    tokenizers: GivenTokenizers | None = None,
    patch_size: int | None = None,
    languages: Sequence[str] = (),
    name: str | None = None,
    say: Say = lambda _: None,
) -> PreparedCorpus:
    """Prepare the raw text of ``data`` as a corpus in ``folder``, and open it.

    ``pair_format`` is that of the task (:data:`headwise.data.pair_formats`).
    Those of ``tokenizers`` are used, the others trained. Pictures are cut into patches
    of ``patch_size`` pixels at each side. ``languages`` are noted, for the card of a
    model that is trained on it. ``name`` is the fingerprint of all of these, if it is
    known: to compute it is to read the text.
    A folder that was prepared from the same text with the same settings is reused.
    ``say`` is called with messages for the user.
    """
    _check(data, folder)
    if data.both_directions and not (pair_format is TRANSLATION and text.joint):
        raise SettingsError([BOTH_DIRECTIONS])
    given = tokenizers or GivenTokenizers()
    if name is None:
        name = fingerprint(
            data,
            text,
            seed=seed,
            pair_format=pair_format,
            tokenizers=given,
            patch_size=patch_size,
            languages=languages,
        )
    done = _up_to_date(folder, name)
    if done is not None:
        say(f"{folder} is up to date: same text, same settings")
        return done
    with storage.new_folder(folder, describe={"kind": "prepared corpus"}) as draft:
        if pair_format is DOCUMENTS:
            facts = write_documents(
                data, text, draft, given, seed=seed, name=name, say=say
            )
        elif pair_format.reads_pictures:
            from headwise.data.prepare_pictures import write_pictures  # it needs Pillow

            assert patch_size is not None
            facts = write_pictures(
                data,
                text,
                draft,
                patch_size,
                pair_format,
                seed=seed,
                name=name,
                say=say,
            )
        else:
            facts = _write(
                data, text, draft, pair_format, given, seed=seed, name=name, say=say
            )
            for each in facts.all_corpora:
                say(_summary(each, data.max_tokens))
        settings: dict[str, Any] = {"data": as_table(data), "text": as_table(text)}
        if patch_size is not None:
            settings["patch_size"] = patch_size
        if languages:
            settings["languages"] = [*languages]
        storage.write_json(
            draft / FACTS,
            {
                "format": FORMAT,
                "facts": as_table(facts),
                "settings": settings,
                "given_tokenizers": [*given.digests()],
            },
        )
    return PreparedCorpus.open(folder)


def fingerprint(
    data: DataSettings,
    text: TextSettings,
    *,
    seed: int,
    pair_format: PairFormat = TRANSLATION,
    tokenizers: GivenTokenizers | None = None,
    patch_size: int | None = None,
    languages: Sequence[str] = (),
) -> str:
    """Return a hash of settings, seed and the contents (not the paths) of the text.

    ``tokenizers`` are those that are given, if there are any; ``patch_size`` is that of
    pictures; ``languages`` are those that the corpus is to note.
    """
    table = as_table(data)
    identity = _picture_identity if pair_format.reads_pictures else _identity
    table["corpora"] = [identity(each) for each in data.corpora]
    table["dev"] = identity(data.dev) if data.dev else None
    if not data.both_directions:  # fingerprints are older than both directions
        del table["both_directions"]
    of_text = as_table(text)
    if not text.placeholders:  # fingerprints are older than placeholders
        del of_text["placeholders"]
    content = {"format": FORMAT, "seed": seed, "data": table, "text": of_text}
    if pair_format is not TRANSLATION:  # whose fingerprints are older than formats
        content["pair_format"] = pair_format.name
    if patch_size is not None:
        content["patch_size"] = patch_size
    if languages:
        content["languages"] = [*languages]
    if tokenizers is not None and (digests := tokenizers.digests()):
        content["tokenizers"] = digests
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _identity(corpus: CorpusSettings) -> dict[str, Any]:
    """Return the settings of ``corpus`` with contents in place of paths."""
    hashes = [_content_hash(Path(name)) for name in corpus.files]
    contents = {"source": hashes[0], "target": hashes[1:], "format": corpus.layout}
    return {**as_table(corpus), **contents}


def _picture_identity(corpus: CorpusSettings) -> dict[str, Any]:
    """Return the settings of ``corpus`` with a hash of pictures in place of a path."""
    from headwise.data.prepare_pictures import hash_of_pictures  # it needs Pillow

    return {**as_table(corpus), "source": hash_of_pictures(Path(corpus.source))}


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
    pair_format: PairFormat,
    given: GivenTokenizers,
    *,
    seed: int,
    name: str,
    say: Say,
) -> PreparedFacts:
    """Do all three passes; return the counts."""
    survey = take_survey(data, seed=seed, say=say)
    held_out = survey.choose_held_out(data, pair_format.dev_share, seed=seed)
    tokenizers = train_tokenizers(
        lambda: _training_text(data, held_out), text, seed=seed, given=given
    )
    for note in tokenizers.notes:
        say(note)
    if text.placeholders:
        tokenizers = _with_known_words(
            tokenizers, given, _training_text(data, held_out), both=data.both_directions
        )
    tokenizers.save(draft / "tokenizer")
    with CorpusWriter(
        draft,
        tokenizers,
        max_tokens=data.max_tokens,
        pair_format=pair_format,
        placeholders=text.placeholders,
        seed=seed,
        both_directions=data.both_directions,
    ) as writer:
        corpora = [writer.write(each, held_out) for each in data.corpora]
        dev_corpus = writer.write_dev(data.dev) if data.dev else None
    facts = PreparedFacts(
        fingerprint=name,
        seed=seed,
        max_tokens=data.max_tokens,
        source_vocabulary=tokenizers.source.size,
        target_vocabulary=tokenizers.target.size,
        joint=tokenizers.joint,
        pair_format=pair_format.name,
        train=writer.train.facts,
        dev=writer.dev.facts,
        corpora=tuple(corpora),
        dev_corpus=dev_corpus,
    )
    survey.check(facts)
    _check_not_empty(facts)
    return facts


def _with_known_words(
    tokenizers: TokenizerPair,
    given: GivenTokenizers,
    pairs: Iterable[tuple[str, str]],
    *,
    both: bool = False,
) -> TokenizerPair:
    """Return ``tokenizers`` with the words of ``pairs`` and those that are given."""
    if both:
        pairs = (each for a, b in pairs for each in ((a, b), (b, a)))
    words = learn_known_words(pairs)
    if given.known_words is not None:
        words = words | given.known_words
    return replace(tokenizers, known_words=words)


def _check(data: DataSettings, folder: Path) -> None:
    if not data.corpora:
        raise SettingsError(
            ["data.corpora is empty; name at least one training corpus"]
        )
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_new and not (folder / FACTS).is_file():
        raise UsageError(
            f"{folder} exists and is not a prepared corpus, so it is not replaced; "
            "choose another name, or delete it yourself"
        )


def _up_to_date(folder: Path, name: str) -> PreparedCorpus | None:
    """Open ``folder`` if it is intact and has the fingerprint ``name``; else None."""
    try:
        corpus = PreparedCorpus.open(folder, thorough=True)
    except DataError:
        return None
    return corpus if corpus.facts.fingerprint == name else None


def _training_text(
    data: DataSettings, held_out: HeldOutSources
) -> Iterator[tuple[str, str]]:
    """Yield the training pairs, without held-out ones."""
    for corpus in data.corpora:
        for pair in read_pairs(corpus):
            if not pair.is_empty and pair.source not in held_out:
                yield pair.source, pair.target


def _check_not_empty(facts: PreparedFacts) -> None:
    for corpus in facts.all_corpora:
        if corpus.train + corpus.dev == 0:
            raise DataError(f"no pair is left: {_summary(corpus, facts.max_tokens)}")
    for name, split in (("training", facts.train), ("validation", facts.dev)):
        if not split.pairs:
            raise DataError(
                f"no pair is left for {name}:\n"
                + "\n".join(_summary(e, facts.max_tokens) for e in facts.all_corpora)
            )


def _summary(corpus: CorpusFacts, max_tokens: int) -> str:
    """Return the counts of a corpus as one line."""
    how = " in both directions" if corpus.reversed else ""
    if corpus.further_parts:
        parts = corpus.train + corpus.further_parts
        how = f" in {parts:,} parts of at most max_tokens={max_tokens:,}"
    outcomes = {
        f"for training{how}": corpus.train,
        "for validation": corpus.dev,
        "dropped with an empty side": corpus.empty,
        f"dropped with more than max_tokens={max_tokens:,}": corpus.too_long,
        "dropped with the source of a validation pair": corpus.held_out,
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
