"""The stored state of every conversation of a benchmark, read once for all planners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from engine.benchmark import ConversationKey, Stage
from engine.checks import CheckKind
from engine.jury import PlainVote
from engine.store.reader import Reader
from engine.store.tables import CheckRow, StoredTake, Verdict


@dataclass(frozen=True, slots=True)
class StoredConversations:
    """The takes, verdicts and checks of a benchmark."""

    newest: Mapping[ConversationKey, StoredTake]
    """The newest take of each conversation, complete or not."""
    counting: Mapping[ConversationKey, tuple[StoredTake, Sequence[Verdict]]]
    """The take that counts, where there is one, and all verdicts on it, oldest first."""
    checks: Mapping[int, Sequence[CheckRow]] = field(default_factory=dict)
    """The checks of each take, by its `seq`, oldest first."""
    failed: Mapping[tuple[Stage, str], str] = field(default_factory=dict)
    """The reasons of failed rows of work, by stage and id."""
    takes: Sequence[StoredTake] = ()
    """Every take, by conversation and number."""
    settled: frozenset[str] = frozenset()
    """The ids of conversations that are played and judged, and left out of all above."""

    @classmethod
    def of(
        cls,
        reader: Reader,
        benchmark: str,
        *,
        brief: bool = False,
        is_settled: Callable[[tuple[PlainVote, ...]], bool] | None = None,
    ) -> StoredConversations:
        """Read all of them from the store, verdicts as `Reader.verdicts_of` does; without those
        that have all they need, which `is_settled` says by the verdicts on one."""
        checks: defaultdict[int, list[CheckRow]] = defaultdict(list)
        for check in reader.checks(benchmark):
            checks[check.take].append(check)
        failed = {(row.stage, row.unit): row.reason or "" for row in reader.failed_units(benchmark)}
        settled: frozenset[str] = frozenset()
        if is_settled is not None:
            # most conversations have the same votes
            is_settled = lru_cache(is_settled)
            votes = reader.votes_on_newest(benchmark)
            settled = frozenset(unit for unit, given in votes if is_settled(given))
            settled -= {unit for stage, unit in failed if stage is Stage.SIMULATE}
        takes = reader.takes(benchmark, but=settled)
        # takes are ordered by number, so the last of each key remains
        finished = {take.key: take for take in takes if take.finished}
        verdicts = reader.verdicts_of((take.seq for take in finished.values()), brief=brief)
        return cls(
            newest={take.key: take for take in takes},
            takes=takes,
            counting={key: (take, verdicts[take.seq]) for key, take in finished.items()},
            checks=dict(checks),
            failed=failed,
            settled=settled,
        )

    def unanswered_checks(self, take: int) -> set[CheckKind]:
        """The kinds of checks that were asked for and gave no usable answer."""
        rows = self.checks.get(take, ())
        return {row.kind for row in rows} - {row.kind for row in rows if row.unusable is None}

    def newest_checks(self, take: int) -> list[CheckRow]:
        """The newest usable check of each kind, without those that had nothing to ask about."""
        newest = {row.kind: row for row in self.checks.get(take, ()) if row.unusable is None}
        return [row for row in newest.values() if row.answers]
