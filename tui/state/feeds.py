"""Feeds of a benchmark's verdicts and standings as they arrive."""

from __future__ import annotations

import asyncio
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeGuard, TypeVar

from engine.benchmark import ConversationKey, Track
from engine.errors import CrosswindError
from engine.facts import Fact, TakeEnded, VerdictGiven
from engine.jury import AskedConversations, NotCounted
from engine.progress import TrackScore
from engine.store.open_reader import open_reader
from engine.store.tables import VerdictRow
from engine.watch import Watch

if TYPE_CHECKING:
    from engine.pipeline.scores import ScoreCounts
    from engine.statistics.rates import Rate


CHUNK: Final = 1000
"""The most rows taken in at once; more would hold up the screen."""


def _replaces(fact: Fact) -> TypeGuard[TakeEnded]:
    """Whether the fact ends a later take, so that verdicts on the earlier one no longer count."""
    return isinstance(fact, TakeEnded) and fact.take > 0 and fact.stop_reason.finished


class VerdictFeed:
    """The verdicts of one benchmark in order of arrival. Keeps a key and a seq of each in memory,
    and reads the rest by the page."""

    def __init__(self, watch: Watch, benchmark: str) -> None:
        self.benchmark = benchmark
        self._reader = watch.reader
        self._watch = watch
        self._judges = watch.judges
        """The judges that were known to count when rows were last pulled."""
        self._keys: list[ConversationKey] = []
        self._seqs = array("q")
        """The seq of the newest verdict on each key."""
        self._places: dict[ConversationKey, int] = {}
        self.asked: AskedConversations | None = None
        """The conversations that count; None where it is not known yet, or all do."""
        self._marked: AskedConversations | None = None
        """The same when rows were last pulled."""
        self._replaced: set[int] = set()
        """The positions of conversations that have been played again since."""
        self._seen = 0
        self._received, self._read_for = 0, -1
        """The seq of the newest verdict received, and of the newest one read."""

    def receive(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, VerdictGiven) and fact.benchmark == self.benchmark:
                self._received = fact.seq
            elif _replaces(fact) and fact.benchmark == self.benchmark:
                place = self._places.get(fact.key)
                self._replaced |= set() if place is None else {place}

    @property
    def behind(self) -> bool:
        """Whether a verdict was received that `pull` has not read yet, or others count."""
        news = self._received > self._read_for or bool(self._replaced)
        return news or self._others_count

    @property
    def _others_count(self) -> bool:
        if self.asked is not self._marked and self.asked == self._marked:
            self._marked = self.asked  # so that equal ones are compared once
        return self._judges != self._watch.judges or self.asked is not self._marked

    def pull(self) -> tuple[list[int], bool]:
        """Read new verdicts. Returns the changed rows, and whether there is more."""
        rows = self._rows(after=self._seen, limit=CHUNK)
        # a full chunk may not be all, so the feed stays behind
        if len(rows) < CHUNK:
            self._read_for = self._received
        changed, self._replaced = sorted(self._replaced), set()
        if self._others_count:
            # who is quoted, or what is marked, changes everywhere
            self._judges, self._marked = self._watch.judges, self.asked
            changed = list(range(len(self._keys)))
        for row in rows:
            self._seen = max(self._seen, row.seq)
            place = self._places.get(row.key)
            if place is None:
                self._places[row.key] = len(self._keys)
                self._keys.append(row.key)
                self._seqs.append(row.seq)
            else:
                self._seqs[place] = row.seq
                changed.append(place)
        return changed, len(rows) >= CHUNK

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, index: int) -> ConversationKey:
        return self._keys[index]

    def why_not(self, key: ConversationKey) -> NotCounted | None:
        """Why results do not have this conversation; None if they do."""
        return None if self.asked is None else self.asked.why_not(key)

    def page(self, start: int, count: int) -> Sequence[VerdictRow | None]:
        """Read a page; None for a row without a verdict, as after it was played again."""
        wanted = self._seqs[start : start + count]
        if not wanted:
            return []
        # most were judged in sequence, so one query finds nearly all
        first = min(wanted)
        near = self._rows(after=first - 1, limit=count)
        by_key = {row.key: row for row in near}
        return [
            by_key.get(self._keys[place]) or self._single_row(self._keys[place], seq)
            for place, seq in enumerate(wanted, start)
        ]

    def _single_row(self, key: ConversationKey, seq: int) -> VerdictRow | None:
        """Read one row that was judged again long after its neighbours."""
        rows = self._rows(after=seq - 1, limit=1)
        return rows[0] if rows and rows[0].key == key else None

    def _rows(self, *, after: int, limit: int) -> list[VerdictRow]:
        return self._reader.verdict_rows(
            self.benchmark, self._watch.judges, after=after, limit=limit
        )


AGAIN_AFTER: Final = 2.0
"""The least number of seconds between two computations."""
SHARE: Final = 40
"""The least wait as a multiple of the last duration, so that a large store takes no larger share of
the time than a small one."""
Standings: TypeAlias = "Mapping[tuple[str, Track], Rate]"
"""Standings by target and track."""


_Found = TypeVar("_Found")


class BenchmarkFeed(Generic[_Found]):
    """Receives verdicts, says when a benchmark's figures must be computed again, and caches
    them."""

    def __init__(self, work: Callable[[str], _Found]) -> None:
        """`work` runs on a thread and may raise `CrosswindError`."""
        self._work = work
        self._known: dict[str, _Found] = {}
        self._asked: dict[str, int] = {}
        """By benchmark: the last verdict known when its figures were requested."""
        self._judged: dict[str, int] = {}
        """By benchmark: the last verdict received."""
        self._faults: dict[str, str] = {}
        self._asked_at = float("-inf")
        self._took = 0.0
        self._reading = False

    def receive(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, VerdictGiven) or _replaces(fact):
                self._judged[fact.benchmark] = fact.seq

    def of(self, benchmark: str) -> _Found | None:
        """The cached figures; None if not computed yet."""
        return self._known.get(benchmark)

    def fault(self, benchmark: str) -> str | None:
        """Why the last computation failed."""
        return self._faults.get(benchmark)

    def forget_asked(self) -> None:
        """Make everything due again, after a change other than verdicts."""
        self._asked.clear()

    def due(self, benchmark: str, seconds: float) -> bool:
        """Whether the figures have changed and enough time has passed to `read` again."""
        if self._reading:
            return False
        asked = self._asked.get(benchmark)
        if asked is None:
            return True
        pause = max(AGAIN_AFTER, SHARE * self._took)
        # both: otherwise a run that judges continuously would be computed continuously
        return self._judged.get(benchmark, 0) > asked and seconds - self._asked_at >= pause

    async def read(self, benchmark: str, seconds: float) -> None:
        """Compute the figures on a thread, since it takes a while on a large store."""
        self._reading, self._asked_at = True, seconds
        # before the thread reads: a verdict that arrives meanwhile makes it due again
        self._asked[benchmark] = self._judged.get(benchmark, 0)
        began = monotonic()
        try:
            self._known[benchmark] = await asyncio.to_thread(self._work, benchmark)
            self._faults.pop(benchmark, None)
        except CrosswindError as error:
            self._faults[benchmark] = str(error)
        finally:
            self._reading = False
            self._took = monotonic() - began


class ScoreFeed(BenchmarkFeed["ScoreCounts"]):
    """Standings of targets and metrics. Rates include the verdicts that came since the last
    computation, so that they agree with the other counts."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(lambda name: _read(watch, name))
        self._later: defaultdict[str, list[VerdictGiven]] = defaultdict(list)
        """By benchmark: verdicts that change the figures and may not be in them yet."""

    def receive(self, facts: Sequence[Fact]) -> None:
        super().receive(facts)
        for fact in facts:
            if isinstance(fact, VerdictGiven) and fact.counted is not fact.counted_before:
                self._later[fact.benchmark].append(fact)

    def counts(self, benchmark: str) -> Mapping[tuple[str, Track], TrackScore] | None:
        """What passed and was scored, by target and track; None if nothing was computed yet."""
        known = self.of(benchmark)
        if known is None:
            return None
        later = [fact for fact in self._later[benchmark] if fact.seq > known.through]
        self._later[benchmark] = later
        counts = defaultdict(TrackScore)
        for place, rate in known.rates.items():
            counts[place] = TrackScore(rate.passed, rate.scored)
        for fact in later:
            if known.asked is None or known.asked.why_not(fact.key) is None:
                place = fact.key.target_id, fact.track
                counts[place].replace(fact.counted_before, fact.counted)
        return counts

    def rates(self, benchmark: str) -> Standings:
        """The current rates; empty if none were computed yet."""
        known, counts = self.of(benchmark), self.counts(benchmark)
        if known is None or counts is None:
            return {}
        return {
            place: _updated_rate(rate, counts[place])
            for place, rate in known.rates.items()
            if counts[place].scored > 0
        }


def _updated_rate(rate: Rate, count: TrackScore) -> Rate:
    if (count.passed, count.scored) == (rate.passed, rate.scored):
        return rate
    return rate.with_counts(min(max(count.passed, 0), count.scored), count.scored)


def _read(watch: Watch, benchmark: str) -> ScoreCounts:
    """Read through a separate connection: in a large store it takes a while, and the watch must not
    wait."""
    # 70 ms that the first frame does not wait for: nothing is scored by then
    from engine.pipeline.scores import ScoreCounts, scores

    store = watch.reader.path
    if not store.exists():
        return ScoreCounts({}, (), {})
    with closing(open_reader(store)) as reader:
        counts = watch.counts(benchmark, reader)
        asked = None if counts is None else counts.asked
        return scores(reader, benchmark, watch.judges, asked)
