"""The batches of a run in their order, from wherever it stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from headwise.data.batches import Batch, Indices, TrainingOrder, make_batch
from headwise.data.prepared import PairStore, PreparedCorpus
from headwise.training.ranks import Ranks
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

Item = TypeVar("Item")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Place:
    """A batch, and where in the order of all batches it stands."""

    epoch: int
    number: int
    """Batches of the epoch up to and with this one."""

    in_update: int
    """Batches of the update before this one."""

    indices: Indices


def training_order(
    corpus: PreparedCorpus, settings: TrainingSettings, *, seed: int
) -> TrainingOrder:
    """Return the order of batches that a run with these settings takes."""
    return TrainingOrder(
        corpus.train,
        seed=seed,
        batch_tokens=settings.batch_tokens,
        batch_pairs=settings.batch_pairs,
        in_rows=settings.kernels == "compiled",
    )


Feed = Generator[tuple[Place, Batch | None], None, None]


def feed(
    order: TrainingOrder, state: TrainingState, settings: TrainingSettings, ranks: Ranks
) -> Feed:
    """Yield what follows ``state``, up to the last epoch if there is one.

    Batches of other ranks are not read.
    """

    def read(place: Place) -> Batch | None:
        if not ranks.takes(place.in_update):
            return None
        return make_batch(order.store, place.indices)

    places = _places(order, state, settings)
    return read_ahead(places, read, settings.data_workers)


def _places(
    order: TrainingOrder, state: TrainingState, settings: TrainingSettings
) -> Iterator[Place]:
    epoch, start = state.epoch, state.batch
    count = 0
    while settings.epochs is None or epoch < settings.epochs:
        for number, indices in enumerate(
            order.epoch(epoch, start=start), start=start + 1
        ):
            yield Place(epoch, number, count % settings.accumulate, indices)
            count += 1
        epoch, start = epoch + 1, 0


def idle_batches(
    chosen: Sequence[tuple[Place, Batch | None]], store: PairStore, fair: int
) -> list[Batch]:
    """Return what a rank computes for nothing, to have ``fair`` batches of an update.

    In the last update of all others may have a batch where it has none.
    """
    own = sum(batch is not None for _, batch in chosen)
    if own == fair:
        return []
    first, _ = chosen[0]
    return [make_batch(store, first.indices)] * (fair - own)


def read_ahead(
    items: Iterable[Item], read: Callable[[Item], Read], workers: int
) -> Generator[tuple[Item, Read], None, None]:
    """Yield each item with what ``read`` makes of it; ``workers`` threads run ahead.

    Without workers each is read when it is asked for.
    """
    if not workers:
        for item in items:
            yield item, read(item)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="read-ahead")
    ahead: deque[tuple[Item, Future[Read]]] = deque()
    try:
        for item in items:
            ahead.append((item, pool.submit(read, item)))
            if len(ahead) > 2 * workers:
                first, future = ahead.popleft()
                yield first, future.result()
        while ahead:
            first, future = ahead.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
