"""What the store knows of batches, for those who submit them and for those who only look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from engine.display import plural
from engine.providers.batches.queue import Batch
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.tables import (
    BatchEventRow,
    BatchRow,
    BatchTakenRow,
    StoredBatch,
    UnsettledRow,
    utc_datetime,
)

KEPT: timedelta = timedelta(days=29)
"""How long after its end a provider keeps what came of a batch."""


@dataclass(slots=True)
class StoredBatches:
    """As `BatchLedger`."""

    store: Store
    cancels: bool = field(default=False, init=False)
    """Whether a person asked to cancel what is out."""
    claimed: Callable[[float], None] = field(init=False)

    def batches(self, place: str) -> list[Batch]:
        return [
            Batch(
                stored.row.key,
                stored.row.asks,
                stored.row.most_usd,
                stored.row.when,
                stored.provider_id,
                _time(stored.until),
                set(stored.taken),
            )
            for stored in self.store.reader.batches()
            if stored.row.place == place and stored.is_open
        ]

    async def intend(self, batch: Batch, place: str, label: str) -> None:
        await self.store.write(
            BatchRow(
                key=batch.key,
                place=place,
                model=label,
                asks=tuple(batch.asks),
                most_usd=batch.most_usd,
            )
        )

    def placed(self, batch: Batch) -> None:
        until = None if batch.until is None else round(batch.until.timestamp() * 1000)
        self.store.tell(BatchEventRow(batch=batch.key, provider_id=batch.provider_id, until=until))

    async def give_up(self, *, unsure: bool) -> None:
        """Give up batches whose results no provider keeps any more; with `unsure`, also those that
        may never have been submitted. They are counted as the most that they may have cost."""
        now = datetime.now(UTC)
        lost = [
            stored
            for stored in self.store.reader.batches()
            if stored.is_open
            and (now - stored.row.when > KEPT or (unsure and stored.provider_id is None))
        ]
        for stored in lost:
            await self.store.write(
                BatchEventRow(batch=stored.row.key), UnsettledRow(most_usd=stored.most_usd)
            )

    def unanswered(self, call: str) -> None:
        self.store.tell(BatchTakenRow(call=call))


def _time(at: int | None) -> datetime | None:
    return None if at is None else utc_datetime(at)


def batch_lines(reader: Reader, now: datetime | None = None) -> Iterator[str]:
    """Say of each batch that is out since when and until when."""
    now = now or datetime.now(UTC)
    for stored in reader.batches():
        if stored.is_open and now - stored.row.when < KEPT:
            yield _words(stored, now)


def _words(stored: StoredBatch, now: datetime) -> str:
    row, until = stored.row, _time(stored.until)
    left = len(row.asks) - len(stored.taken)
    calls = f"{plural(left, 'call')} to {row.model}"
    since = f"{row.when:%d %b %H:%M} UTC"
    most = f"up to ${stored.most_usd:.2f}"
    if stored.provider_id is None:
        return (
            f"{calls} may be in a batch since {since} ({most}): a run looks for it, and submits "
            "nothing of it again until that is known, or with --resubmit"
        )
    if until is not None and until < now:
        return f"{calls} were in a batch of {since} ({most}): a run fetches what came of it"
    latest = "" if until is None else f", until {until:%d %b %H:%M} UTC at the latest"
    return f"{calls} in a batch since {since}{latest} ({most})"
