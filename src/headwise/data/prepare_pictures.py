"""Prepare pictures or videos: patches as source rows, labels or captions as targets.

Three passes, as for text: all pictures are checked; the validation set is chosen, by a
hash of the pixels, and the labels are collected; patches are written.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from headwise.data.corpus_reader import Note
from headwise.data.npy_files import NpyWriter
from headwise.data.pair_formats import PairFormat
from headwise.data.pictures import PatchedPicture, PictureDataset, open_pictures
from headwise.data.prepared import CorpusFacts, PreparedFacts, SplitFacts
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.validation_split import (
    HeldOutSources,
    SmallestKeys,
    choose_held_out,
    key,
    keys_needed,
)
from headwise.errors import DataError, SettingsError
from headwise.text.patch_tokenizer import PatchTokenizer
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import GivenTokenizers, TokenizerPair, train_tokenizers
from headwise.wording import count_of


def hash_of_pictures(path: Path) -> str:
    """Return a hash of the pixels and labels of all pictures, in their order."""
    dataset = open_pictures(path, 1)
    found = hashlib.sha256(str(dataset.size).encode())
    for each in dataset:
        found.update(each.label.encode() + b"\0")
        found.update(each.pixels.tobytes())
    return found.hexdigest()


def write_pictures(
    data: DataSettings,
    text: TextSettings,
    draft: Path,
    patch_size: int,
    pair_format: PairFormat,
    *,
    seed: int,
    name: str,
    say: Note,
) -> PreparedFacts:
    """Write the pictures of ``data`` into ``draft``; return the counts.

    ``name`` is the fingerprint. Raises ``DataError`` with all faults of the pictures,
    or if they are not of one size, ``SettingsError`` for a ``patch_size`` that does not
    fit.
    """
    corpora = [open_pictures(Path(each.source), patch_size) for each in data.corpora]
    dev = open_pictures(Path(data.dev.source), patch_size) if data.dev else None
    cutter = PatchTokenizer(corpora[0].size, patch_size)
    _check_sizes([*corpora, *([dev] if dev else [])], cutter, data)
    share = pair_format.dev_share
    held_out = _choose_held_out(data, corpora, cutter, share, seed=seed)
    tokenizers = train_tokenizers(
        lambda: _labels(corpora, cutter, held_out),
        text,
        seed=seed,
        given=GivenTokenizers(source=cutter),
    )
    for note in tokenizers.notes:
        say(note)
    tokenizers.save(draft / "tokenizer")
    with _Writer(draft, tokenizers, cutter, data.max_tokens) as writer:
        counts = [
            writer.write(corpus, dataset, held_out)
            for corpus, dataset in zip(data.corpora, corpora, strict=True)
        ]
        dev_counts = writer.write(data.dev, dev, None) if data.dev and dev else None
    for each in (*counts, *([dev_counts] if dev_counts else [])):
        say(
            f"{each.source}: {count_of(each.read, 'picture')} read: {each.train:,} for "
            f"training, {each.dev:,} for validation"
            + (f", {each.held_out:,} dropped as in both" if each.held_out else "")
            + (
                f", {each.too_long:,} dropped with more than "
                f"max_tokens={data.max_tokens:,}"
                if each.too_long
                else ""
            )
        )
    splits = writer.facts
    for split, purpose in (("train", "training"), ("dev", "validation")):
        if not splits[split].pairs:
            raise DataError(f"no picture is left for {purpose}")
    return PreparedFacts(
        fingerprint=name,
        seed=seed,
        max_tokens=data.max_tokens,
        source_vocabulary=tokenizers.source.size,
        target_vocabulary=tokenizers.target.size,
        joint=False,
        pair_format=pair_format.name,
        train=splits["train"],
        dev=splits["dev"],
        corpora=tuple(counts),
        dev_corpus=dev_counts,
    )


def _check_sizes(
    datasets: Sequence[PictureDataset], cutter: PatchTokenizer, data: DataSettings
) -> None:
    first = datasets[0]
    for each in datasets[1:]:
        if each.size != first.size:
            raise DataError(
                f"{each.path} has pictures of {each.size}, but {first.path} of "
                f"{first.size}; all must have one size and mode"
            )
    if cutter.num_patches > data.max_tokens:
        raise SettingsError(
            [
                f"a picture has {cutter.num_patches:,} patches, which is above "
                f"data.max_tokens = {data.max_tokens:,}; raise that to "
                f"{cutter.num_patches:,}, or choose a larger patch_size in the "
                "settings of the task"
            ]
        )


def _choose_held_out(
    data: DataSettings,
    corpora: Sequence[PictureDataset],
    cutter: PatchTokenizer,
    share: int,
    *,
    seed: int,
) -> HeldOutSources:
    """Return which pictures are held out: none if there is a validation set."""
    if data.dev is not None:
        return HeldOutSources(seed)
    keys = SmallestKeys(keys_needed(data.dev_pairs))
    for dataset in corpora:
        for each in dataset:
            keys.add(key(seed, _as_text(each, cutter)))
    num_pairs = sum(map(len, corpora))
    return choose_held_out(
        keys, seed=seed, num_pairs=num_pairs, share=share, wanted=data.dev_pairs
    )


def _labels(
    corpora: Sequence[PictureDataset], cutter: PatchTokenizer, held_out: HeldOutSources
) -> Iterator[tuple[str, str]]:
    """Yield the label of each training picture, as the target of a pair."""
    for dataset in corpora:
        for each in dataset:
            if _as_text(each, cutter) not in held_out:
                yield "", each.label


def _as_text(picture: PatchedPicture, cutter: PatchTokenizer) -> str:
    return cutter.url_of_patches(picture.pixels)


class _Writer:
    """Context manager that writes the files of both splits."""

    def __init__(
        self,
        draft: Path,
        tokenizers: TokenizerPair,
        cutter: PatchTokenizer,
        max_tokens: int,
    ) -> None:
        self._tokenizers = tokenizers
        self._cutter = cutter
        self._max_tokens = max_tokens
        self._files = ExitStack()
        dtype = np.uint16 if tokenizers.target.size <= 2**16 else np.uint32
        splits = ("train", "dev")
        self._pixels, self._tokens, self._offsets = (
            {
                split: self._files.enter_context(
                    NpyWriter(draft / f"{split}.{kind}.npy", of)
                )
                for split in splits
            }
            for kind, of in (
                ("pixels", np.uint8),
                ("tokens", dtype),
                ("offsets", np.int64),
            )
        )
        for offsets in self._offsets.values():
            offsets.append([0])
        self._source, self._target, self._dropped = (
            self._files.enter_context(
                (draft / name).open("w", encoding="utf-8", newline="")
            )
            for name in ("dev.source.txt", "dev.target.txt", "dropped.tsv")
        )
        self._dropped.write("file\tline\treason\tsource_tokens\ttarget_tokens\n")
        self._keys_in_dev: set[int] = set()
        self._longest = dict.fromkeys(splits, 0)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        self._files.close()

    @property
    def facts(self) -> dict[str, SplitFacts]:
        """The counts of each split."""
        return {
            split: SplitFacts(
                pairs=self._count(split),
                source_tokens=self._count(split) * self._cutter.num_patches,
                target_tokens=self._tokens[split].size,
                longest_source=self._cutter.num_patches,
                longest_target=longest,
            )
            for split, longest in self._longest.items()
        }

    def _count(self, split: str) -> int:
        return self._offsets[split].size - 1

    def write(
        self,
        corpus: CorpusSettings,
        dataset: PictureDataset,
        held_out: HeldOutSources | None,
    ) -> CorpusFacts:
        """Write pictures: those in ``held_out``, or all if it is None, to dev."""
        outcomes: Counter[str] = Counter()
        first_pair = self._count("train")
        for number, picture in enumerate(dataset, start=1):
            target = self._target_of(picture)
            outcome = self._outcome(picture, target, held_out)
            outcomes[outcome] += 1
            if outcome in self._longest:
                self._add(outcome, picture, target)
            else:
                sizes = f"{self._cutter.num_patches}\t{len(target)}"
                self._dropped.write(f"{corpus.source}\t{number}\t{outcome}\t{sizes}\n")
        return CorpusFacts(
            source=corpus.source,
            target=None,
            weight=corpus.weight,
            first_pair=first_pair,
            read=outcomes.total(),
            train=outcomes["train"],
            dev=outcomes["dev"],
            empty=outcomes["empty"],
            too_long=outcomes["too_long"],
            held_out=outcomes["held_out"],
        )

    def _target_of(self, picture: PatchedPicture) -> list[int]:
        try:
            return self._tokenizers.target.encode(picture.label)
        except DataError as error:
            raise DataError(f"{picture.name}: {error}") from None

    def _outcome(
        self,
        picture: PatchedPicture,
        target: Sequence[int],
        held_out: HeldOutSources | None,
    ) -> str:
        if not target:
            return "empty"
        if len(target) > self._max_tokens:
            return "too_long"
        if held_out is None:
            return "dev"
        source = _as_text(picture, self._cutter)
        if source not in held_out:
            return "train"
        before = len(self._keys_in_dev)
        self._keys_in_dev.add(key(held_out.seed, source))
        return "dev" if len(self._keys_in_dev) > before else "held_out"

    def _add(self, split: str, picture: PatchedPicture, target: Sequence[int]) -> None:
        self._pixels[split].append(picture.pixels)
        self._tokens[split].append(target)
        self._offsets[split].append([self._tokens[split].size])
        self._longest[split] = max(self._longest[split], len(target))
        if split == "dev":
            self._source.write(f"{_as_text(picture, self._cutter)}\n")
            self._target.write(f"{picture.label}\n")
