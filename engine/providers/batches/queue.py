"""Collects calls to a model, submits them as batches, and waits for the results.

A batch may take a day, and the engine may be killed at any moment meanwhile. So it is written down
with a key of ours before it is submitted, and whoever asks the same for the same row of work later
gets what became of that call instead of a second one. Of a batch whose submission nobody saw to its
end, the provider's list says whether it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from secrets import token_hex
from typing import Any, Final, NamedTuple, Protocol

from engine.display import plural
from engine.identity import BATCH_MARK
from engine.kill_points import KillPoint, reached
from engine.providers.accounts import Accounts, Clock, StoppableWaits
from engine.providers.http.transport import OnResponse
from engine.providers.limiter import HeldCalls
from engine.providers.model import BatchWork, Reserve

SHARE: Final = 0.5
"""What a call in a batch costs, as a share of its price, with both providers."""


@dataclass(frozen=True, slots=True)
class BatchPace:
    """When calls are submitted and results are asked for, in seconds, and how much at once."""

    quiet_s: float = 20.0
    """Calls are submitted when none has come for so long,"""
    longest_s: float = 600.0
    """or when the first has waited for so long."""
    step_s: float = 1.0
    """How often it is checked whether something is due."""
    first_look_s: float = 10.0
    longest_look_s: float = 60.0
    unsure_s: float = 120.0
    """From the submission until a batch that the provider does not list is certainly not there."""
    cancelling_s: float = 15.0
    most_calls: int = 1_000
    """In one batch, far below what providers allow (50,000 and 100,000): results come when a whole
    batch is done."""
    most_bytes: int = 32_000_000
    """The same of its size (200 and 256 MB)."""


PACE = BatchPace()


class ResultLine(NamedTuple):
    """The result of one call."""

    status: int | None
    """As of a response; None if the provider never came to it: it expired or was cancelled."""
    body: bytes
    of_batch: bool = False
    """Whether it is the response to a whole batch, which says nothing about this call."""


NEVER: Final = ResultLine(None, b"")


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch as the provider has it."""

    provider_id: str
    until: datetime | None
    """When it ends at the latest."""
    is_over: bool = False
    refusal: ResultLine | None = None
    """Why all of it failed."""


@dataclass(slots=True)
class Batch:
    """A batch of ours."""

    key: str
    asks: Sequence[str]
    most_usd: float
    at: datetime
    """When it was about to be submitted."""
    provider_id: str | None = None
    until: datetime | None = None
    over: set[int] = field(default_factory=set)
    """The places of the calls that need no result any more."""
    unsure: bool = False
    """Whether the provider has one of this time and size, and does not say yet whose it is."""
    look_at: float = 0.0
    pause_s: float = 0.0

    def call(self, place: int) -> str:
        return f"{self.key}-{place}"

    def place(self, call: str) -> int | None:
        """The place of a call; None if it is not of this batch."""
        key, _, number = call.rpartition("-")
        is_ours = key == self.key and number.isdecimal() and int(number) < len(self.asks)
        return int(number) if is_ours else None

    @property
    def call_usd(self) -> float:
        return self.most_usd / len(self.asks)

    @property
    def left(self) -> int:
        return len(self.asks) - len(self.over)


class BatchRefusedError(Exception):
    """The provider refused, as a response says."""

    def __init__(self, line: ResultLine) -> None:
        super().__init__(f"status {line.status}")
        self.line = line


class BatchUnseenError(Exception):
    """The provider could not be reached, so it is not known what became of the request."""


class BatchUnansweredError(Exception):
    """A call has got no answer in its batch, or is not to be asked in another."""


class BatchClient(Protocol):
    """The batches of one model at a provider. All raise `BatchRefusedError` and
    `BatchUnseenError`."""

    async def submit(self, key: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Placed:
        """Submit calls, by our names. Sent once: a second request would be a second batch."""
        ...

    async def find(self, batch: Batch, known: Collection[str]) -> Placed | None:
        """Find a batch that may have been submitted, or say that it is `unsure`. `known` are the
        ids of others of ours."""
        ...

    async def look(self, provider_id: str) -> Placed: ...

    def lines(self, provider_id: str) -> AsyncIterator[tuple[str, ResultLine]]:
        """Yield the results of a batch that is over, by our names."""
        ...

    async def cancel(self, provider_id: str) -> None: ...

    async def close(self) -> None: ...


class BatchLedger(Protocol):
    """What is on disk of batches."""

    cancels: bool
    """Whether a person asked to cancel what is out at the end."""

    def batches(self, place: str) -> list[Batch]:
        """All of a model that may have results that nobody has stored."""
        ...

    async def intend(self, batch: Batch, place: str, label: str) -> None:
        """Return when it is on disk."""
        ...

    def placed(self, batch: Batch) -> None:
        """Note that the provider has it; or never will, if it has no id."""
        ...

    def claimed(self, usd: float) -> None:
        """Note that a call that an earlier run submitted has cost nothing; `usd` is the most that
        it might have cost."""
        ...

    def unanswered(self, call: str) -> None:
        """Note that a call will have no result."""
        ...


OpenClient = Callable[[], BatchClient]
"""Called on a thread, as the clients are slow to import."""


@dataclass(slots=True)
class _WaitingCall:
    """A call that is not in a batch yet."""

    ask: str
    body: Mapping[str, Any]
    size: int
    most_usd: float
    future: asyncio.Future[tuple[str, ResultLine]]


class BatchQueue:
    """The calls to one model at one account. Belongs to one event loop."""

    def __init__(
        self, place: str, label: str, open_client: OpenClient, ledger: BatchLedger, clock: Clock
    ) -> None:
        self._place = place
        self._label = label
        self._open_client = open_client
        self._client: BatchClient | None = None
        self._ledger = ledger
        self._clock = clock
        self._waiting: list[_WaitingCall] = []
        self._first_came = self._last_came = 0.0
        self._batches = {batch.key: batch for batch in ledger.batches(place)}
        self._unclaimed: defaultdict[str, deque[str]] = defaultdict(deque)
        """Calls that were submitted before, by what they ask, until somebody asks it again."""
        for batch in self._batches.values():
            for number, ask in enumerate(batch.asks):
                if number not in batch.over:
                    self._unclaimed[ask].append(batch.call(number))
        self._futures: dict[str, asyncio.Future[tuple[str, ResultLine]]] = {}
        self._lines: dict[str, ResultLine] = {}
        """Results that nobody has asked for."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""

    async def line(
        self, ask: str, body: Mapping[str, Any], most_usd: float, reserve: Reserve
    ) -> tuple[str, ResultLine]:
        """Return our name of a call, and its result."""
        if not self._unclaimed.get(ask):
            await reserve(None)
        future: asyncio.Future[tuple[str, ResultLine]] = asyncio.get_running_loop().create_future()
        waiting: _WaitingCall | None = None
        if before := self._unclaimed.get(ask):
            call = before.popleft()
            await reserve(self._batches[call.rpartition("-")[0]].call_usd)
            if call in self._lines:
                return call, self._lines.pop(call)
            self._futures[call] = future
        else:
            waiting = _WaitingCall(ask, body, len(json.dumps(body)), most_usd, future)
            self._last_came = self._clock.monotonic()
            if not self._waiting:
                self._first_came = self._last_came
            self._waiting.append(waiting)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(self._ended)
        try:
            return await future
        finally:
            if waiting in self._waiting:  # nobody waits for it any more
                self._waiting.remove(waiting)

    async def close(self, *, cancel: bool) -> None:
        """Stop looking; with `cancel`, have the provider cancel what is out, too."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if cancel:
            with contextlib.suppress(TimeoutError, BatchUnseenError, BatchRefusedError):
                async with asyncio.timeout(PACE.cancelling_s):
                    await self._cancel()
        if self._client is not None:
            await self._client.close()

    async def _cancel(self) -> None:
        client = await self._opened()
        for batch in self._batches.values():
            if batch.provider_id is not None and batch.left:
                with contextlib.suppress(BatchRefusedError):  # it is over
                    await client.cancel(batch.provider_id)

    def held(self) -> HeldCalls | None:
        """Say what its calls wait for; None if there are none. Callable from any thread."""
        calls = len(self._futures) + len(self._waiting)
        if not calls:
            return None
        # copied first, as other threads call this
        batches = [batch for batch in list(self._batches.values()) if batch.left]
        return HeldCalls(_waiting_words(batches, self._trouble), None, calls)

    async def _opened(self) -> BatchClient:
        if self._client is None:
            # on a thread, as it imports the provider's client
            self._client = await asyncio.to_thread(self._open_client)
        return self._client

    async def _work(self) -> None:
        while True:
            if not self._waiting and not self._futures:
                self._wake.clear()
                await self._wake.wait()
            try:
                client = await self._opened()
                while self._is_due():
                    await self._submit(client)
                for batch in [one for one in self._batches.values() if one.left]:
                    if self._clock.monotonic() >= batch.look_at:
                        await self._look(client, batch)
                self._trouble = ""
            except BatchUnseenError as error:
                self._trouble = str(error)
            await self._clock.sleep(PACE.step_s)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for ever for a task that has ended."""
        error = None if task.cancelled() else task.exception()
        waiting = [call.future for call in self._waiting]
        for future in [*self._futures.values(), *waiting]:
            if error is None:
                future.cancel()
            elif not future.done():
                future.set_exception(error)

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        now = self._clock.monotonic()
        return (
            len(self._waiting) >= PACE.most_calls
            or sum(call.size for call in self._waiting) >= PACE.most_bytes
            or now - self._last_came >= PACE.quiet_s
            or now - self._first_came >= PACE.longest_s
        )

    async def _submit(self, client: BatchClient) -> None:
        calls = self._next_calls()
        asks = [call.ask for call in calls]
        most = sum(call.most_usd for call in calls)
        batch = Batch(f"{BATCH_MARK}{token_hex(8)}", asks, most, self._clock.now())
        self._batches[batch.key] = batch
        for number, call in enumerate(calls):
            self._futures[batch.call(number)] = call.future
        # on disk first: whoever follows a killed engine must know what may have been submitted
        await self._ledger.intend(batch, self._place, self._label)
        reached(KillPoint.BATCH_INTENDED)
        bodies = [(batch.call(number), call.body) for number, call in enumerate(calls)]
        self._look_later(batch)
        try:
            placed = await client.submit(batch.key, bodies)
        except BatchRefusedError as error:
            self._drop(batch, error.line._replace(of_batch=True))
            return
        reached(KillPoint.BATCH_SUBMITTED)
        self._note(batch, placed)

    def _next_calls(self) -> list[_WaitingCall]:
        size = number = 0
        for call in self._waiting[: PACE.most_calls]:
            size += call.size
            # one call that is too large goes alone, and the provider says so
            if number and size > PACE.most_bytes:
                break
            number += 1
        calls, self._waiting = self._waiting[:number], self._waiting[number:]
        self._first_came = self._clock.monotonic()
        return calls

    def _note(self, batch: Batch, placed: Placed) -> None:
        """Note that the provider has a batch."""
        batch.provider_id, batch.until, batch.unsure = placed.provider_id, placed.until, False
        self._ledger.placed(batch)

    def _drop(self, batch: Batch, line: ResultLine) -> None:
        """Forget a batch that the provider does not have. Each of its calls gets this result."""
        batch.provider_id = None
        self._ledger.placed(batch)
        for number in range(len(batch.asks)):
            if number not in batch.over:
                self._deliver(batch, number, line)
                self._lines.pop(batch.call(number), None)
        for calls in self._unclaimed.values():
            for call in [one for one in calls if batch.place(one) is not None]:
                calls.remove(call)
                self._ledger.claimed(batch.call_usd)

    def _look_later(self, batch: Batch) -> None:
        # longer each time: most take minutes, some a day
        batch.pause_s = min(batch.pause_s * 1.5 or PACE.first_look_s, PACE.longest_look_s)
        batch.look_at = self._clock.monotonic() + batch.pause_s

    async def _look(self, client: BatchClient, batch: Batch) -> None:
        self._look_later(batch)
        if batch.provider_id is None:
            await self._search(client, batch)
            return
        try:
            placed = await client.look(batch.provider_id)
            if placed.until != batch.until:
                self._note(batch, placed)
            if placed.is_over:
                await self._fetch(client, batch, placed)
        except BatchRefusedError as error:
            if error.line.status != 404:
                raise BatchUnseenError(f"the provider answers {error.line.status}") from None
            # it keeps results for a month
            self._finish(batch, NEVER)

    async def _search(self, client: BatchClient, batch: Batch) -> None:
        known = {one.provider_id for one in self._batches.values() if one.provider_id is not None}
        batch.unsure = False
        try:
            found = await client.find(batch, known)
        except BatchRefusedError as error:
            raise BatchUnseenError(f"the provider answers {error.line.status}") from None
        age_s = (self._clock.now() - batch.at).total_seconds()
        if isinstance(found, Placed):
            self._note(batch, found)
            batch.look_at = 0.0
        elif not batch.unsure and age_s >= PACE.unsure_s:
            self._drop(batch, NEVER)

    async def _fetch(self, client: BatchClient, batch: Batch, placed: Placed) -> None:
        if placed.refusal is None:
            async for call, line in client.lines(placed.provider_id):
                number = batch.place(call)
                if number is not None and number not in batch.over:
                    self._deliver(batch, number, line)
        refusal = placed.refusal and placed.refusal._replace(of_batch=True)
        self._finish(batch, refusal or NEVER)

    def _finish(self, batch: Batch, rest: ResultLine) -> None:
        """Give this result to all calls that have none."""
        for number in range(len(batch.asks)):
            if number not in batch.over:
                self._deliver(batch, number, rest)

    def _deliver(self, batch: Batch, number: int, line: ResultLine) -> None:
        call = batch.call(number)
        batch.over.add(number)
        if line.status is None and batch.provider_id is not None:
            self._ledger.unanswered(call)
        future = self._futures.pop(call, None)
        if future is None:
            self._lines[call] = line
        elif not future.done():
            future.set_result((call, line))


def _waiting_words(batches: Sequence[Batch], trouble: str) -> str:
    if trouble:
        return trouble
    unsure = [batch for batch in batches if batch.unsure]
    if unsure:
        at = f"{unsure[0].at:%d %b %H:%M} UTC"
        return f"may be in a batch since {at}, as one of that size is at work"
    out = [batch for batch in batches if batch.provider_id is not None]
    if not out:
        return "collected for a batch"
    since = min(batch.at for batch in out)
    untils = [batch.until for batch in out if batch.until is not None]
    # the end first: Live cuts the line at 80 cells
    until = f" until {max(untils):%d %b %H:%M} UTC," if untils else ""
    count = "in a batch" if len(out) == 1 else f"in {plural(len(out), 'batch', 'batches')}"
    return f"{count}{until} since {since:%d %b %H:%M}{'' if untils else ' UTC'}"


@dataclass(slots=True)
class BatchTransport:
    """Sends the requests of one reply in batches, in the place of a connection."""

    queue: BatchQueue
    stoppable: StoppableWaits
    name: str
    """What the reply is for; the same after a restart."""
    most_usd: float
    reserve: Reserve
    only_first: bool
    """Whether a second request is not to be made in a batch."""
    is_whole_refused: bool = False
    """Whether the last response was one to a whole batch."""
    _sent: bool = False

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """As `Transport`, but the answer is one document. Raises `BatchUnansweredError`, and
        `StopRequested` at a stop, which the batch outlives."""
        del headers  # the queue's client sends them
        if self._sent and self.only_first:
            raise BatchUnansweredError
        self._sent = True
        request = json.loads(body)
        for name in ("stream", "stream_options"):
            # a batch answers with documents
            request.pop(name, None)
        # sorted, so that the same call is found again after a restart
        made_from = json.dumps([self.name, request], sort_keys=True).encode()
        ask = hashlib.blake2b(made_from, digest_size=16).hexdigest()
        async with self.stoppable.waiting():
            call, line = await self.queue.line(ask, request, self.most_usd, self.reserve)
        self.is_whole_refused = line.of_batch
        if line.status is None or (line.of_batch and self.only_first):
            raise BatchUnansweredError
        on_body = on_response(
            line.status, {"content-type": "application/json", "x-request-id": call}
        )
        on_body(line.body)

    def waits_for(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing: the queue is closed by whoever opened it."""


class ModelBatches:
    """Opens a queue for each key. Belongs to one event loop; closed with the accounts."""

    def __init__(
        self, ledger: BatchLedger, accounts: Accounts, *, only_first: bool = False
    ) -> None:
        """With `only_first`, whatever is asked again is not asked in a batch."""
        self.only_first = only_first
        self._ledger = ledger
        self._accounts = accounts
        self._queues: dict[bytes, BatchQueue] = {}
        accounts.close_later(self._close)

    def transport(
        self,
        open_client: OpenClient,
        label: str,
        place: str,
        key: str,
        headers: Mapping[str, str],
        work: BatchWork,
        seed: int,
    ) -> BatchTransport:
        """Return what makes the requests of one reply. `place` names model and address on disk."""
        # by a digest, so that no table is keyed with keys
        made_from = repr([place, key, sorted(headers.items())]).encode()
        account = hashlib.blake2b(made_from, digest_size=16).digest()
        if account not in self._queues:
            self._queues[account] = BatchQueue(
                place, label, open_client, self._ledger, self._accounts.clock
            )
        return BatchTransport(
            self._queues[account],
            self._accounts.stoppable,
            f"{work.name} {seed}",
            work.most_usd,
            work.reserve,
            self.only_first,
        )

    def held(self) -> HeldCalls | None:
        """Say what its calls wait for; None if they do not. Callable from any thread."""
        held = [queue.held() for queue in list(self._queues.values())]
        return next((one for one in held if one is not None), None)

    async def _close(self) -> None:
        for queue in self._queues.values():
            await queue.close(cancel=self._ledger.cancels)
