"""The data loader: batches in training order from any state, with prefetching."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from headwise.data.batches import (
    Indices,
    TrainingOrder,
    largest_batch,
    make_batch,
    seeded_random,
)
from headwise.data.example_stores import ExampleStore, PairStore
from headwise.data.picture_store import PictureStore
from headwise.data.prepared import PreparedCorpus, SplitFacts
from headwise.data.ragged_batch import Batch
from headwise.data.text_augmentation import TextAugmentation
from headwise.data.token_stream import TokenStream
from headwise.data.window_order import WindowOrder
from headwise.data.word_dropout import drop_words
from headwise.training.distributed import Ranks
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """The position of a batch in the training order, and the pairs in it."""

    epoch: int
    number: int
    """Position within the epoch, counted from 1."""

    index_in_step: int
    """Position among the batches of its optimizer step, counted from 0."""

    indices: Indices
    """Indices of its pairs in the prepared corpus."""


BatchStream = Generator[tuple[BatchPosition, Batch | None], None, None]
"""Positions with their batches: None where another rank has the batch."""


PrepareBatch = Callable[[Batch, np.random.PCG64], Batch]
"""What a task makes of a batch for training: see ``Task.training_batch``."""

NOISE = 1
"""Distinguishes random numbers for the tokens of a batch from those of its order."""

AnyOrder = TrainingOrder | WindowOrder
"""Batches of pairs, or of windows of a text."""


def training_order(
    corpus: PreparedCorpus, settings: TrainingSettings, *, seed: int
) -> AnyOrder:
    """Return the order of batches: a function of corpus, settings and seed."""
    if isinstance(corpus.train, TokenStream):
        return WindowOrder(
            corpus.train,
            seed=seed,
            batch_tokens=settings.example_tokens,
            batch_pairs=settings.batch_pairs,
        )
    assert isinstance(corpus.train, PairStore | PictureStore)
    return TrainingOrder(
        corpus.train,
        seed=seed,
        batch_tokens=settings.example_tokens,
        batch_pairs=settings.batch_pairs,
        packed=settings.backend == "torch_compile",
        augmentation=text_augmentation(corpus, settings, seed=seed),
    )


def text_augmentation(
    corpus: PreparedCorpus, settings: TrainingSettings, *, seed: int
) -> TextAugmentation | None:
    """Return what draws texts anew in each epoch; None if the settings ask for none."""
    if not settings.draws_texts:
        return None
    text = corpus.tokenizers.settings
    return TextAugmentation(
        corpus,
        seed=seed,
        rates=settings.segmentation_rates(text.source_kind, text.target_kind),
        noise=settings.source_noise,
        keeps_mean=settings.objective == "mean",
    )


def planned_facts(corpus: PreparedCorpus, order: AnyOrder) -> SplitFacts:
    """Return the counts of the training set by the most tokens that texts may have."""
    facts = corpus.facts.train
    augmentation = order.augmentation
    return facts if augmentation is None else augmentation.planned_facts(facts)


def augmentation_note(order: AnyOrder) -> str | None:
    """Return a message on the lengths of drawn texts; None: they are as they were."""
    if order.augmentation is None or order.augmentation.growth == (1.0, 1.0):
        return None
    source, target = order.augmentation.growth
    return (
        f"other segmentations have {source:.2f} times the source tokens and "
        f"{target:.2f} times the target tokens of the corpus; a batch has fewer pairs, "
        "so that they fit into it"
    )


def load_batches(
    order: AnyOrder,
    state: TrainingState,
    settings: TrainingSettings,
    ranks: Ranks,
    prepare: PrepareBatch,
) -> BatchStream:
    """Yield the batches that follow ``state``, up to the last epoch if there is one.

    ``prepare`` gets a random generator that depends on the seed and the position of the
    batch alone. Batches of other ranks are not read. ``settings.data_workers`` threads
    prefetch.
    """
    rate = settings.word_dropout

    def load(position: BatchPosition) -> Batch | None:
        if not ranks.has_batch(position.index_in_step):
            return None
        random = seeded_random(order.seed, position.epoch, position.number, NOISE)
        batch = prepare(order.make_batch(position.epoch, position.indices), random)
        return drop_words(batch, rate, random) if rate else batch

    return prefetch(_positions(order, state, settings), load, settings.data_workers)


def _positions(
    order: AnyOrder, state: TrainingState, settings: TrainingSettings
) -> Iterator[BatchPosition]:
    epoch, start = state.epoch, state.batch
    count = 0
    while settings.epochs is None or epoch < settings.epochs:
        for number, indices in enumerate(
            order.epoch(epoch, start=start), start=start + 1
        ):
            yield BatchPosition(epoch, number, count % settings.accumulate, indices)
            count += 1
        epoch, start = epoch + 1, 0


def largest_training_batch(
    corpus: PreparedCorpus, order: AnyOrder, settings: TrainingSettings
) -> Batch:
    """Return a dummy batch as large as the largest that training may have."""
    facts = corpus.facts
    return largest_batch(
        *planned_facts(corpus, order).longest,
        settings.example_tokens,
        settings.batch_pairs,
        facts.ends,
        facts.patch_values,
    )


def make_dummy_batches(
    loaded: Sequence[tuple[BatchPosition, Batch | None]],
    store: ExampleStore,
    count: int,
) -> list[Batch]:
    """Return the batches that this rank lacks to have ``count`` of a step.

    They are run with loss scale 0: in a run's last step another rank may have one batch
    more, but all ranks reduce gradients, and sharded passes are collective.
    """
    own = sum(batch is not None for _, batch in loaded)
    if own == count:
        return []
    first, _ = loaded[0]
    return [make_batch(store, first.indices)] * (count - own)


def prefetch(
    items: Iterable[Item], load: Callable[[Item], Loaded], num_threads: int
) -> Generator[tuple[Item, Loaded], None, None]:
    """Yield (item, load(item)) in order; ``num_threads`` threads load ahead.

    With 0 threads each item is loaded when it is asked for.
    """
    if not num_threads:
        for item in items:
            yield item, load(item)
        return
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="prefetch")
    queue: deque[tuple[Item, Future[Loaded]]] = deque()
    try:
        for item in items:
            queue.append((item, pool.submit(load, item)))
            if len(queue) > 2 * num_threads:
                first, future = queue.popleft()
                yield first, future.result()
        while queue:
            first, future = queue.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
